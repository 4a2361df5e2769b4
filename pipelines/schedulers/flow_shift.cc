#include "pipelines/schedulers/flow_shift.h"

#include <cmath>

#include "absl/status/status.h"

namespace ferry {

absl::StatusOr<double> FlowShift::mu(const MuRule& rule,
                                     std::optional<int64_t> image_seq_len,
                                     int steps) const {
  if (!use_dynamic_shifting) return 0.0;
  if (!image_seq_len.has_value() && rule.kind != MuKind::kFixed) {
    return absl::InvalidArgumentError(
        "dynamic shifting needs the number of image tokens");
  }
  return compute_mu(rule, dynamic_shift, image_seq_len.value_or(0), steps);
}

template <typename T>
void FlowShift::apply(double mu, std::vector<T>* sigmas) const {
  const T factor = static_cast<T>(linear_time_shift ? mu : std::exp(mu));
  const T constant = static_cast<T>(shift);
  const T constant_minus_one = static_cast<T>(shift - 1);
  for (T& sigma : *sigmas) {
    sigma = use_dynamic_shifting
                ? factor / (factor + (1 / sigma - 1))
                : constant * sigma / (1 + constant_minus_one * sigma);
  }
  if (shift_terminal == 0) return;
  const T scale = (1 - sigmas->back()) / static_cast<T>(1 - shift_terminal);
  for (T& sigma : *sigmas) sigma = 1 - (1 - sigma) / scale;
}

template void FlowShift::apply(double, std::vector<float>*) const;
template void FlowShift::apply(double, std::vector<double>*) const;

FlowShift read_dynamic_shift(SchedulerConfig& config) {
  FlowShift shift;
  shift.use_dynamic_shifting = config.get_bool("use_dynamic_shifting", false);
  DynamicShift& dynamic = shift.dynamic_shift;
  dynamic.base_shift = config.get_double("base_shift", 0.5, -100, 100);
  dynamic.max_shift = config.get_double("max_shift", 1.15, -100, 100);
  dynamic.base_image_seq_len =
      config.get_int("base_image_seq_len", 256, 1, int64_t{1} << 40);
  dynamic.max_image_seq_len =
      config.get_int("max_image_seq_len", 4096, 1, int64_t{1} << 40);
  if (dynamic.base_image_seq_len == dynamic.max_image_seq_len) {
    config.add_error("max_image_seq_len",
                     "must differ from base_image_seq_len");
  }
  return shift;
}

}  // namespace ferry
