#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "platform/distributed/nccl/nccl_abi.h"

namespace ferry {

// The calls of NCCL that a NcclCommunicator makes, one method for each, as NCCL
// documents them: a thin seam that tests fake. NcclLibrary is the real one.
//
// A communicator is blocking or not, as its configuration says. On one that is
// not, a call that starts work answers kInProgress, and comm_get_async_error()
// tells when it was done, and how; until then it is an error to make another
// one. A blocking one answers when the work was given to the stream, which can
// take as long as other ranks do where they have to connect first.
//
// Threads: one communicator is one thread's at a time, but for comm_abort(),
// which ends a call that another thread is in, and comm_get_async_error(). The
// group's device is the current one of every thread that calls.
class NcclApi {
 public:
  virtual ~NcclApi() = default;

  // As NCCL writes it: 22809 for 2.28.9.
  [[nodiscard]] virtual NcclResult get_version(int* version) = 0;
  [[nodiscard]] virtual NcclResult get_unique_id(NcclUniqueId* id) = 0;
  // `*comm` is there before the other ranks are, so that it can be aborted.
  [[nodiscard]] virtual NcclResult comm_init_rank_config(
      NcclComm* comm, int size, NcclUniqueId id, int rank,
      NcclConfig* config) = 0;
  [[nodiscard]] virtual NcclResult comm_get_async_error(NcclComm comm,
                                                        NcclResult* result) = 0;
  [[nodiscard]] virtual NcclResult comm_finalize(NcclComm comm) = 0;
  [[nodiscard]] virtual NcclResult comm_destroy(NcclComm comm) = 0;
  [[nodiscard]] virtual NcclResult comm_abort(NcclComm comm) = 0;
  [[nodiscard]] virtual NcclResult all_gather(const void* in, void* out,
                                              size_t count, NcclDataType type,
                                              NcclComm comm,
                                              cudaStream_t stream) = 0;

  // Literals. `comm` may be null.
  [[nodiscard]] virtual const char* get_error_string(NcclResult result) = 0;
  // More about the thread's last error.
  [[nodiscard]] virtual const char* get_last_error(NcclComm comm) = 0;
};

}  // namespace ferry
