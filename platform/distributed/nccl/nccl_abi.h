#pragma once

#include <cstddef>

// The part of NCCL's C interface that is used, as its header declares it: the
// library is opened at run time, so nothing needs that header to build. What
// stands here is the same in every version from 2.14 on.

namespace ferry {

// ncclComm_t.
using NcclComm = struct ncclComm*;

// ncclResult_t.
enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  // Of non-blocking communicators: not done yet, and no error.
  kInProgress = 7,
};

// ncclDataType_t.
enum class NcclDataType : int { kInt8 = 0 };

// ncclUniqueId.
struct NcclUniqueId {
  char bytes[128];
};

// ncclConfig_t, as it was in 2.17. Its size and version tell the library what
// the caller knows: it takes defaults for the rest.
struct NcclConfig {
  static constexpr unsigned kMagic = 0xcafebeef;
  // The versions that brought what is below, as NCCL writes them.
  static constexpr int kVersion14 = 21400;
  static constexpr int kVersion17 = 21700;

  size_t size;
  unsigned magic;
  unsigned version;
  // From 2.14 on.
  int blocking;
  // From 2.17 on.
  int cga_cluster_size;
  int min_ctas;
  int max_ctas;
  const char* net_name;
};

}  // namespace ferry
