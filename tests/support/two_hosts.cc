#include "tests/support/two_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "platform/base/status_macros.h"
#include "tests/support/child_process.h"
#include "tests/support/namespaces.h"

namespace ferry {
namespace {

constexpr char kOwnNamespace[] = "/proc/self/ns/net";

// `ip` is among the programs of root.
absl::Status run_shell(const std::string& script) {
  ChildProcess::Options options;
  options.arguments = {
      "sh", "-c", absl::StrCat("set -e; PATH=$PATH:/usr/sbin:/sbin; ", script)};
  const ProcessResult result = run_process(options);
  if (result.exit.code == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no cable between two hosts: ", result.err));
}

}  // namespace

absl::StatusOr<TwoHosts> TwoHosts::make() {
  RETURN_IF_ERROR(enter_namespaces(CLONE_NEWNET));
  UniqueFd other(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!other.valid()) return absl::ErrnoToStatus(errno, kOwnNamespace);
  // The one before is the other host now.
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(errno,
                               "no second network namespace can be made");
  }
  TwoHosts hosts(std::move(other));
  RETURN_IF_ERROR(hosts.lay_cable());
  return hosts;
}

absl::Status TwoHosts::lay_cable() const {
  return run_shell(absl::StrReplaceAll(
      "there='nsenter --net=OTHER'; "
      "$there ip link add there type veth peer name here netns PID; "
      "$there ip address add THERE/24 dev there; $there ip link set there up; "
      "ip address add HERE/24 dev here; ip link set here up; "
      "ip link set lo up",
      {{"OTHER", other_path()},
       {"PID", absl::StrCat(getpid())},
       {"THERE", kThere},
       {"HERE", kHere}}));
}

std::string TwoHosts::other_path() const {
  return absl::StrCat("/proc/", getpid(), "/fd/", other_.get());
}

std::vector<std::string> TwoHosts::there(
    std::vector<std::string> arguments) const {
  std::vector<std::string> line = {"nsenter", "--net=" + other_path(), "--"};
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

absl::Status TwoHosts::cut() const {
  return run_shell("ip link set here down");
}

absl::Status TwoHosts::mend() const { return run_shell("ip link set here up"); }

}  // namespace ferry
