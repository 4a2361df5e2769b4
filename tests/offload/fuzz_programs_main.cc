// Draws random TorchScript programs and compares what they give by random
// offload policies with what they give without: for --seconds, from --seed.
// Prints the seed; a program that differs ends it, unless it is to --keep_going
// and to tell in the end what it found.

#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "pipelines/torchscript/torch_settings.h"
#include "tests/offload/check_program.h"
#include "tests/offload/draw_program.h"
#include "tests/offload/program_statistics.h"
#include "tests/offload/random_program.h"
#include "tests/offload/run_program.h"

ABSL_FLAG(int, seconds, 20, "how long to run");
ABSL_FLAG(uint64_t, seed, 0, "of the first program; 0: another one each time");
ABSL_FLAG(int, programs, 0, "how many at most; 0: as many as there is time");
ABSL_FLAG(bool, keep_going, false,
          "after a program that differs, which is not shrunk then");

namespace ferry {
namespace {

int fuzz_programs() {
  set_deterministic_mode();
  const TorchScope scope(1);
  uint64_t seed = absl::GetFlag(FLAGS_seed);
  if (seed == 0) seed = std::random_device()();
  std::printf("first seed: %llu\n", static_cast<unsigned long long>(seed));
  const absl::Time end =
      absl::Now() + absl::Seconds(absl::GetFlag(FLAGS_seconds));
  const bool keep_going = absl::GetFlag(FLAGS_keep_going);
  ProgramStatistics drawn;
  int different = 0;
  // By oddities, of those that differ.
  std::map<std::string, int> found;
  const int most = absl::GetFlag(FLAGS_programs);
  for (; absl::Now() < end && (most == 0 || drawn.programs < most); ++seed) {
    const RandomProgram program = draw_program(seed);
    const ProgramReport report = check_program(program, !keep_going);
    drawn.add(program, report);
    for (const PolicyResult& result : report.results) {
      if (result.outcome != PolicyResult::Outcome::kRefused) continue;
      std::printf("program %llu refused: %s\n",
                  static_cast<unsigned long long>(seed),
                  result.message.c_str());
    }
    if (report.message.empty()) continue;
    std::printf("%s\n", report.message.c_str());
    ++different;
    ++found[to_string(program.oddities)];
    if (!keep_going) break;
  }
  for (const auto& [oddities, count] : found) {
    std::printf("differ: %4d  %s\n", count, oddities.c_str());
  }
  std::printf("%s\n%d differ\n", drawn.to_string().c_str(), different);
  return different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return ferry::fuzz_programs();
}
