// Jobs after the fact: ListJobs, its pages and order, and what is forgotten.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::SizeIs;
using v1::Job;

class JobsTest : public DaemonFixture {
 protected:
  // Names of all jobs, in pages of `page_size`.
  static std::vector<std::string> list_names(Daemon& daemon, int page_size,
                                             std::vector<int>* page_sizes) {
    std::vector<std::string> names;
    v1::ListJobsRequest request;
    request.set_page_size(page_size);
    do {
      const auto page = list_jobs(daemon.generation(), request);
      EXPECT_TRUE(page.status.ok()) << describe(page.status);
      for (const Job& job : page.response.jobs()) names.push_back(job.name());
      page_sizes->push_back(page.response.jobs_size());
      request.set_page_token(page.response.next_page_token());
    } while (!request.page_token().empty());
    return names;
  }

  // Runs the smallest job there is and returns its name.
  static std::string run_job(Daemon& daemon) {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(1);
    request.mutable_spec()->mutable_output()->set_omit_data(true);
    GenerateCall call(daemon.generation(), request);
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
    return call.job().name();
  }
};

TEST_F(JobsTest, ListsNewestFirstInPages) {
  Daemon& daemon = start_ready({{{"tiny", make_package()}}, {}});
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) names.push_back(run_job(daemon));
  std::reverse(names.begin(), names.end());
  std::vector<int> page_sizes;
  EXPECT_THAT(list_names(daemon, 2, &page_sizes), ElementsAreArray(names));
  EXPECT_THAT(page_sizes, ElementsAre(2, 2, 1));
  page_sizes.clear();
  EXPECT_THAT(list_names(daemon, 0, &page_sizes), ElementsAreArray(names));
  EXPECT_THAT(page_sizes, ElementsAre(5));
}

TEST_F(JobsTest, ListsStatesWithoutSpecs) {
  Daemon& daemon = start_ready({{{"slow", slow_package()}}, {}});
  const std::string succeeded = run_job(daemon);
  GenerateCall cancelled(daemon.generation(), make_request());
  ASSERT_TRUE(cancelled.wait_for_state(Job::STATE_RUNNING));
  ASSERT_TRUE(
      cancel_job(daemon.generation(), cancelled.job().name()).status.ok());
  ASSERT_FALSE(cancelled.finish().ok());
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(200);
  GenerateCall running(daemon.generation(), request);
  ASSERT_TRUE(running.wait_for_state(Job::STATE_RUNNING));
  GenerateCall queued(daemon.generation(), request);
  ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED));

  const auto names_of = [&](const std::vector<Job::State>& states) {
    v1::ListJobsRequest list_request;
    for (const Job::State state : states) list_request.add_states(state);
    std::vector<std::string> names;
    const auto list = list_jobs(daemon.generation(), list_request);
    EXPECT_TRUE(list.status.ok()) << describe(list.status);
    for (const Job& job : list.response.jobs()) {
      EXPECT_FALSE(job.has_effective_spec());
      EXPECT_THAT(job.outputs(), testing::IsEmpty());
      EXPECT_EQ(job.pipeline(), "pipelines/slow");
      names.push_back(job.name());
    }
    return names;
  };
  EXPECT_THAT(names_of({Job::STATE_SUCCEEDED}), ElementsAre(succeeded));
  EXPECT_THAT(names_of({Job::STATE_CANCELLED}),
              ElementsAre(cancelled.job().name()));
  EXPECT_THAT(names_of({Job::STATE_RUNNING}),
              ElementsAre(running.job().name()));
  EXPECT_THAT(names_of({Job::STATE_QUEUED}), ElementsAre(queued.job().name()));
  EXPECT_THAT(names_of({Job::STATE_QUEUED, Job::STATE_RUNNING}),
              ElementsAre(queued.job().name(), running.job().name()));
  EXPECT_THAT(names_of({}), SizeIs(4));
}

TEST_F(JobsTest, KeepsTheLast256FinishedJobs) {
  Daemon& daemon = start_ready({{{"tiny", make_package()}}, {}});
  const std::string first = run_job(daemon);
  std::vector<std::string> names;
  for (int i = 0; i < 256; ++i) names.push_back(run_job(daemon));
  std::reverse(names.begin(), names.end());
  std::vector<int> page_sizes;
  EXPECT_THAT(list_names(daemon, 1000, &page_sizes), ElementsAreArray(names));
  EXPECT_THAT(page_sizes, ElementsAre(256));
  const grpc::Status status = get_job(daemon.generation(), first).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(parse_details(status).reason, "JOB_EXPIRED");
  EXPECT_EQ(parse_details(status).resource_name, first);
  EXPECT_TRUE(get_job(daemon.generation(), names.back()).status.ok());
}

}  // namespace
}  // namespace ferry
