#include "offload/storage_ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "offload/testing/tree_builder.h"

namespace ferry {
namespace {

using Owner = StoragePlacement::Owner;
using testing::HasSubstr;

// A pipeline with one DiT, whose blocks are streamed, and an encoder.
class StorageOwnershipTest : public testing::Test {
 protected:
  StorageOwnershipTest() {
    builder_.blocks("dit.blocks", 3, 100);
    builder_.parameter("dit.norm", 10);
    builder_.parameter("encoder", 1000);
  }

  ResolvedPlan assign() {
    ResolvedPlan plan;
    PlannedComponent dit;
    dit.role = ComponentRole::kDit;
    dit.path = "dit";
    dit.module = builder_.index("dit");
    dit.stacks.emplace_back();
    const size_t list = builder_.index("dit.blocks");
    for (const auto& [name, module] : builder_.tree.nodes[list].children) {
      dit.stacks[0].blocks.push_back(
          {absl::StrCat("dit.blocks.", name), module, false, 0, 0});
    }
    PlannedComponent encoder;
    encoder.role = ComponentRole::kTextEncoder;
    encoder.path = "encoder";
    encoder.module = builder_.index("encoder");
    plan.components = {dit, encoder};
    assign_storages(builder_.tree, &plan);
    return plan;
  }

  static int64_t block_bytes(const ResolvedPlan& plan, size_t block) {
    return plan.components[0].stacks[0].blocks[block].bytes;
  }

  static StoragePlacement find(const ResolvedPlan& plan, int64_t storage) {
    for (const StoragePlacement& placement : plan.storages) {
      if (placement.storage == storage) return placement;
    }
    ADD_FAILURE() << "no storage " << storage;
    return {};
  }

  TreeBuilder builder_;
};

TEST_F(StorageOwnershipTest, BlocksAndComponentsOwnWhatOnlyTheyUse) {
  const ResolvedPlan plan = assign();
  EXPECT_EQ(block_bytes(plan, 0), 100);
  EXPECT_EQ(plan.components[0].bytes, 10);
  EXPECT_EQ(plan.components[1].bytes, 1000);
  EXPECT_EQ(plan.storages.size(), 5u);
  for (const StoragePlacement& placement : plan.storages) {
    EXPECT_EQ(placement.reason, "");
  }
  EXPECT_EQ(plan.storages[0].owner, Owner::kBlock);
  EXPECT_EQ(plan.storages[3].owner, Owner::kComponent);
}

TEST_F(StorageOwnershipTest, ATieInsideABlockCountsOnce) {
  const int64_t storage = builder_.parameter("dit.blocks.1.mlp", 50);
  // Views: another offset, expanded to many elements, transposed.
  builder_.view("dit.blocks.1.mlp.a", storage, 8);
  builder_.view("dit.blocks.1.mlp.b", storage, 5000);
  builder_.view("dit.blocks.1", storage, 50);
  const ResolvedPlan plan = assign();
  EXPECT_EQ(find(plan, storage).owner, Owner::kBlock);
  EXPECT_EQ(block_bytes(plan, 1), 150);
}

TEST_F(StorageOwnershipTest, ATieBetweenBlocksStays) {
  const int64_t storage = builder_.parameter("dit.blocks.0.rope", 7);
  builder_.view("dit.blocks.2.rope", storage, 3);
  const ResolvedPlan plan = assign();
  const StoragePlacement placement = find(plan, storage);
  EXPECT_EQ(placement.owner, Owner::kResident);
  EXPECT_EQ(placement.reason, "is used by dit.blocks.0 and dit.blocks.2");
  EXPECT_THAT(placement.name, HasSubstr("dit.blocks.0.rope.t"));
  EXPECT_EQ(block_bytes(plan, 0), 100);
  EXPECT_EQ(block_bytes(plan, 2), 100);
}

TEST_F(StorageOwnershipTest, ATieOfABlockWithStateBesideBlocksStays) {
  const int64_t storage = builder_.parameter("dit.blocks.0.embed", 7);
  builder_.view("dit.embed", storage);
  const StoragePlacement placement = find(assign(), storage);
  EXPECT_EQ(placement.owner, Owner::kResident);
  EXPECT_EQ(placement.reason, "is used by dit and dit.blocks.0");
}

TEST_F(StorageOwnershipTest, ATieBetweenComponentsStays) {
  const int64_t storage = builder_.parameter("encoder.table", 7);
  builder_.view("dit.table", storage);
  EXPECT_EQ(find(assign(), storage).owner, Owner::kResident);
}

TEST_F(StorageOwnershipTest, StateOfNoComponentStays) {
  const int64_t storage = builder_.parameter("", 7);
  const StoragePlacement placement = find(assign(), storage);
  EXPECT_EQ(placement.owner, Owner::kResident);
  EXPECT_EQ(placement.reason, "belongs to no component");
}

TEST_F(StorageOwnershipTest, ATieWithStateOfNoComponentStays) {
  const int64_t storage = builder_.parameter("dit.blocks.1.x", 7);
  builder_.view("helper", storage);
  EXPECT_THAT(find(assign(), storage).reason, HasSubstr("the pipeline"));
}

TEST_F(StorageOwnershipTest, ASubmoduleOfTwoBlocksStays) {
  const int64_t storage = builder_.parameter("dit.blocks.0.shared", 7);
  builder_.alias("dit.blocks.1.shared", "dit.blocks.0.shared");
  EXPECT_EQ(find(assign(), storage).owner, Owner::kResident);
}

TEST_F(StorageOwnershipTest, ABlockWithASecondNameIsStillOneBlock) {
  builder_.alias("encoder.first", "dit.blocks.0");
  const ResolvedPlan plan = assign();
  EXPECT_EQ(block_bytes(plan, 0), 100);
  EXPECT_EQ(plan.storages.size(), 5u);
}

TEST_F(StorageOwnershipTest, ATieKeepsTheReasonsOfItsTensors) {
  const int64_t storage = builder_.parameter("dit.blocks.0.rope", 7);
  builder_.view("dit.blocks.2.rope", storage, 3);
  builder_.module("dit.blocks.2.rope").tensors[0].resident_reason =
      "is written by forward";
  EXPECT_EQ(find(assign(), storage).reason,
            "is written by forward, and is used by dit.blocks.0 and "
            "dit.blocks.2");
}

TEST_F(StorageOwnershipTest, WhatHasAReasonStays) {
  const int64_t storage = builder_.parameter("dit.blocks.0.cache", 7);
  builder_.module("dit.blocks.0.cache").tensors[0].resident_reason =
      "is written by forward";
  const ResolvedPlan plan = assign();
  EXPECT_EQ(find(plan, storage).owner, Owner::kResident);
  EXPECT_EQ(find(plan, storage).reason, "is written by forward");
  EXPECT_EQ(block_bytes(plan, 0), 100);
}

TEST_F(StorageOwnershipTest, AStorageCountsAsAWholeAndOnce) {
  const int64_t storage = builder_.parameter("dit.blocks.1.mlp", 5000);
  builder_.view("dit.blocks.1.mlp", storage);
  const ResolvedPlan plan = assign();
  EXPECT_EQ(find(plan, storage).bytes, 5000);
  const PlannedBlock& block = plan.components[0].stacks[0].blocks[1];
  EXPECT_EQ(block.bytes, 100 + 5000);
  EXPECT_EQ(block.image_bytes, 256 + 5120);
}

TEST_F(StorageOwnershipTest, TensorsWithoutMemoryHaveNoOwner) {
  builder_.meta_parameter("dit.blocks.0", 5000);
  EXPECT_EQ(assign().storages.size(), 5u);
}

TEST_F(StorageOwnershipTest, ModulesMayReferToEachOtherInCircles) {
  builder_.alias("dit.blocks.0.parent", "dit");
  const ResolvedPlan plan = assign();
  EXPECT_EQ(plan.storages.size(), 5u);
  EXPECT_EQ(block_bytes(plan, 0), 100);
}

// Random modules with random ties; what must hold is computed from the ties.
TEST_F(StorageOwnershipTest, RandomTiesHaveOneOwnerAndCountOnce) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) {
      return static_cast<int>(random() % static_cast<unsigned>(n));
    };
    builder_ = TreeBuilder();
    const int blocks = 1 + below(6);
    builder_.blocks("dit.blocks", blocks, 1 + below(100));
    builder_.module("encoder");
    // Places: each block, the DiT beside its blocks, the encoder, the root.
    std::vector<std::string> places;
    for (int i = 0; i < blocks; ++i) {
      places.push_back(absl::StrCat("dit.blocks.", i));
    }
    places.insert(places.end(), {"dit", "encoder", ""});
    std::map<int64_t, std::set<int>> users;
    for (int i = 0; i < 30; ++i) {
      const int place = below(static_cast<int>(places.size()));
      const std::string deeper = below(2) == 0 || places[place].empty()
                                     ? ""
                                     : absl::StrCat(".m", below(3));
      const std::string path = places[place] + deeper;
      if (users.empty() || below(3) > 0) {
        users[builder_.parameter(path, 1 + below(1000))].insert(place);
      } else {
        auto tied = users.begin();
        std::advance(tied, below(static_cast<int>(users.size())));
        builder_.view(path, tied->first, 1 + below(50));
        tied->second.insert(place);
      }
    }
    const ResolvedPlan plan = assign();
    int64_t owned = 0;
    for (const PlannedComponent& component : plan.components) {
      owned += component.bytes;
      for (const PlannedStack& stack : component.stacks) {
        for (const PlannedBlock& block : stack.blocks) owned += block.bytes;
      }
    }
    std::set<int64_t> seen;
    int64_t total = 0;
    for (const StoragePlacement& placement : plan.storages) {
      EXPECT_TRUE(seen.insert(placement.storage).second) << seed;
      total += placement.bytes;
      if (placement.owner == Owner::kResident) owned += placement.bytes;
      const auto tied = users.find(placement.storage);
      if (tied == users.end()) continue;  // A block's own parameter.
      const int place = *tied->second.begin();
      const Owner expected = tied->second.size() > 1 || places[place].empty()
                                 ? Owner::kResident
                             : place < blocks ? Owner::kBlock
                                              : Owner::kComponent;
      EXPECT_EQ(placement.owner, expected) << seed << " " << placement.name;
      EXPECT_EQ(placement.reason.empty(), expected != Owner::kResident);
    }
    EXPECT_EQ(owned, total) << seed;
    EXPECT_EQ(total, builder_.tree.storage_bytes(0)) << seed;
  }
}

}  // namespace
}  // namespace ferry
