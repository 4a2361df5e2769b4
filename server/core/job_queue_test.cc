#include "server/core/job_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "platform/base/testing/simulated_clock.h"

namespace ferry {
namespace {

using Limit = JobQueue::Limit;
constexpr int64_t kMany = int64_t{1} << 40;

class JobQueueTest : public testing::Test {
 protected:
  std::shared_ptr<Job> make_job(int priority = 0, size_t prompt_bytes = 1,
                                double work = 1) {
    Job::Options options;
    options.name = "jobs/x";
    options.priority = priority;
    options.work.pass = work;
    options.effective_spec.set_prompt(std::string(prompt_bytes, 'x'));
    return std::make_shared<Job>(options, clock_);
  }

  std::shared_ptr<Job> job_of(double work, int priority = 0) {
    return make_job(priority, 1, work);
  }

  static int position(const Job& job) {
    return job.snapshot().progress().queue_position();
  }

  SimulatedClock clock_;
};

TEST_F(JobQueueTest, OrdersByPriorityThenArrival) {
  JobQueue queue(10, kMany);
  const auto low1 = make_job(0);
  const auto low2 = make_job(0);
  const auto high1 = make_job(9);
  const auto high2 = make_job(9);
  const auto middle = make_job(5);
  for (const auto& job : {low1, low2, high1, middle, high2}) {
    EXPECT_EQ(queue.push(job, 0), Limit::kNone);
  }
  for (const auto& job : {high1, high2, middle, low1, low2}) {
    EXPECT_EQ(queue.pop(1, 0), job);
  }
  EXPECT_EQ(queue.pop(1, 0), nullptr);
  EXPECT_EQ(queue.bytes(), 0);
}

TEST_F(JobQueueTest, TakesExactlyItsNumberOfJobs) {
  for (const int limit : {0, 1, 7}) {
    JobQueue queue(limit, kMany);
    for (int i = 0; i < limit; ++i) {
      EXPECT_EQ(queue.push(make_job(), 0), Limit::kNone);
    }
    EXPECT_EQ(queue.push(make_job(), 0), Limit::kJobs);
    EXPECT_EQ(queue.size(), limit);
  }
}

TEST_F(JobQueueTest, IdleRanksTakeJobsBeyondTheLimit) {
  JobQueue queue(1, kMany);
  EXPECT_EQ(queue.push(make_job(), 2), Limit::kNone);
  EXPECT_EQ(queue.push(make_job(), 2), Limit::kNone);
  EXPECT_EQ(queue.push(make_job(), 2), Limit::kNone);
  EXPECT_EQ(queue.push(make_job(), 2), Limit::kJobs);
}

TEST_F(JobQueueTest, CountsBytesToTheLastOne) {
  const int64_t bytes = make_job(0, 1000)->queue_bytes();
  EXPECT_GE(bytes, 1000);
  JobQueue exact(10, 2 * bytes);
  EXPECT_EQ(exact.push(make_job(0, 1000), 0), Limit::kNone);
  EXPECT_EQ(exact.push(make_job(0, 1000), 0), Limit::kNone);
  EXPECT_EQ(exact.push(make_job(0, 1), 0), Limit::kBytes);
  EXPECT_EQ(exact.bytes(), 2 * bytes);
  exact.pop(1, 0);
  EXPECT_EQ(exact.push(make_job(0, 1000), 0), Limit::kNone);
  JobQueue short_of_one(10, 2 * bytes - 1);
  EXPECT_EQ(short_of_one.push(make_job(0, 1000), 0), Limit::kNone);
  EXPECT_EQ(short_of_one.push(make_job(0, 1000), 0), Limit::kBytes);
}

TEST_F(JobQueueTest, TellsJobsTheirPositions) {
  JobQueue queue(10, kMany);
  const auto first = make_job();
  const auto second = make_job();
  const auto urgent = make_job(1);
  queue.push(first, 0);
  queue.push(second, 0);
  EXPECT_EQ(position(*second), 1);
  queue.push(urgent, 0);
  EXPECT_EQ(position(*urgent), 0);
  EXPECT_EQ(position(*second), 2);
  EXPECT_TRUE(queue.remove(*first));
  EXPECT_FALSE(queue.remove(*first));
  EXPECT_EQ(position(*second), 1);
  queue.pop(1, 0);
  EXPECT_EQ(position(*second), 0);
}

TEST_F(JobQueueTest, GivesWhatIsLikeTheLastOne) {
  JobQueue queue(10, kMany);
  const auto small = job_of(1);
  const auto large1 = job_of(8);
  const auto large2 = job_of(8);
  const auto urgent = job_of(1, 9);
  for (const auto& job : {small, large1, large2}) queue.push(job, 0);
  EXPECT_EQ(queue.pop(8, 2), large1);
  // By arrival, whatever is taken.
  EXPECT_EQ(position(*small), 0);
  EXPECT_EQ(position(*large2), 1);
  queue.push(urgent, 0);
  EXPECT_EQ(queue.pop(8, 2), urgent);
  EXPECT_EQ(queue.pop(8, 2), large2);
  queue.push(job_of(8), 0);
  // It has been overtaken twice.
  EXPECT_EQ(queue.pop(8, 2), small);
}

TEST_F(JobQueueTest, KnowsWhatCannotBeOvertaken) {
  JobQueue queue(10, kMany);
  const auto small = job_of(1);
  const auto large = job_of(8);
  const auto urgent = job_of(1, 9);
  const auto later = job_of(4);
  for (const auto& job : {small, large, urgent, later}) queue.push(job, 0);
  using Jobs = std::vector<std::shared_ptr<Job>>;
  EXPECT_EQ(queue.jobs_before(0, 0), (Jobs{urgent, small, large, later}));
  EXPECT_EQ(queue.jobs_before(0, 1), (Jobs{urgent}));
  EXPECT_EQ(queue.jobs_before(9, 1), Jobs());
  EXPECT_EQ(queue.pop(8, 1), urgent);
  EXPECT_EQ(queue.pop(8, 1), large);
  EXPECT_EQ(queue.jobs_before(0, 1), (Jobs{small}));
  EXPECT_EQ(queue.jobs_before(1, 1), Jobs());
}

// Random arrivals and priorities, and a bound that changes with the ranks.
TEST_F(JobQueueTest, ServesEverybodyWithinTheBound) {
  std::mt19937 random(7);
  const auto draw = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  int overtakes = 0;
  for (int round = 0; round < 200; ++round) {
    const int bound = 1 + draw(8);
    JobQueue queue(1000, kMany);
    // In order of arrival, with how often each was overtaken.
    std::vector<std::pair<std::shared_ptr<Job>, int>> waiting;
    double last_work = 1;
    int arrivals = 0;
    while (arrivals < 60 || !waiting.empty()) {
      if (arrivals < 60 && (waiting.empty() || draw(3) > 0)) {
        waiting.emplace_back(job_of(1 << draw(4), draw(3)), 0);
        queue.push(waiting.back().first, 0);
        ++arrivals;
        continue;
      }
      const auto taken = queue.pop(last_work, bound);
      ASSERT_NE(taken, nullptr);
      last_work = taken->work().pass;
      const auto it =
          std::find_if(waiting.begin(), waiting.end(),
                       [&](const auto& entry) { return entry.first == taken; });
      ASSERT_NE(it, waiting.end());
      for (auto other = waiting.begin(); other != waiting.end(); ++other) {
        ASSERT_LE(other->first->priority(), taken->priority());
        if (other >= it || other->first->priority() < taken->priority()) {
          continue;
        }
        ++overtakes;
        ASSERT_LE(++other->second, bound);
      }
      waiting.erase(it);
    }
    EXPECT_EQ(queue.size(), 0);
  }
  EXPECT_GT(overtakes, 1000);
}

TEST_F(JobQueueTest, GivesEverythingUpInOrder) {
  JobQueue queue(10, kMany);
  const auto low = make_job(0);
  const auto high = make_job(1);
  queue.push(low, 0);
  queue.push(high, 0);
  EXPECT_EQ(queue.remove_all(), (std::vector<std::shared_ptr<Job>>{high, low}));
  EXPECT_EQ(queue.size(), 0);
  EXPECT_EQ(queue.bytes(), 0);
}

using JobQueueDeathTest = JobQueueTest;

TEST_F(JobQueueDeathTest, TakesOnlyJobsThatWait) {
  JobQueue queue(10, kMany);
  EXPECT_DEATH(queue.push(nullptr, 0), "check failed: job != nullptr");
  const auto running = make_job();
  ASSERT_TRUE(running->start());
  EXPECT_DEATH(queue.push(running, 0), "v1::Job::STATE_QUEUED \\(2 and 1\\)");
  const auto finished = make_job();
  ASSERT_TRUE(finished->finish(absl::CancelledError("told to")));
  EXPECT_DEATH(queue.push(finished, 0), "v1::Job::STATE_QUEUED");
}

}  // namespace
}  // namespace ferry
