#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// Two hosts, of network namespaces, and a cable between them. One is this
// process and all that it starts; the other one has only what is started on it,
// and no loopback interface.
//
// Ownership: the namespaces go with their last process.
// Threads: not thread-safe.
// Errors: say why this machine cannot do it.
class TwoHosts {
 public:
  static constexpr char kHere[] = "10.77.0.1";
  static constexpr char kThere[] = "10.77.0.2";

  // REQUIRES: as enter_namespaces(), which checks it.
  static absl::StatusOr<TwoHosts> make();

  // The command line that runs a program there, under its own pid.
  std::vector<std::string> there(std::vector<std::string> arguments) const;

  // Takes the cable out: nothing arrives any more, and nobody is told. Puts it
  // in again.
  absl::Status cut() const;
  absl::Status mend() const;

 private:
  explicit TwoHosts(UniqueFd other) : other_(std::move(other)) {}

  absl::Status lay_cable() const;
  std::string other_path() const;

  // The other namespace.
  UniqueFd other_;
};

}  // namespace ferry
