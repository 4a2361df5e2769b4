#include "server/supervisor/restart_policy.h"

#include <algorithm>
#include <utility>

namespace ferry {
namespace {

constexpr double kLeastFactor = 0.8;
constexpr double kFactorRange = 0.4;

}  // namespace

RestartPolicy::RestartPolicy(const Options& options,
                             std::function<double()> random)
    : options_(options), random_(std::move(random)) {}

std::optional<absl::Duration> RestartPolicy::next_delay(absl::Duration now) {
  while (!restarts_.empty() && now - restarts_.front() > options_.window) {
    restarts_.pop_front();
  }
  const int earlier = static_cast<int>(restarts_.size());
  if (earlier >= options_.limit) return std::nullopt;
  restarts_.push_back(now);
  if (earlier == 0) return absl::ZeroDuration();
  absl::Duration delay = options_.backoff_min;
  for (int i = 1; i < earlier && delay < options_.backoff_max; ++i) delay *= 2;
  return std::min(delay, options_.backoff_max) *
         (kLeastFactor + kFactorRange * random_());
}

}  // namespace ferry
