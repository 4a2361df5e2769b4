#include "server/core/pass_grouping.h"

#include <algorithm>

#include "platform/base/check.h"

namespace ferry {
namespace {

// 1 for works that count as equal.
double distance(double one, double other) {
  const double ratio = std::max(one / other, other / one);
  return ratio <= kEqualWork ? 1 : ratio;
}

}  // namespace

size_t choose_by_pass(const std::vector<WaitingPass>& waiting, double last_work,
                      int max_overtaken) {
  FERRY_CHECK(!waiting.empty());
  if (waiting[0].overtaken >= max_overtaken) return 0;
  // The first of the nearest ones.
  const auto nearest = std::min_element(
      waiting.begin(), waiting.end(),
      [&](const WaitingPass& one, const WaitingPass& other) {
        return distance(one.work, last_work) < distance(other.work, last_work);
      });
  return static_cast<size_t>(nearest - waiting.begin());
}

}  // namespace ferry
