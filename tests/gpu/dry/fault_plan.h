#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "platform/base/mutex.h"

namespace ferry::dry {

// Calls that shall fail, from a text:
//   cudaMemcpyAsync@12=719,1:ncclAllGather@3=hang,cudaMalloc@2=late:700
// The 12th cudaMemcpyAsync from now on returns error 719 and does nothing; the
// third ncclAllGather of device 1 never ends; the second cudaMalloc succeeds,
// and what it gave to a stream fails there. NCCL's calls count as others do.
//
// Threads: thread-safe.
class FaultPlan {
 public:
  struct Fault {
    enum class Kind {
      kNone,
      kError,   // "=719": the call returns it.
      kLate,    // "=late:719": its work fails with it.
      kHang,    // "=hang": its work never ends, unless it is aborted.
      kRemote,  // "=remote:6": this rank's communicator has it, later.
    };
    Kind kind = Kind::kNone;
    int error = 0;
  };

  // Replaces the plan. False, and no plan, when the text is wrong.
  bool set(const std::string& text) EXCLUDES_LOCK(mutex_);
  // Counts a call on `device`, and says how it shall fail.
  Fault next(const char* call, int device) EXCLUDES_LOCK(mutex_);

 private:
  struct Planned {
    int device = -1;  // Any.
    int64_t remaining = 0;
    Fault fault;
  };

  static bool parse(const std::string& item, std::string* call,
                    Planned* planned);

  Mutex mutex_;
  std::map<std::string, std::vector<Planned>, std::less<>> plan_
      GUARDED_BY(mutex_);
};

}  // namespace ferry::dry
