#include "platform/device/cuda/cuda_platform.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// 13020 is 13.2.
std::string version_text(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// Why CUDA shows no device.
absl::Status explain(CudaApi& api, cudaError_t error) {
  (void)api.get_last_error();
  int driver = 0;
  int runtime = 0;
  if (api.driver_get_version(&driver) != cudaSuccess || driver == 0) {
    return absl::NotFoundError(
        "there is no NVIDIA driver: libcuda.so.1 is not installed");
  }
  if (error == cudaErrorNoDevice) {
    return absl::NotFoundError(
        "the NVIDIA driver shows no GPU to this process");
  }
  if (error == cudaErrorInsufficientDriver &&
      api.runtime_get_version(&runtime) == cudaSuccess) {
    return absl::FailedPreconditionError(
        absl::StrCat("the NVIDIA driver is for CUDA ", version_text(driver),
                     " and must be for ", version_text(runtime), " or newer"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cudaGetDeviceCount: ", api.get_error_string(error), " (",
                   api.get_error_name(error), ")"));
}

absl::Status find_device(CudaApi& api, int index) {
  int count = 0;
  const cudaError_t error = api.get_device_count(&count);
  if (error != cudaSuccess) return explain(api, error);
  if (count == 0) return explain(api, cudaErrorNoDevice);
  if (index < count) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this rank needs GPU ", index, ", and this machine has ",
                   count, count == 1 ? " GPU" : " GPUs",
                   " that it may use (CUDA_VISIBLE_DEVICES); each rank needs "
                   "one of its own"));
}

// What a device that cannot be readied says.
absl::Status in_device(int index, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("GPU ", index, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaPlatform>> CudaPlatform::create(
    const CudaDeviceOptions& options, std::unique_ptr<CudaApi> api,
    std::unique_ptr<CudaTorch> torch) {
  RETURN_IF_ERROR(find_device(*api, options.index));
  auto device = CudaDevice::create(options, api.get(), torch.get());
  if (!device.ok()) return in_device(options.index, device.status());
  // After it, since LibTorch uses the thread's current device, which GPU 0 is
  // before that, for whatever needs none.
  RETURN_IF_ERROR((*device)->use());
  RETURN_IF_ERROR(torch->load(options.index));
  return absl::WrapUnique(new CudaPlatform(
      options.index, std::move(api), std::move(torch), *std::move(device)));
}

std::string CudaPlatform::torch_device() const {
  return absl::StrCat("cuda:", index_);
}

}  // namespace ferry
