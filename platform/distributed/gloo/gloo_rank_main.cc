// A rank that gathers until that fails, and tells how:
//   gloo_rank DIRECTORY RANK SIZE
// finds the others through a FileStore. Writes a line when it has joined, one
// after its first gather, and its last error.

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/distributed/file_store/file_store.h"
#include "platform/distributed/gloo/gloo_communicator.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {
namespace {

constexpr size_t kBytes = 1 << 20;

void tell(absl::string_view line) {
  std::printf("%s\n", std::string(line).c_str());
  std::fflush(stdout);
}

absl::Status run(const std::string& directory, int rank, int size) {
  FileStore store(directory);
  absl::StatusOr<std::unique_ptr<HostCommunicator>> joined =
      join_gloo_group(store, rank, size, GlooOptions{});
  if (!joined.ok()) return joined.status();
  tell("joined");
  const std::vector<char> in(kBytes, static_cast<char>('a' + rank));
  std::vector<char> out(static_cast<size_t>(size) * kBytes);
  for (int round = 0;; ++round) {
    absl::Status status = (*joined)->all_gather(
        in.data(), out.data(), static_cast<int64_t>(kBytes), absl::Seconds(60));
    if (!status.ok()) return status;
    if (round == 0) tell("gathered");
  }
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  int rank = 0;
  int size = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[2], &rank) ||
      !absl::SimpleAtoi(argv[3], &size)) {
    return 2;
  }
  ferry::tell(ferry::run(argv[1], rank, size).ToString());
  return 0;
}
