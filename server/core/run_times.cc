#include "server/core/run_times.h"

#include <algorithm>

namespace ferry {
namespace {

constexpr size_t kKeptSamples = 32;
constexpr double kSimilar = 2;

bool is_similar(double one, double other) {
  return one <= other * kSimilar && other <= one * kSimilar;
}

}  // namespace

void RunTimes::add(const std::string& pipeline, const GenerationWork& work,
                   const Run& run) {
  std::deque<Sample>& samples = samples_[pipeline];
  samples.push_back({work, run});
  if (samples.size() > kKeptSamples) samples.pop_front();
}

const std::deque<RunTimes::Sample>& RunTimes::samples_of(
    const std::string& pipeline) const {
  static const auto& none = *new std::deque<Sample>;
  const auto it = samples_.find(pipeline);
  return it == samples_.end() ? none : it->second;
}

std::optional<absl::Duration> RunTimes::least(
    const std::string& pipeline, const GenerationWork& work) const {
  std::optional<absl::Duration> result;
  for (const Sample& sample : samples_of(pipeline)) {
    if (sample.run.slowed || !is_similar(work.pass, sample.work.pass) ||
        !is_similar(work.passes, sample.work.passes)) {
      continue;
    }
    const double passes =
        std::min(1.0, static_cast<double>(work.passes) / sample.work.passes);
    const double pass = std::min(1.0, work.pass / sample.work.pass);
    const absl::Duration scaled = sample.run.total * (passes * pass * pass);
    result = std::min(result.value_or(scaled), scaled);
  }
  return result;
}

std::optional<absl::Duration> RunTimes::pass_time(
    const std::string& pipeline, const GenerationWork& work) const {
  std::optional<absl::Duration> result;
  for (const Sample& sample : samples_of(pipeline)) {
    if (sample.run.slowed || !is_similar(work.pass, sample.work.pass)) continue;
    const absl::Duration scaled = sample.run.denoise / sample.work.passes *
                                  (work.pass / sample.work.pass);
    result = std::min(result.value_or(scaled), scaled);
  }
  return result;
}

std::optional<absl::Duration> RunTimes::mean(
    const std::string& pipeline) const {
  const std::deque<Sample>& samples = samples_of(pipeline);
  if (samples.empty()) return std::nullopt;
  absl::Duration sum;
  for (const Sample& sample : samples) sum += sample.run.total;
  return sum / static_cast<int64_t>(samples.size());
}

}  // namespace ferry
