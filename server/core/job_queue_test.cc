#include "server/core/job_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "platform/base/testing/simulated_clock.h"

namespace ferry {
namespace {

using Limit = JobQueue::Limit;
constexpr int64_t kMany = int64_t{1} << 40;

class JobQueueTest : public testing::Test {
 protected:
  std::shared_ptr<Job> make_job(int priority = 0, size_t prompt_bytes = 1) {
    Job::Options options;
    options.name = "jobs/x";
    options.priority = priority;
    options.effective_spec.set_prompt(std::string(prompt_bytes, 'x'));
    return std::make_shared<Job>(options, clock_);
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
    EXPECT_EQ(queue.pop(), job);
  }
  EXPECT_EQ(queue.pop(), nullptr);
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
  exact.pop();
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
  queue.pop();
  EXPECT_EQ(position(*second), 0);
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

}  // namespace
}  // namespace ferry
