// A thousand generations that are ended at random moments, in every way in
// which one can be: nothing of them is left, and nobody else notices.

#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using v1::Job;

constexpr int kClients = 4;
// Ended before their time; others may come between.
constexpr int kCancelsOfEach = 250;
constexpr int kSteps = 40;
// As many as come before the end.
constexpr int kMostEvents = 40;

class CancelStormTest : public DaemonFixture {
 protected:
  static v1::GenerateRequest request(int64_t seed) {
    v1::GenerateRequest request = make_request(seed);
    request.mutable_spec()->set_num_inference_steps(kSteps);
    return request;
  }

  static std::string output(Daemon& daemon) {
    GenerateCall call(daemon.generation(), request(1));
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
    return call.outputs().empty() ? "" : call.outputs().at(0);
  }
};

// One client's calls: how each ends is counted by its code and reason.
class Client {
 public:
  Client(Daemon& daemon, int seed)
      : channel_(daemon.new_channel()),
        stub_(v1::GenerationService::NewStub(channel_)),
        random_(seed) {}

  void run() {
    for (int i = 0; cancelled_ < kCancelsOfEach; ++i) {
      ASSERT_LT(i, 100 * kCancelsOfEach) << "nothing is ever cancelled";
      switch (i % 3) {
        case 0:
          cancel_by_name();
          break;
        case 1:
          go_away();
          break;
        default:
          set_deadline();
      }
    }
  }

  const std::map<std::string, int>& ends() const { return ends_; }

 private:
  int draw(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }

  static v1::GenerateRequest request(int64_t seed) {
    v1::GenerateRequest request = make_request(seed);
    request.mutable_spec()->set_num_inference_steps(kSteps);
    return request;
  }

  static void read(GenerateCall& call, int events) {
    for (int i = 0; i < events && call.next().has_value(); ++i) {
    }
  }

  // After CancelJob the stream ends with that, or had succeeded before.
  void cancel_by_name() {
    GenerateCall call(*stub_, request(draw(0, 1000)));
    read(call, draw(1, kMostEvents));
    const auto cancelled = cancel_job(*stub_, call.job().name());
    EXPECT_TRUE(cancelled.status.ok()) << describe(cancelled.status);
    count(call, {"OK", "CANCELLED JOB_CANCELLED"});
    EXPECT_EQ(call.job().state(),
              call.finish().ok() ? Job::STATE_SUCCEEDED : Job::STATE_CANCELLED);
  }

  void go_away() {
    GenerateCall call(*stub_, request(draw(0, 1000)));
    read(call, draw(0, kMostEvents));
    call.cancel();
    count(call, {"OK", "CANCELLED "});
  }

  void set_deadline() {
    GenerateCall::Options options;
    options.deadline = absl::Milliseconds(draw(1, 100));
    GenerateCall call(*stub_, request(draw(0, 1000)), options);
    count(call,
          {"OK", "DEADLINE_EXCEEDED ", "DEADLINE_EXCEEDED DEADLINE_EXCEEDED",
           "DEADLINE_EXCEEDED DEADLINE_UNREACHABLE"});
  }

  void count(GenerateCall& call, const std::vector<std::string>& allowed) {
    const grpc::Status& status = call.finish();
    std::string end = "OK";
    if (!status.ok()) {
      end = absl::StrCat(absl::StatusCodeToString(static_cast<absl::StatusCode>(
                             status.error_code())),
                         " ", parse_details(status).reason);
    }
    EXPECT_THAT(allowed, testing::Contains(end)) << describe(status);
    ++ends_[end];
    if (end != "OK") ++cancelled_;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  std::mt19937 random_;
  std::map<std::string, int> ends_;
  int cancelled_ = 0;
};

TEST_F(CancelStormTest, AThousandCancelsAtRandomMoments) {
  Daemon& daemon = start_ready({{{"tiny", make_package()}}, {}});
  const std::string expected = output(daemon);
  const v1::Pipeline before = daemon.get_pipeline("pipelines/tiny");
  {
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<std::thread> threads;
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(std::make_unique<Client>(daemon, i));
      threads.emplace_back([client = clients.back().get()] { client->run(); });
    }
    for (std::thread& thread : threads) thread.join();
    std::map<std::string, int> ends;
    for (const auto& client : clients) {
      for (const auto& [end, count] : client->ends()) ends[end] += count;
    }
    // Each way was met often, so the moments were spread.
    for (const char* end :
         {"CANCELLED JOB_CANCELLED", "CANCELLED ", "DEADLINE_EXCEEDED "}) {
      EXPECT_GE(ends[end], 20) << end;
    }
    for (const auto& [end, count] : ends) RecordProperty(end, count);
  }
  EXPECT_EQ(output(daemon), expected);
  const v1::Pipeline after = daemon.get_pipeline("pipelines/tiny");
  EXPECT_EQ(after.generation(), before.generation());
  EXPECT_EQ(after.ranks(0).pid(), before.ranks(0).pid());
}

}  // namespace
}  // namespace ferry
