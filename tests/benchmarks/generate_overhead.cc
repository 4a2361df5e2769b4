#include "tests/benchmarks/generate_overhead.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/benchmarks/measurement.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"

namespace ferry {
namespace {

constexpr int kPairs = 25;
constexpr int kSteps = 50;
constexpr int kSeed = 42;
constexpr char kPrompt[] = "a large red circle on a blue background";

// One generation.
struct Run {
  double milliseconds = 0;
  std::string sha256;
};

// run_pipeline, which waits for a line before each run and tells how long the
// run took.
class OneProcessRunner {
 public:
  explicit OneProcessRunner(const std::string& package)
      : fifo_(make_directory("runner") + "/lines") {
    require(mkfifo(fifo_.c_str(), 0600) == 0, "cannot make a FIFO");
    lines_ = open(fifo_.c_str(), O_RDWR | O_CLOEXEC);
    require(lines_ >= 0, "cannot open the FIFO");
    ChildProcess::Options options;
    options.arguments = {runfile("pipelines/run_pipeline"),
                         absl::StrCat("--package=", package),
                         absl::StrCat("--prompt=", kPrompt),
                         absl::StrCat("--steps=", kSteps),
                         absl::StrCat("--seed=", kSeed),
                         "--intra_op_threads=1",
                         "--repeat=1000",
                         "--wait"};
    options.stdin_path = fifo_;
    process_ = std::make_unique<ChildProcess>(options);
  }
  ~OneProcessRunner() { close(lines_); }
  OneProcessRunner(const OneProcessRunner&) = delete;
  OneProcessRunner& operator=(const OneProcessRunner&) = delete;

  Run run() {
    const size_t before = output_lines().size();
    require(write(lines_, "\n", 1) == 1, "cannot write to the runner");
    std::vector<std::string> lines;
    eventually(
        [&] {
          lines = output_lines();
          return lines.size() > before || !process_->is_running();
        },
        absl::Minutes(10));
    require(lines.size() > before && process_->is_running(),
            absl::StrCat("the runner failed: ", process_->read_stderr()));
    const auto json = nlohmann::json::parse(lines.back());
    return {json.at("total_ms").get<double>(),
            json.at("sha256").get<std::string>()};
  }

  // Blocks until the package is loaded.
  void wait_until_loaded() {
    require(
        eventually([&] { return !output_lines().empty(); }, absl::Minutes(2)),
        absl::StrCat("the runner failed: ", process_->read_stderr()));
  }

 private:
  // Whole lines only.
  std::vector<std::string> output_lines() const {
    std::string out = process_->read_stdout();
    out.resize(out.rfind('\n') + 1);
    return absl::StrSplit(out, '\n', absl::SkipEmpty());
  }

  const std::string fifo_;
  int lines_ = -1;
  std::unique_ptr<ChildProcess> process_;
};

Run run_on_daemon(Daemon& daemon) {
  v1::GenerateRequest request;
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_prompt(kPrompt);
  spec.set_num_inference_steps(kSteps);
  spec.set_seed(kSeed);
  GenerateCall::Options options;
  options.deadline = absl::InfiniteDuration();
  const absl::Time start = absl::Now();
  GenerateCall call(daemon.generation(), request, options);
  const grpc::Status& status = call.finish();
  const absl::Duration elapsed = absl::Now() - start;
  require(status.ok(), absl::StrCat("Generate: ", describe(status)));
  require(call.job().outputs_size() == 1, "Generate: not one picture");
  return {absl::ToDoubleMilliseconds(elapsed), call.job().outputs(0).sha256()};
}

}  // namespace

void measure_generate_overhead(const std::string& package) {
  Daemon::Options options;
  options.pipelines = {{"bench", package}};
  Daemon daemon(options);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  OneProcessRunner runner(package);
  runner.wait_until_loaded();

  // Warm both up, and see that they do the same.
  require(runner.run().sha256 == run_on_daemon(daemon).sha256,
          "the daemon and the runner make different pictures");
  const double ratio = median_ratio(measure_pairs(
      kPairs, [&] { return run_on_daemon(daemon).milliseconds; },
      [&] { return runner.run().milliseconds; }));
  report("generate_overhead", ratio, "ratio",
         absl::StrCat("one-process runner, ", kSteps, " steps, median of ",
                      kPairs, " alternating pairs; at most 1.05"));
}

}  // namespace ferry
