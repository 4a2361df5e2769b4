#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {

// What goes wrong with one call of a rank.
struct CallFault {
  enum class Kind {
    // Nothing.
    kNone,
    // The others never see the call, as if the rank had been stopped: it
    // returns at its own timeout, or when the group fails.
    kNeverArrives,
    // The rank is gone, as if it had been killed.
    kFails,
    // The others get what they should; of this rank's call nothing arrives, and
    // it returns an error. The group has failed after it.
    kLosesResult,
  };
  Kind kind = Kind::kNone;
  // The others see the call so much later.
  absl::Duration delay;
};

// Asked before each call of a rank; calls are counted from 1. Called on the
// thread of the call, so by several threads at once.
using CallFaults = std::function<CallFault(int rank, int64_t call)>;

// A group whose ranks are threads of one process: for tests, and benchmarks
// without a network.
//
// Stricter than HostCommunicator asks: calls that do not match are always told,
// with both ranks and both calls; one error is the same on all ranks at once;
// and a rank whose communicator is destroyed is gone. In the steady state no
// call allocates memory.
//
// Ownership: communicators live on without the group.
// Threads: thread-safe; of a communicator, as HostCommunicator says.
class InProcessGroup {
 public:
  explicit InProcessGroup(int size, CallFaults faults = nullptr);
  ~InProcessGroup();
  InProcessGroup(const InProcessGroup&) = delete;
  InProcessGroup& operator=(const InProcessGroup&) = delete;

  // The communicator of a rank. REQUIRES: the rank has not joined yet.
  std::unique_ptr<HostCommunicator> join(int rank);

 private:
  class Meeting;
  class Member;

  const std::shared_ptr<Meeting> meeting_;
  const CallFaults faults_;
};

}  // namespace ferry
