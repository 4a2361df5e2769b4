// Generates pictures from a package in one process, without a daemon:
//   run_pipeline --package=DIR --prompt=TEXT --out=FILE.png [--repeat=N]
// With --wait each run starts when a line comes on standard input, and the end
// of the input ends the program: so a benchmark alternates it with others.
// Prints one JSON object a line: the load, then every run with its stages.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "pipelines/generation_observer.h"
#include "pipelines/pipeline.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"

ABSL_FLAG(std::string, package, "", "Directory of the pipeline package.");
ABSL_FLAG(std::string, prompt, "", "What to draw.");
ABSL_FLAG(std::string, negative_prompt, "", "What not to draw.");
ABSL_FLAG(std::string, out, "", "File of the first picture; empty: none.");
ABSL_FLAG(int64_t, seed, 0, "Seed of the initial noise.");
ABSL_FLAG(int, steps, 0, "Steps; 0: the package's default.");
ABSL_FLAG(std::string, scheduler, "", "NoiseScheduler; empty: the package's.");
ABSL_FLAG(int, height, 0, "Pixels; 0: the package's default.");
ABSL_FLAG(int, width, 0, "Pixels; 0: the package's default.");
ABSL_FLAG(double, guidance_scale, -1, "Negative: the package's default.");
ABSL_FLAG(int, repeat, 1, "Runs of the same generation.");
ABSL_FLAG(bool, wait, false, "Wait for a line of input before every run.");
ABSL_FLAG(int, intra_op_threads, 1, "Threads of one operator.");

namespace ferry {
namespace {

// Keeps the first picture.
class FirstOutput : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress&) override {}
  absl::Status on_preview(v1::Preview) override { return absl::OkStatus(); }
  absl::Status on_output(const v1::OutputInfo& info,
                         std::string data) override {
    if (info.index() > 0) return absl::OkStatus();
    sha256_ = info.sha256();
    data_ = std::move(data);
    return absl::OkStatus();
  }

  const std::string& data() const { return data_; }
  const std::string& sha256() const { return sha256_; }

 private:
  std::string data_;
  std::string sha256_;
};

v1::GenerationSpec make_spec(const Pipeline& pipeline) {
  v1::GenerationSpec spec = pipeline.description().defaults();
  spec.set_prompt(absl::GetFlag(FLAGS_prompt));
  spec.set_seed(absl::GetFlag(FLAGS_seed));
  if (const std::string negative = absl::GetFlag(FLAGS_negative_prompt);
      !negative.empty()) {
    spec.set_negative_prompt(negative);
  }
  if (const int steps = absl::GetFlag(FLAGS_steps); steps > 0) {
    spec.set_num_inference_steps(steps);
  }
  if (const std::string name = absl::GetFlag(FLAGS_scheduler); !name.empty()) {
    spec.set_scheduler(name);
  }
  if (const int height = absl::GetFlag(FLAGS_height); height > 0) {
    spec.set_height(height);
  }
  if (const int width = absl::GetFlag(FLAGS_width); width > 0) {
    spec.set_width(width);
  }
  if (const double scale = absl::GetFlag(FLAGS_guidance_scale); scale >= 0) {
    spec.set_guidance_scale(scale);
  }
  return spec;
}

std::string to_milliseconds(absl::Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f",
                absl::ToDoubleMilliseconds(duration));
  return text;
}

std::string to_milliseconds(const google::protobuf::Duration& duration) {
  return to_milliseconds(absl::Seconds(duration.seconds()) +
                         absl::Nanoseconds(duration.nanos()));
}

void print_run(int run, absl::Duration total, const GenerationReport& report,
               const std::string& sha256) {
  const v1::Timings& timings = report.timings;
  std::puts(absl::StrCat(
                "{\"name\":\"run\",\"run\":", run,
                ",\"total_ms\":", to_milliseconds(total),
                ",\"text_encode_ms\":", to_milliseconds(timings.text_encode()),
                ",\"denoise_ms\":", to_milliseconds(timings.denoise()),
                ",\"vae_decode_ms\":", to_milliseconds(timings.vae_decode()),
                ",\"encode_ms\":", to_milliseconds(timings.encode()),
                ",\"sha256\":\"", sha256, "\"}")
                .c_str());
  std::fflush(stdout);
}

absl::Status write_file(const std::string& path, const std::string& data) {
  std::ofstream stream(path, std::ios::binary);
  stream << data;
  stream.close();
  if (stream) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(path, ": cannot be written"));
}

// Returns false at the end of the input.
bool wait_for_line() {
  std::string line;
  return static_cast<bool>(std::getline(std::cin, line));
}

absl::Status run() {
  const Clock& clock = Clock::real();
  PipelineOptions options;
  options.intra_op_threads = absl::GetFlag(FLAGS_intra_op_threads);
  const absl::Duration start = clock.monotonic();
  ASSIGN_OR_RETURN(const std::unique_ptr<Pipeline> pipeline,
                   Pipeline::load(absl::GetFlag(FLAGS_package), options));
  std::puts(absl::StrCat("{\"name\":\"load\",\"total_ms\":",
                         to_milliseconds(clock.monotonic() - start), "}")
                .c_str());
  std::fflush(stdout);
  const v1::GenerationSpec spec = make_spec(*pipeline);
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    if (absl::GetFlag(FLAGS_wait) && !wait_for_line()) break;
    FirstOutput output;
    const absl::Duration begin = clock.monotonic();
    ASSIGN_OR_RETURN(const GenerationReport report,
                     pipeline->generate(spec, output));
    print_run(i, clock.monotonic() - begin, report, output.sha256());
    const std::string path = absl::GetFlag(FLAGS_out);
    if (i == 0 && !path.empty()) {
      RETURN_IF_ERROR(write_file(path, output.data()));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Generates a picture from a pipeline package, without a daemon.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = ferry::run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "run_pipeline: %s\n",
               std::string(status.message()).c_str());
  return 1;
}
