#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace ferry {

// What ferryd holds of a rank's worker beside the socket that both speak gRPC
// on: a process of its own (OwnWorker), or the connection of one that others
// have started (ExternalWorker).
//
// Threads: thread-safe but for destruction, which ends the worker. Errors:
// nothing fails.
class WorkerLink {
 public:
  struct Place {
    // Of the process, on its host.
    int64_t pid = 0;
    std::string host;
    // Which of the host's devices it uses.
    int device_index = 0;
    // Address of its host where it listens for other ranks; empty: the one that
    // the store has.
    std::string listen_host;
  };

  explicit WorkerLink(Place place) : place_(std::move(place)) {}
  virtual ~WorkerLink() = default;
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  const Place& place() const { return place_; }

  // Blocks until it is lost, and returns how, as one clause such as "exited
  // with code 3"; nothing once `timeout` has passed. Any number of calls.
  virtual std::optional<std::string> wait_for(absl::Duration timeout) = 0;
  // Kills it. Returns at once; every call on the socket fails soon.
  virtual void kill() = 0;
  // Asks it to end. Returns at once.
  virtual void interrupt() = 0;
  // Ends it: asks, and kills after `grace`. Blocks until nothing of it is left
  // on this host.
  virtual void terminate(absl::Duration grace) = 0;
  // The last lines that it wrote: all of them once it has ended.
  virtual std::vector<std::string> last_lines() = 0;

 private:
  const Place place_;
};

}  // namespace ferry
