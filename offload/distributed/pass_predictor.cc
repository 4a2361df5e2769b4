#include "offload/distributed/pass_predictor.h"

namespace ferry {

int PassPredictor::ask(size_t ring) {
  const int asked = static_cast<int>(ring);
  if (last_ != kNone) next_[static_cast<size_t>(last_)] = asked;
  last_ = asked;
  if (is_last_step_) return kNone;
  return next_[ring] == kNone ? asked : next_[ring];
}

void PassPredictor::end_loop() {
  last_ = kNone;
  is_last_step_ = false;
}

}  // namespace ferry
