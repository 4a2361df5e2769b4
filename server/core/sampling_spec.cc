#include "server/core/sampling_spec.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ferry {
namespace {

using Info = v1::SchedulerInfo;
using Kind = FieldViolation::Kind;

// Lower levels are lost in float32, higher ones are no model's.
constexpr double kMinSigma = 1e-6;
constexpr double kMaxSigma = 1e6;

bool takes_sigmas(const Info& info) {
  return info.custom_sigmas() == Info::CUSTOM_SIGMAS_PER_STEP ||
         info.custom_sigmas() == Info::CUSTOM_SIGMAS_WITH_LAST;
}

// What the pipeline says of a scheduler; nothing when it is unknown.
std::optional<Info> find_info(const v1::Pipeline& pipeline,
                              const std::string& name) {
  for (const Info& info : pipeline.scheduler_infos()) {
    if (info.name() == name) return info;
  }
  for (const std::string& known : pipeline.schedulers()) {
    if (known == name) return Info();
  }
  return std::nullopt;
}

FieldViolation out_of_range(const char* field, const std::string& what,
                            int64_t value, int64_t min, int64_t max) {
  return {Kind::kInvalid,
          field,
          absl::StrCat(what, "must be ", min, " to ", max, ", got ", value),
          {{"min", absl::StrCat(min)},
           {"max", absl::StrCat(max)},
           {"value", absl::StrCat(value)}}};
}

FieldViolation sigmas_refused(const v1::Pipeline& pipeline,
                              const std::string& scheduler) {
  std::vector<std::string> takers;
  for (const Info& info : pipeline.scheduler_infos()) {
    if (takes_sigmas(info)) takers.push_back(info.name());
  }
  return {Kind::kConflicting,
          "spec.sigmas",
          absl::StrCat("must be empty with the scheduler ", scheduler,
                       takers.empty() ? "" : "; custom sigmas are taken by: ",
                       absl::StrJoin(takers, ", ")),
          {}};
}

// The first level that is wrong, if any: they must fall, also as float32, in
// which samplers compute.
std::optional<FieldViolation> check_levels(const v1::GenerationSpec& spec,
                                           const Info& info) {
  const bool with_last = info.custom_sigmas() != Info::CUSTOM_SIGMAS_PER_STEP;
  const double max = with_last ? kMaxSigma : 1;
  for (int i = 0; i < spec.sigmas_size(); ++i) {
    const double sigma = spec.sigmas(i);
    const bool may_be_zero = with_last && i > 0 && i == spec.sigmas_size() - 1;
    // The negation catches NaN.
    if (!(sigma >= kMinSigma && sigma <= max) && !(may_be_zero && sigma == 0)) {
      return FieldViolation{
          Kind::kInvalid,
          "spec.sigmas",
          absl::StrCat("level ", i, " must be a number from ", kMinSigma,
                       " to ", max, may_be_zero ? " or 0" : "", ", got ",
                       sigma),
          {{"index", absl::StrCat(i)}, {"value", absl::StrCat(sigma)}}};
    }
    if (i > 0 &&
        !(static_cast<float>(sigma) < static_cast<float>(spec.sigmas(i - 1)))) {
      return FieldViolation{
          Kind::kInvalid,
          "spec.sigmas",
          absl::StrCat("must fall from each level to the next, but level ", i,
                       " is ", sigma, " after ", spec.sigmas(i - 1)),
          {{"index", absl::StrCat(i)}, {"value", absl::StrCat(sigma)}}};
    }
  }
  return std::nullopt;
}

// Checks the sigmas of a spec that has some. `info`: of its scheduler, if
// that is known.
std::vector<FieldViolation> check_sigmas(const v1::Pipeline& pipeline,
                                         const std::optional<Info>& known,
                                         int max_steps,
                                         const v1::GenerationSpec& spec) {
  std::vector<FieldViolation> violations;
  if (spec.has_num_inference_steps()) {
    violations.push_back({Kind::kConflicting,
                          "spec.sigmas",
                          "must be empty when num_inference_steps is set",
                          {}});
  }
  if (known.has_value() && !takes_sigmas(*known)) {
    violations.push_back(sigmas_refused(pipeline, spec.scheduler()));
    return violations;
  }
  const Info info = known.value_or(Info());
  const int extra =
      info.custom_sigmas() == Info::CUSTOM_SIGMAS_PER_STEP ? 0 : 1;
  const int min = std::max(1, info.min_num_inference_steps()) + extra;
  const int max = max_steps + extra;
  if (spec.sigmas_size() < min || spec.sigmas_size() > max) {
    violations.push_back(out_of_range("spec.sigmas", "its number of levels ",
                                      spec.sigmas_size(), min, max));
  } else if (auto level = check_levels(spec, info); level.has_value()) {
    violations.push_back(*std::move(level));
  }
  return violations;
}

}  // namespace

std::vector<FieldViolation> complete_sampling_spec(const v1::Pipeline& pipeline,
                                                   const v1::Limits& limits,
                                                   v1::GenerationSpec* spec) {
  const v1::GenerationSpec& defaults = pipeline.defaults();
  if (spec->scheduler().empty()) {
    spec->set_scheduler(defaults.scheduler().empty() &&
                                !pipeline.schedulers().empty()
                            ? pipeline.schedulers(0)
                            : defaults.scheduler());
  }
  if (spec->sigmas().empty() && !spec->has_num_inference_steps()) {
    spec->set_num_inference_steps(defaults.num_inference_steps());
  }
  const std::optional<Info> info = find_info(pipeline, spec->scheduler());
  const int max_steps = limits.max_num_inference_steps();
  std::vector<FieldViolation> violations;
  if (!spec->sigmas().empty()) {
    violations = check_sigmas(pipeline, info, max_steps, *spec);
  } else {
    const int min_steps =
        info.has_value() ? std::max(1, info->min_num_inference_steps()) : 1;
    const int steps = spec->num_inference_steps();
    if (steps < min_steps || steps > max_steps) {
      violations.push_back(out_of_range("spec.num_inference_steps", "", steps,
                                        min_steps, max_steps));
    }
  }
  if (!info.has_value() && !spec->scheduler().empty()) {
    const std::string allowed = absl::StrJoin(pipeline.schedulers(), ", ");
    violations.push_back({Kind::kUnknown,
                          "spec.scheduler",
                          absl::StrCat("must be empty or one of: ", allowed),
                          {{"allowed", allowed}}});
  }
  return violations;
}

int count_steps(const v1::GenerationSpec& spec) {
  return spec.sigmas().empty() ? spec.num_inference_steps()
                               : spec.sigmas_size();
}

}  // namespace ferry
