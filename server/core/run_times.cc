#include "server/core/run_times.h"

#include <algorithm>

#include "server/core/sampling_spec.h"

namespace ferry {
namespace {

constexpr size_t kKeptSamples = 32;
constexpr double kSimilar = 2;

double work_of(const v1::GenerationSpec& spec) {
  return static_cast<double>(count_steps(spec)) * spec.height() * spec.width() *
         spec.num_images();
}

}  // namespace

void RunTimes::add(const v1::GenerationSpec& spec, absl::Duration run) {
  std::deque<Sample>& samples = samples_[spec.pipeline()];
  samples.push_back({work_of(spec), run});
  if (samples.size() > kKeptSamples) samples.pop_front();
}

std::optional<absl::Duration> RunTimes::estimate(
    const v1::GenerationSpec& spec) const {
  const auto it = samples_.find(spec.pipeline());
  if (it == samples_.end()) return std::nullopt;
  const double work = work_of(spec);
  std::optional<absl::Duration> result;
  for (const Sample& sample : it->second) {
    if (work > sample.work * kSimilar || sample.work > work * kSimilar) {
      continue;
    }
    const absl::Duration scaled = sample.run * (work / sample.work);
    result = std::min(result.value_or(scaled), scaled);
  }
  return result;
}

std::optional<absl::Duration> RunTimes::mean(
    const std::string& pipeline) const {
  const auto it = samples_.find(pipeline);
  if (it == samples_.end()) return std::nullopt;
  absl::Duration sum;
  for (const Sample& sample : it->second) sum += sample.run;
  return sum / static_cast<int64_t>(it->second.size());
}

}  // namespace ferry
