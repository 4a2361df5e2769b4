#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "platform/distributed/nccl/nccl_api.h"

namespace ferry {

// NCCL's library, opened at run time, so that one program runs with and without
// it. It stays open as long as the process: its threads do.
class NcclLibrary final : public NcclApi {
 public:
  static constexpr char kName[] = "libnccl.so.2";

  // FAILED_PRECONDITION says what is missing: the library, or a call of it.
  static absl::StatusOr<std::unique_ptr<NcclLibrary>> open(
      const std::string& name = kName);

  NcclResult get_version(int* version) override;
  NcclResult get_unique_id(NcclUniqueId* id) override;
  NcclResult comm_init_rank_config(NcclComm* comm, int size, NcclUniqueId id,
                                   int rank, NcclConfig* config) override;
  NcclResult comm_get_async_error(NcclComm comm, NcclResult* result) override;
  NcclResult comm_finalize(NcclComm comm) override;
  NcclResult comm_destroy(NcclComm comm) override;
  NcclResult comm_abort(NcclComm comm) override;
  NcclResult all_gather(const void* in, void* out, size_t count,
                        NcclDataType type, NcclComm comm,
                        cudaStream_t stream) override;
  const char* get_error_string(NcclResult result) override;
  const char* get_last_error(NcclComm comm) override;

 private:
  // The library's functions.
  struct Calls {
    NcclResult (*get_version)(int*);
    NcclResult (*get_unique_id)(NcclUniqueId*);
    NcclResult (*comm_init_rank_config)(NcclComm*, int, NcclUniqueId, int,
                                        NcclConfig*);
    NcclResult (*comm_get_async_error)(NcclComm, NcclResult*);
    NcclResult (*comm_finalize)(NcclComm);
    NcclResult (*comm_destroy)(NcclComm);
    NcclResult (*comm_abort)(NcclComm);
    NcclResult (*all_gather)(const void*, void*, size_t, NcclDataType, NcclComm,
                             cudaStream_t);
    const char* (*get_error_string)(NcclResult);
    const char* (*get_last_error)(NcclComm);
  };

  explicit NcclLibrary(const Calls& calls) : calls_(calls) {}

  const Calls calls_;
};

}  // namespace ferry
