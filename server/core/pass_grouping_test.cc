#include "server/core/pass_grouping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace ferry {
namespace {

TEST(PassGroupingTest, TakesTheNearest) {
  EXPECT_EQ(choose_by_pass({{1}, {8}, {4}}, 8, 9), 1u);
  EXPECT_EQ(choose_by_pass({{1}, {8}, {4}}, 1, 9), 0u);
  EXPECT_EQ(choose_by_pass({{1}, {16}, {4}}, 8, 9), 1u);
  // By ratio: 8 is four times 2, and 1 half of it.
  EXPECT_EQ(choose_by_pass({{8}, {1}}, 2, 9), 1u);
  EXPECT_EQ(choose_by_pass({{4}}, 1000, 9), 0u);
}

TEST(PassGroupingTest, EqualsGoByArrival) {
  EXPECT_EQ(choose_by_pass({{1}, {8}, {8}}, 8, 9), 1u);
  // Nearly as large: not worth to be overtaken.
  EXPECT_EQ(choose_by_pass({{10}, {8}}, 8, 9), 0u);
  EXPECT_EQ(choose_by_pass({{10.1}, {8}}, 8, 9), 1u);
  // Half and twice are as far.
  EXPECT_EQ(choose_by_pass({{4}, {16}}, 8, 9), 0u);
  EXPECT_EQ(choose_by_pass({{16}, {4}}, 8, 9), 0u);
}

TEST(PassGroupingTest, WhoWasOvertakenOftenIsNext) {
  EXPECT_EQ(choose_by_pass({{1, 8}, {8}}, 8, 9), 1u);
  EXPECT_EQ(choose_by_pass({{1, 9}, {8}}, 8, 9), 0u);
  EXPECT_EQ(choose_by_pass({{1, 0}, {8}}, 8, 0), 0u);
}

// --- A model of the group ---------------------------------------------------

struct ModelJob {
  double work;
  int passes;
};

using Draw = std::function<ModelJob(int index, std::mt19937& random)>;

// Whose work is given as that of the last one.
enum class Guide { kLastStarted, kLargestRunning };

double largest_of(const std::vector<ModelJob>& jobs) {
  double largest = 0;
  for (const ModelJob& job : jobs) largest = std::max(largest, job.work);
  return largest;
}

// Jobs per unit of time of a group that always has `kBacklog` jobs waiting. A
// pass takes as long as the largest work of those that make it.
double throughput(const Draw& draw, unsigned seed, size_t ranks,
                  int max_overtaken, Guide guide = Guide::kLastStarted) {
  constexpr int kJobs = 600;
  constexpr size_t kBacklog = 32;
  std::mt19937 random(seed);
  std::vector<ModelJob> queue;
  std::vector<WaitingPass> waiting;
  std::vector<ModelJob> running;
  double last_work = 1;
  double time = 0;
  int arrived = 0;
  int done = 0;
  while (done < kJobs) {
    while (running.size() < ranks) {
      while (queue.size() < kBacklog) {
        queue.push_back(draw(arrived++, random));
        waiting.push_back({queue.back().work});
      }
      const double like =
          guide == Guide::kLastStarted ? last_work : largest_of(running);
      const size_t chosen =
          choose_by_pass(waiting, like, running.empty() ? 0 : max_overtaken);
      for (size_t i = 0; i < chosen; ++i) {
        EXPECT_LE(++waiting[i].overtaken, max_overtaken);
      }
      last_work = queue[chosen].work;
      running.push_back(queue[chosen]);
      queue.erase(queue.begin() + static_cast<int64_t>(chosen));
      waiting.erase(waiting.begin() + static_cast<int64_t>(chosen));
    }
    time += largest_of(running);
    for (ModelJob& job : running) --job.passes;
    const auto ended =
        std::remove_if(running.begin(), running.end(),
                       [](const ModelJob& job) { return job.passes == 0; });
    done += static_cast<int>(running.end() - ended);
    running.erase(ended, running.end());
  }
  return done / time;
}

double gain(const Draw& draw, unsigned seed, int ranks,
            Guide guide = Guide::kLastStarted) {
  return throughput(draw, seed, static_cast<size_t>(ranks),
                    kMaxOvertakenPerRank * ranks, guide) /
         throughput(draw, seed, static_cast<size_t>(ranks), 0);
}

int draw_passes(std::mt19937& random) {
  return std::uniform_int_distribution<int>(10, 30)(random);
}

TEST(PassGroupingModelTest, InTurnsSmallAndLargeOnesGainMuch) {
  const Draw equal_steps = [](int i, std::mt19937&) {
    return ModelJob{i % 2 == 0 ? 1.0 : 8.0, 20};
  };
  const Draw any_steps = [](int i, std::mt19937& random) {
    return ModelJob{i % 2 == 0 ? 1.0 : 8.0, draw_passes(random)};
  };
  EXPECT_GE(gain(equal_steps, 1, 4), 1.6);
  for (unsigned seed = 1; seed <= 5; ++seed) {
    for (const int ranks : {4, 8}) {
      const double last = gain(any_steps, seed, ranks);
      EXPECT_GE(last, 1.3) << ranks << " ranks, seed " << seed;
      EXPECT_GT(last, gain(any_steps, seed, ranks, Guide::kLargestRunning));
    }
  }
}

TEST(PassGroupingModelTest, NoMixLoses) {
  const std::vector<Draw> mixes = {
      [](int, std::mt19937& random) {
        return ModelJob{1, draw_passes(random)};
      },
      [](int, std::mt19937& random) {
        return ModelJob{random() % 2 == 0 ? 1.0 : 8.0, draw_passes(random)};
      },
      // Few large ones, and few small ones.
      [](int, std::mt19937& random) {
        return ModelJob{random() % 10 == 0 ? 8.0 : 1.0, draw_passes(random)};
      },
      [](int, std::mt19937& random) {
        return ModelJob{random() % 10 == 0 ? 1.0 : 8.0, draw_passes(random)};
      },
      // Any size.
      [](int, std::mt19937& random) {
        const double work = std::uniform_real_distribution<>(1, 8)(random);
        return ModelJob{work, draw_passes(random)};
      },
  };
  for (const int ranks : {2, 3, 4, 8}) {
    for (size_t mix = 0; mix < mixes.size(); ++mix) {
      for (unsigned seed = 1; seed <= 5; ++seed) {
        EXPECT_GE(gain(mixes[mix], seed, ranks), 0.95)
            << ranks << " ranks, mix " << mix << ", seed " << seed;
      }
    }
  }
}

TEST(PassGroupingDeathTest, ChoosesAmongSomeOnly) {
  EXPECT_DEATH(choose_by_pass({}, 1, 9), "check failed: !waiting.empty");
}

}  // namespace
}  // namespace ferry
