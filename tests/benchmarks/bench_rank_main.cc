// A rank of a group over Gloo, on the loopback interface, that measures with
// the others:
//   bench_rank votes|gathers DIRECTORY RANK SIZE
// finds them through a FileStore. Rank 0 prints a number for each vote, in
// microseconds, or for each round of gathers, how many times a bare loop's
// bandwidth they have.

#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/file_store/file_store.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/gloo/gloo_communicator.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/recorded_host_communicator.h"
#include "platform/distributed/store.h"
#include "tests/benchmarks/compare_gathers.h"
#include "tests/benchmarks/time_votes.h"

namespace ferry {
namespace {

// On the group that the worker votes on.
absl::StatusOr<std::vector<double>> votes(Store& store, int rank, int size) {
  ASSIGN_OR_RETURN(std::unique_ptr<HostCommunicator> gloo,
                   join_gloo_group(store, rank, size, GlooOptions{}));
  FlightRecorder recorder("votes", Clock::real());
  RecordedHostCommunicator control(std::move(gloo), recorder);
  ASSIGN_OR_RETURN(const std::vector<absl::Duration> times,
                   time_votes(control));
  std::vector<double> microseconds;
  for (const absl::Duration time : times) {
    microseconds.push_back(absl::ToDoubleMicroseconds(time));
  }
  return microseconds;
}

absl::Status run(const std::string& what, const std::string& directory,
                 int rank, int size) {
  FileStore store(directory);
  ASSIGN_OR_RETURN(const std::vector<double> values,
                   what == "votes" ? votes(store, rank, size)
                                   : compare_gathers(store, rank));
  if (rank > 0) return absl::OkStatus();
  for (const double value : values) std::cout << value << '\n';
  return absl::OkStatus();
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  int rank = 0;
  int size = 0;
  if (argc != 5 || !absl::SimpleAtoi(argv[3], &rank) ||
      !absl::SimpleAtoi(argv[4], &size)) {
    std::cerr << "bench_rank votes|gathers DIRECTORY RANK SIZE" << std::endl;
    return 2;
  }
  try {
    const absl::Status status = ferry::run(argv[1], argv[2], rank, size);
    if (status.ok()) return 0;
    std::cerr << status << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
  }
  return 1;
}
