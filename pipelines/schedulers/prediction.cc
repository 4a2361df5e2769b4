#include "pipelines/schedulers/prediction.h"

#include <string>

#include "absl/strings/string_view.h"

namespace ferry {

const char* prediction_name(Prediction prediction) {
  switch (prediction) {
    case Prediction::kEpsilon:
      return "epsilon";
    case Prediction::kSample:
      return "sample";
    case Prediction::kVelocity:
      return "v_prediction";
    case Prediction::kFlow:
      return "flow_prediction";
  }
  return "";
}

Prediction read_prediction(SchedulerConfig& config,
                           const std::vector<Prediction>& choices) {
  std::vector<absl::string_view> names;
  names.reserve(choices.size());
  for (Prediction choice : choices) names.push_back(prediction_name(choice));
  const std::string name =
      config.get_choice("prediction_type", names.front().data(), names);
  for (Prediction choice : choices) {
    if (name == prediction_name(choice)) return choice;
  }
  return choices.front();
}

}  // namespace ferry
