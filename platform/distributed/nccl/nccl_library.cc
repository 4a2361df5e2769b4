#include "platform/distributed/nccl/nccl_library.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Finds a function of the library by its name.
template <typename Function>
absl::Status find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "NCCL has no ", name, "; version 2.14 or later has: ", ::dlerror()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclLibrary>> NcclLibrary::open(
    const std::string& name) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "NCCL cannot be opened: ", ::dlerror(),
        "; third_party/cuda_requirements.txt names the wheel that has it"));
  }
  Calls calls = {};
  RETURN_IF_ERROR(find(library, "ncclGetVersion", &calls.get_version));
  RETURN_IF_ERROR(find(library, "ncclGetUniqueId", &calls.get_unique_id));
  RETURN_IF_ERROR(
      find(library, "ncclCommInitRankConfig", &calls.comm_init_rank_config));
  RETURN_IF_ERROR(
      find(library, "ncclCommGetAsyncError", &calls.comm_get_async_error));
  RETURN_IF_ERROR(find(library, "ncclCommFinalize", &calls.comm_finalize));
  RETURN_IF_ERROR(find(library, "ncclCommDestroy", &calls.comm_destroy));
  RETURN_IF_ERROR(find(library, "ncclCommAbort", &calls.comm_abort));
  RETURN_IF_ERROR(find(library, "ncclAllGather", &calls.all_gather));
  RETURN_IF_ERROR(find(library, "ncclGetErrorString", &calls.get_error_string));
  RETURN_IF_ERROR(find(library, "ncclGetLastError", &calls.get_last_error));
  return std::unique_ptr<NcclLibrary>(new NcclLibrary(calls));
}

NcclResult NcclLibrary::get_version(int* version) {
  return calls_.get_version(version);
}

NcclResult NcclLibrary::get_unique_id(NcclUniqueId* id) {
  return calls_.get_unique_id(id);
}

NcclResult NcclLibrary::comm_init_rank_config(NcclComm* comm, int size,
                                              NcclUniqueId id, int rank,
                                              NcclConfig* config) {
  return calls_.comm_init_rank_config(comm, size, id, rank, config);
}

NcclResult NcclLibrary::comm_get_async_error(NcclComm comm,
                                             NcclResult* result) {
  return calls_.comm_get_async_error(comm, result);
}

NcclResult NcclLibrary::comm_finalize(NcclComm comm) {
  return calls_.comm_finalize(comm);
}

NcclResult NcclLibrary::comm_destroy(NcclComm comm) {
  return calls_.comm_destroy(comm);
}

NcclResult NcclLibrary::comm_abort(NcclComm comm) {
  return calls_.comm_abort(comm);
}

NcclResult NcclLibrary::all_gather(const void* in, void* out, size_t count,
                                   NcclDataType type, NcclComm comm,
                                   cudaStream_t stream) {
  return calls_.all_gather(in, out, count, type, comm, stream);
}

const char* NcclLibrary::get_error_string(NcclResult result) {
  return calls_.get_error_string(result);
}

const char* NcclLibrary::get_last_error(NcclComm comm) {
  return calls_.get_last_error(comm);
}

}  // namespace ferry
