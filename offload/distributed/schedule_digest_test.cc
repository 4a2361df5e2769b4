#include "offload/distributed/schedule_digest.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "offload/placement_plan.h"
#include "offload/tensor_group.h"
#include "offload/written_state.h"

namespace ferry {
namespace {

TensorGroup group(const std::string& owner, const std::string& path,
                  at::Tensor tensor) {
  return {owner, {{path, std::move(tensor)}}};
}

// Equal on all ranks that do the same.
PlacementPlan plan() {
  PlacementPlan result;
  result.resident = {group("vae", "scale", at::arange(6.0))};
  PlacementPlan::Ring ring;
  ring.options.name = "transformer";
  ring.options.slots = 2;
  ring.is_gathered = true;
  ring.blocks = {group("blocks.0", "weight", at::arange(12.0)),
                 group("blocks.1", "weight", at::arange(1200.0))};
  result.rings = {ring};
  return result;
}

TEST(ScheduleDigest, IsOfWhatIsDone) {
  EXPECT_EQ(schedule_digest(plan(), 3), schedule_digest(plan(), 3));
}

// Ranks begin equal generations alike.
TEST(ScheduleDigest, IsOfWhatIsWritten) {
  std::set<std::string> digests = {schedule_digest(plan(), 3)};
  for (const char* path : {"passes", "count"}) {
    for (const double start : {0.0, 7.0}) {
      WrittenState written({{path, at::arange(start, start + 3)}});
      PlacementPlan other = plan();
      other.written = &written;
      EXPECT_TRUE(digests.insert(schedule_digest(other, 3)).second) << path;
    }
  }
}

at::Tensor& tensor_of(PlacementPlan& of, size_t block) {
  return of.rings[0].blocks[block].tensors[0].tensor;
}

TEST(ScheduleDigest, TellsEveryDifference) {
  using Change = std::function<void(PlacementPlan&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"name", [](auto& p) { p.rings[0].options.name = "other"; }},
      {"slots", [](auto& p) { p.rings[0].options.slots = 3; }},
      {"transfer", [](auto& p) { p.rings[0].is_gathered = false; }},
      {"order",
       [](auto& p) { std::swap(p.rings[0].blocks[0], p.rings[0].blocks[1]); }},
      {"residency",
       [](auto& p) {
         p.resident.push_back(p.rings[0].blocks[0]);
         p.rings[0].blocks.erase(p.rings[0].blocks.begin());
       }},
      {"path", [](auto& p) { p.rings[0].blocks[0].tensors[0].path = "bias"; }},
      {"dtype",
       [](auto& p) { tensor_of(p, 0) = tensor_of(p, 0).to(c10::kInt); }},
      {"shape",
       [](auto& p) {
         tensor_of(p, 0) = tensor_of(p, 0).view({3, 4});
       }},
      {"strides",
       [](auto& p) {
         tensor_of(p, 0) = tensor_of(p, 0).view({4, 3}).t();
       }},
      {"first value", [](auto& p) { tensor_of(p, 1).select(0, 0).fill_(7); }},
      {"last value", [](auto& p) { tensor_of(p, 1).select(0, 1199).fill_(7); }},
      {"resident value",
       [](auto& p) { p.resident[0].tensors[0].tensor.neg_(); }},
  };
  // All are different from each other, too.
  std::set<std::string> digests = {schedule_digest(plan(), 3),
                                   schedule_digest(plan(), 4)};
  for (const auto& [what, change] : changes) {
    PlacementPlan other = plan();
    change(other);
    EXPECT_TRUE(digests.insert(schedule_digest(other, 3)).second) << what;
  }
  EXPECT_EQ(digests.size(), changes.size() + 2);
}

}  // namespace
}  // namespace ferry
