#include "server/core/job_registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "platform/base/error_info.h"
#include "platform/base/testing/simulated_clock.h"
#include "server/core/errors.h"

namespace ferry {
namespace {

std::string reason_of(const absl::Status& status) {
  return get_error_info(status).value_or(ErrorInfo{}).reason;
}

class JobRegistryTest : public testing::Test {
 protected:
  std::shared_ptr<Job> add(const std::string& name, size_t label_bytes = 0) {
    Job::Options options;
    options.name = "jobs/" + name;
    options.effective_spec.set_prompt("secret");
    if (label_bytes > 0) {
      options.labels["label"] = std::string(label_bytes, 'x');
    }
    auto job = std::make_shared<Job>(options, clock_);
    registry_.add(job);
    return job;
  }

  void finish(Job& job) {
    ASSERT_TRUE(job.finish(job_cancelled()));
    registry_.mark_finished(job);
  }

  // Names of the jobs of all pages.
  std::vector<std::vector<std::string>> pages(v1::ListJobsRequest request) {
    std::vector<std::vector<std::string>> result;
    do {
      const auto response = registry_.list(request);
      EXPECT_TRUE(response.ok()) << response.status();
      if (!response.ok()) return result;
      result.emplace_back();
      for (const v1::Job& job : response->jobs()) {
        result.back().push_back(job.name().substr(5));
      }
      request.set_page_token(response->next_page_token());
    } while (!request.page_token().empty());
    return result;
  }

  SimulatedClock clock_;
  JobRegistry registry_{3};
};

using Pages = std::vector<std::vector<std::string>>;

TEST_F(JobRegistryTest, NamesHold128RandomBits) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = JobRegistry::new_name();
    EXPECT_EQ(name.size(), 37u);
    EXPECT_EQ(name.find_first_not_of("0123456789abcdef", 5), std::string::npos);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 1000u);
}

TEST_F(JobRegistryTest, FindsJobsByName) {
  const auto job = add("a");
  EXPECT_EQ(*registry_.find("jobs/a"), job);
  EXPECT_EQ(reason_of(registry_.find("jobs/b").status()), "JOB_NOT_FOUND");
  EXPECT_TRUE(absl::IsNotFound(registry_.find("jobs/b").status()));
  EXPECT_EQ(reason_of(registry_.find("").status()), "INVALID_FIELD");
  EXPECT_EQ(reason_of(registry_.find("a").status()), "INVALID_FIELD");
}

TEST_F(JobRegistryTest, KeepsTheLatestFinishedAndAllOthers) {
  const auto waiting = add("waiting");
  std::vector<std::shared_ptr<Job>> jobs;
  for (const char* name : {"a", "b", "c", "d"}) jobs.push_back(add(name));
  // The order of ending counts, not that of coming.
  for (const int i : {1, 0, 2, 3}) finish(*jobs[i]);
  EXPECT_EQ(reason_of(registry_.find("jobs/b").status()), "JOB_EXPIRED");
  EXPECT_TRUE(absl::IsNotFound(registry_.find("jobs/b").status()));
  EXPECT_EQ(jobs[1].use_count(), 1) << "it is still held";
  for (const char* name : {"jobs/a", "jobs/c", "jobs/d", "jobs/waiting"}) {
    EXPECT_TRUE(registry_.find(name).ok()) << name;
  }
}

TEST_F(JobRegistryTest, ForgetsNamesInTheEnd) {
  for (int i = 0; i < 5000; ++i) finish(*add(absl::StrCat(i)));
  EXPECT_EQ(reason_of(registry_.find("jobs/0").status()), "JOB_NOT_FOUND");
  EXPECT_EQ(reason_of(registry_.find("jobs/4990").status()), "JOB_EXPIRED");
  EXPECT_TRUE(registry_.find("jobs/4999").ok());
}

TEST_F(JobRegistryTest, ListsNewestFirstWithoutSpecs) {
  for (const char* name : {"a", "b", "c"}) add(name);
  EXPECT_EQ(pages({}), (Pages{{"c", "b", "a"}}));
  EXPECT_FALSE(registry_.list({})->jobs(0).has_effective_spec());
}

TEST_F(JobRegistryTest, PagesAreStableWhileJobsComeAndGo) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 5; ++i) jobs.push_back(add(absl::StrCat(i)));
  v1::ListJobsRequest request;
  request.set_page_size(2);
  EXPECT_EQ(pages(request), (Pages{{"4", "3"}, {"2", "1"}, {"0"}}));
  auto first = registry_.list(request);
  // The last job of the page goes, a new one comes.
  for (const int i : {3, 4, 0, 1}) finish(*jobs[i]);
  add("new");
  request.set_page_token(first->next_page_token());
  EXPECT_EQ(pages(request), (Pages{{"2", "1"}, {"0"}}));
}

TEST_F(JobRegistryTest, ThereIsNoTokenAfterAFullLastPage) {
  for (int i = 0; i < 4; ++i) add(absl::StrCat(i));
  v1::ListJobsRequest request;
  request.set_page_size(2);
  EXPECT_EQ(pages(request), (Pages{{"3", "2"}, {"1", "0"}}));
}

TEST_F(JobRegistryTest, FiltersByState) {
  add("a")->start();
  finish(*add("b"));
  add("c");
  v1::ListJobsRequest request;
  request.add_states(v1::Job::STATE_CANCELLED);
  EXPECT_EQ(pages(request), (Pages{{"b"}}));
  request.add_states(v1::Job::STATE_QUEUED);
  EXPECT_EQ(pages(request), (Pages{{"c", "b"}}));
}

TEST_F(JobRegistryTest, PagesEndAtTheirBytes) {
  for (int i = 0; i < 12; ++i) add(absl::StrCat(i), 100 << 10);
  const Pages all = pages({});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].size(), 5u);
  EXPECT_EQ(all[2].size(), 2u);
}

TEST_F(JobRegistryTest, AJobLargerThanAPageIsAPage) {
  add("a", 600 << 10);
  add("b", 600 << 10);
  EXPECT_EQ(pages({}), (Pages{{"b"}, {"a"}}));
}

TEST_F(JobRegistryTest, RefusesTokensThatAreNotItsOwn) {
  for (int i = 0; i < 4; ++i) add(absl::StrCat(i));
  v1::ListJobsRequest request;
  request.set_page_size(1);
  const std::string token = registry_.list(request)->next_page_token();
  JobRegistry other(3);
  for (const std::string& bad :
       {std::string("x"), token + "0", token.substr(1),
        token.substr(0, token.size() - 1), token.substr(0, 16),
        token.substr(0, token.size() - 1) + "g", std::string(10000, '0')}) {
    request.set_page_token(bad);
    const auto response = registry_.list(request);
    EXPECT_EQ(reason_of(response.status()), "INVALID_PAGE_TOKEN") << bad;
    EXPECT_TRUE(absl::IsInvalidArgument(response.status()));
  }
  request.set_page_token(token);
  EXPECT_TRUE(registry_.list(request).ok());
  EXPECT_EQ(reason_of(other.list(request).status()), "INVALID_PAGE_TOKEN");
  request.add_states(v1::Job::STATE_QUEUED);
  EXPECT_EQ(reason_of(registry_.list(request).status()), "INVALID_PAGE_TOKEN");
}

TEST_F(JobRegistryTest, ChecksSizeAndStates) {
  for (const int size : {-1, 1001, INT32_MAX, INT32_MIN}) {
    v1::ListJobsRequest request;
    request.set_page_size(size);
    EXPECT_EQ(reason_of(registry_.list(request).status()), "INVALID_FIELD");
  }
  for (const int state : {0, 6, 63, -1, INT32_MAX}) {
    v1::ListJobsRequest request;
    request.add_states(static_cast<v1::Job::State>(state));
    EXPECT_EQ(reason_of(registry_.list(request).status()), "INVALID_FIELD");
  }
}

using JobRegistryDeathTest = JobRegistryTest;

TEST_F(JobRegistryDeathTest, KnowsEachJobOnceAndItsEndOnce) {
  JobRegistry registry(0);
  Job::Options options;
  options.name = JobRegistry::new_name();
  const auto job = std::make_shared<Job>(options, clock_);
  EXPECT_DEATH(registry.mark_finished(*job), "number != numbers_.end");
  registry.add(job);
  EXPECT_DEATH(registry.add(job), "numbers_.emplace");
  registry.mark_finished(*job);
  EXPECT_DEATH(registry.mark_finished(*job), "number != numbers_.end");
}

}  // namespace
}  // namespace ferry
