#include "platform/device/cuda/libtorch_cuda.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <link.h>

#include <exception>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

c10::Device device_of(int index) {
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

c10::Stream stream_of(int index, int64_t stream) {
  return c10::Stream(c10::Stream::UNSAFE, device_of(index), stream);
}

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(c10::kCUDA);
}

// The folder of the LibTorch that this process has loaded, without links: there
// lies what belongs to it.
absl::StatusOr<std::filesystem::path> find_libtorch() {
  void* const library = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  link_map* map = nullptr;
  if (library == nullptr ||
      ::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) {
    return absl::InternalError("libtorch_cpu.so is not part of this program");
  }
  std::error_code error;
  const std::filesystem::path file =
      std::filesystem::canonical(map->l_name, error);
  ::dlclose(library);
  if (error) {
    return absl::InternalError(
        absl::StrCat("libtorch_cpu.so: ", error.message()));
  }
  return file.parent_path();
}

// It stays open as long as the process: LibTorch holds pointers into it.
absl::Status open_kernels() {
  ASSIGN_OR_RETURN(const std::filesystem::path folder, find_libtorch());
  const std::string file = folder / "libtorch_cuda.so";
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "LibTorch's CUDA kernels cannot be opened: ", ::dlerror(),
      "; run tools/setup --cuda, and put .deps/cuda/nvidia/*/lib into "
      "LD_LIBRARY_PATH"));
}

}  // namespace

absl::Status LibtorchCuda::load(int device) {
  RETURN_IF_ERROR(open_kernels());
  try {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    if (guard().deviceCount() <= device) {
      return absl::FailedPreconditionError(
          absl::StrCat("LibTorch sees ", guard().deviceCount(),
                       " GPUs, and not GPU ", device));
    }
    // Makes the streams that LibTorch keeps.
    (void)guard().getStream(device_of(device));
  } catch (const c10::Error& error) {
    return absl::FailedPreconditionError(absl::StrCat(
        "LibTorch cannot use CUDA: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("LibTorch cannot use CUDA: ", error.what()));
  }
  return absl::OkStatus();
}

int64_t LibtorchCuda::current_stream(int device) const {
  return guard().getStream(device_of(device)).id();
}

int64_t LibtorchCuda::exchange_current_stream(int device, int64_t stream) {
  return guard().exchangeStream(stream_of(device, stream)).id();
}

cudaStream_t LibtorchCuda::stream_handle(int device, int64_t stream) const {
  return static_cast<cudaStream_t>(
      guard().getStreamNativeHandle(stream_of(device, stream)));
}

void LibtorchCuda::empty_cache() {
  try {
    c10::getDeviceAllocator(c10::kCUDA)->emptyCache();
  } catch (const std::exception& error) {
    // Who needed the memory will find that it is not there.
    log_warning("LibTorch's cache was not emptied", {{"error", error.what()}});
  }
}

}  // namespace ferry
