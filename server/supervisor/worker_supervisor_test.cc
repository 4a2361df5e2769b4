#include "server/supervisor/worker_supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/error_info.h"
#include "server/supervisor/testing/supervisor_fixture.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using worker::v1::GenerationSummary;

bool process_exists(pid_t pid) { return kill(pid, 0) == 0; }

size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

// Children of this process that have not been reaped.
std::string children() {
  std::string text;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::getline(std::ifstream(task.path() / "children"), line);
    text += line;
  }
  return text;
}

class WorkerSupervisorTest : public SupervisorFixture {
 protected:
  ~WorkerSupervisorTest() override {
    supervisor_.reset();
    EXPECT_THAT(children(), IsEmpty());
  }

  // Runs a generation on a thread of its own and lets `act` happen once it
  // has made its first step.
  template <typename Act>
  absl::Status run_and(Act act, int steps = 1000000) {
    const std::shared_ptr<Rank> rank = log_.rank();
    CollectedEvents events;
    absl::Status status;
    std::thread thread(
        [&] { status = rank->run(request(steps), events).status(); });
    events.wait_for_step(1);
    act(*rank);
    thread.join();
    return status;
  }

  static void expect_lost(const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    ASSERT_TRUE(get_error_info(status).has_value()) << status;
    EXPECT_EQ(get_error_info(status)->reason, "WORKER_LOST");
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_TRUE(status.GetPayload("type.googleapis.com/google.rpc.RetryInfo")
                    .has_value());
  }
};

TEST_F(WorkerSupervisorTest, ServesAndStops) {
  start("");
  log_.wait_for("READY 1");
  EXPECT_EQ(pipeline().limits().max_edge(), 64);
  EXPECT_EQ(pipeline().offload().strategy(), "none");
  ASSERT_EQ(pipeline().ranks_size(), 1);
  EXPECT_EQ(pipeline().ranks(0).device(), "cpu");
  const pid_t pid = worker_pid();
  EXPECT_TRUE(process_exists(pid));

  CollectedEvents events;
  const absl::StatusOr<GenerationSummary> summary =
      log_.rank()->run(request(4), events);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_TRUE(summary->timings().has_denoise());
  EXPECT_EQ(summary->offload().strategy(), "none");
  EXPECT_THAT(events.steps, ElementsAre(1, 2, 3, 4));
  ASSERT_EQ(events.chunks.size(), 1u);
  EXPECT_EQ(events.chunks[0].final_info().seed(), 7);

  supervisor_->stop();
  EXPECT_FALSE(process_exists(pid));
  EXPECT_THAT(log_.entries(), ElementsAre("LOADING 1", "add", "READY 1",
                                          "UNLOADED 1", "remove"));
}

TEST_F(WorkerSupervisorTest, LargeOutputsComeInPieces) {
  constexpr int kBytes = 20 << 20;
  start(absl::StrCat("output_bytes=", kBytes));
  log_.wait_for("READY 1");
  CollectedEvents events;
  ASSERT_TRUE(log_.rank()->run(request(), events).ok());
  int64_t bytes = 0;
  for (const v1::OutputChunk& chunk : events.chunks) {
    EXPECT_EQ(chunk.offset(), bytes);
    EXPECT_LE(chunk.ByteSizeLong(), size_t{1} << 20);
    bytes += static_cast<int64_t>(chunk.data().size());
    EXPECT_EQ(chunk.has_final_info(), bytes == kBytes);
  }
  EXPECT_EQ(bytes, kBytes);
}

TEST_F(WorkerSupervisorTest, AKilledWorkerEndsItsRequestAndComesBack) {
  // Only the end of the process itself can tell so soon.
  options_.worker.heartbeat_interval = absl::Hours(1);
  start("hang_in_step=1;");
  log_.wait_for("READY 1");
  const pid_t first = worker_pid();
  const absl::Status status = run_and([&](Rank&) { kill(first, SIGKILL); });
  expect_lost(status, "killed by signal 9 (SIGKILL)");
  // Said once, though several say it to each other.
  EXPECT_EQ(status.message(),
            absl::StrCat("the worker of ", kPipeline,
                         " was lost: rank 0 killed by signal 9 (SIGKILL)"));
  // Whoever sees the error sees a pipeline that is not READY.
  EXPECT_THAT(log_.entries(), Contains("RESTARTING 1"));
  log_.wait_for("READY 2");
  EXPECT_NE(worker_pid(), first);
  CollectedEvents events;
  EXPECT_TRUE(log_.rank()->run(request(), events).ok());
  EXPECT_THAT(log_.entries(),
              ElementsAre("LOADING 1", "add", "READY 1", "RESTARTING 1",
                          "remove", "RESTARTING 2", "add", "READY 2"));
}

TEST_F(WorkerSupervisorTest, AnIdleWorkersDeathIsSeen) {
  options_.worker.heartbeat_interval = absl::Hours(1);
  start("");
  log_.wait_for("READY 1");
  const std::shared_ptr<Rank> lost = log_.rank();
  kill(worker_pid(), SIGSEGV);
  log_.wait_for("READY 2");
  CollectedEvents events;
  expect_lost(lost->run(request(), events).status(), "SIGSEGV");
}

TEST_F(WorkerSupervisorTest, OneLostRankIsTheGroupsEnd) {
  options_.worker.ranks = 2;
  start("");
  log_.wait_for("READY 1");
  ASSERT_EQ(pipeline().ranks_size(), 2);
  const pid_t first = static_cast<pid_t>(pipeline().ranks(0).pid());
  const pid_t second = static_cast<pid_t>(pipeline().ranks(1).pid());
  kill(second, SIGKILL);
  log_.wait_for("READY 2");
  EXPECT_FALSE(process_exists(first));
  EXPECT_EQ(pipeline().ranks_size(), 2);
  EXPECT_THAT(
      log_.entries(),
      ElementsAre("LOADING 1", "add", "add", "READY 1", "RESTARTING 1",
                  "remove", "remove", "RESTARTING 2", "add", "add", "READY 2"));
}

// Each loads until it has seen all waves, whoever wanted them.
TEST_F(WorkerSupervisorTest, WavesReachEveryRank) {
  options_.worker.ranks = 3;
  start("waves=100");
  log_.wait_for("READY 1");
  // Ranks that made passes to load do not always go on so.
  EXPECT_FALSE(log_.rank()->makes_passes_with_others());
  supervisor_->stop();
  EXPECT_THAT(children(), IsEmpty());
}

TEST_F(WorkerSupervisorTest, AWaveThatNeverWasLosesTheGroup) {
  options_.worker.ranks = 2;
  options_.restart.limit = 0;
  start("wrong_wave@1");
  EXPECT_THAT(log_.wait_for("budget_spent"),
              HasSubstr("rank 1 asks for a wave after 7, and 0 was the last"));
}

TEST_F(WorkerSupervisorTest, EveryGenerationMeetsAtAPlaceOfItsOwn) {
  options_.worker.ranks = 2;
  start("");
  log_.wait_for("READY 1");
  const std::string first = pipeline().version();
  EXPECT_EQ(first.size(), 32u);
  kill(worker_pid(), SIGKILL);
  log_.wait_for("READY 2");
  EXPECT_EQ(pipeline().version().size(), 32u);
  EXPECT_NE(pipeline().version(), first);
}

TEST_F(WorkerSupervisorTest, RanksOfOneKindOfDeviceServe) {
  options_.worker.ranks = 3;
  start("on_gpu");
  log_.wait_for("READY 1");
  ASSERT_EQ(pipeline().ranks_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pipeline().ranks(i).index(), i);
    EXPECT_EQ(pipeline().ranks(i).device(), absl::StrCat("cuda:", i));
  }
}

TEST_F(WorkerSupervisorTest, RanksOfUnequalDevicesAreALoadError) {
  options_.worker.ranks = 3;
  start("on_gpu@0,on_gpu@1");
  EXPECT_THAT(log_.wait_for("load_error"),
              HasSubstr("rank 0 has the device cuda:0 and rank 2 cpu"));
  EXPECT_EQ(pipeline().state(), v1::Pipeline::STATE_FAILED);
  EXPECT_THAT(children(), IsEmpty());
}

TEST_F(WorkerSupervisorTest, OneRanksReportedLoadErrorIsFinal) {
  options_.worker.ranks = 3;
  start("hang_in_load@0,load_error@2");
  log_.wait_for("load_error");
  EXPECT_THAT(log_.entries(),
              ElementsAre("LOADING 1", "FAILED 1",
                          StartsWith("fail_queued PIPELINE_FAILED"),
                          StartsWith("load_error")));
  EXPECT_THAT(children(), IsEmpty());
}

TEST_F(WorkerSupervisorTest, AWorkerThatDiesInAStepIsReplaced) {
  start("die_in_step=2;");
  log_.wait_for("READY 1");
  CollectedEvents events;
  expect_lost(log_.rank()->run(request(), events).status(), "SIGKILL");
  log_.wait_for("READY 2");
}

TEST_F(WorkerSupervisorTest, DeathBeforeAndWhileLoadingIsRetried) {
  start("exit_before_hello=3;exit_in_load=4;");
  log_.wait_for("READY 3");
  EXPECT_THAT(log_.entries(), ElementsAre("LOADING 1", "RESTARTING 2",
                                          "RESTARTING 3", "add", "READY 3"));
}

TEST_F(WorkerSupervisorTest, AReportedLoadErrorIsFinal) {
  start("load_error");
  EXPECT_EQ(log_.wait_for("load_error"),
            "load_error ferry.txtpb: the package is wrong");
  EXPECT_THAT(log_.entries(),
              ElementsAre("LOADING 1", "FAILED 1",
                          StartsWith("fail_queued PIPELINE_FAILED"),
                          StartsWith("load_error")));
  EXPECT_EQ(pipeline().error().code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(pipeline().error().message(), "ferry.txtpb: the package is wrong");
  EXPECT_THAT(children(), IsEmpty());
}

TEST_F(WorkerSupervisorTest, TheBudgetIsSpentWithTheLastLines) {
  options_.restart.limit = 2;
  start("exit_before_hello=3");
  EXPECT_THAT(log_.wait_for("budget_spent"),
              AllOf(HasSubstr("rank 0 exited with code 3"),
                    HasSubstr("I cannot start")));
  EXPECT_THAT(
      log_.entries(),
      ElementsAre("LOADING 1", "RESTARTING 2", "RESTARTING 3", "FAILED 3",
                  "fail_queued PIPELINE_FAILED", StartsWith("budget_spent")));
  EXPECT_THAT(pipeline().error().message(), HasSubstr("exited with code 3"));
}

TEST_F(WorkerSupervisorTest, AMissingProgramIsNamed) {
  options_.restart.limit = 0;
  start("");
  log_.wait_for("READY 1");
  supervisor_.reset();
  // Again, with a program that is not there.
  options_.worker.command = {"/no/such/worker"};
  WorkerSupervisor::Callbacks callbacks;
  callbacks.on_budget_spent = [&](const std::string&, const absl::Status& e) {
    log_.append(absl::StrCat("budget_spent ", e.message()));
  };
  WorkerSupervisor other({{options_}}, callbacks, directory_, log_,
                         Clock::real());
  other.start();
  EXPECT_THAT(log_.wait_for("budget_spent"), HasSubstr("/no/such/worker"));
}

TEST_F(WorkerSupervisorTest, ALoadThatHangsIsCutOff) {
  options_.worker.load_timeout = absl::Milliseconds(500);
  // Only the first generation may be that slow.
  options_.restart.limit = 100;
  start("hang_in_load;");
  log_.wait_for("RESTARTING 2");
}

TEST_F(WorkerSupervisorTest, AStepThatHangsEndsTheGroup) {
  options_.worker.step_timeout = absl::Milliseconds(200);
  options_.worker.heartbeat_interval = absl::Milliseconds(20);
  start("hang_in_step=2;");
  log_.wait_for("READY 1");
  expect_lost(run_and([](Rank&) {}),
              "runs jobs/1, which made no progress for 200ms");
  log_.wait_for("READY 2");
}

TEST_F(WorkerSupervisorTest, ACancelThatIsIgnoredEndsTheGroup) {
  options_.worker.cancel_grace = absl::Milliseconds(200);
  options_.worker.heartbeat_interval = absl::Milliseconds(20);
  start("ignore_cancel;");
  log_.wait_for("READY 1");
  expect_lost(run_and([](Rank& rank) { rank.cancel(); }, 2000000000),
              "runs jobs/1, which was cancelled and did not end within 200ms");
  log_.wait_for("READY 2");
}

TEST_F(WorkerSupervisorTest, ACancelledRankIsFreeAtOnce) {
  start("");
  log_.wait_for("READY 1");
  for (int i = 0; i < 10; ++i) {
    const absl::Status status = run_and([](Rank& rank) { rank.cancel(); });
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    CollectedEvents events;
    const auto next = log_.rank()->run(request(), events);
    EXPECT_TRUE(next.ok()) << next.status();
  }
}

TEST_F(WorkerSupervisorTest, AStoppedProcessIsSeenByItsSilence) {
  options_.worker.heartbeat_interval = absl::Milliseconds(20);
  options_.worker.heartbeat_timeout = absl::Seconds(3);
  start("");
  log_.wait_for("READY 1");
  const pid_t pid = worker_pid();
  const absl::Status status = run_and([&](Rank&) { kill(pid, SIGSTOP); });
  expect_lost(status, "did not answer for 3s");
  log_.wait_for("READY 2");
  EXPECT_FALSE(process_exists(pid));
}

TEST_F(WorkerSupervisorTest, AWorkerThatIgnoresSigtermIsKilled) {
  options_.worker.stop_grace = absl::Milliseconds(200);
  start("ignore_sigterm");
  log_.wait_for("READY 1");
  const pid_t pid = worker_pid();
  supervisor_->stop();
  EXPECT_FALSE(process_exists(pid));
}

TEST_F(WorkerSupervisorTest, StopEndsWhatRuns) {
  options_.worker.stop_grace = absl::Milliseconds(200);
  start("hang_in_step=1");
  log_.wait_for("READY 1");
  expect_lost(run_and([&](Rank&) { supervisor_->stop(); }), "the server ends");
}

TEST_F(WorkerSupervisorTest, StopsWhileLoading) {
  start("hang_in_load");
  supervisor_->stop();
  EXPECT_THAT(log_.entries(), ElementsAre("LOADING 1", "UNLOADED 1"));
}

TEST_F(WorkerSupervisorTest, StopsWhileItWaitsToRestart) {
  options_.restart.backoff_min = absl::Hours(1);
  options_.restart.backoff_max = absl::Hours(1);
  start("exit_before_hello=3");
  log_.wait_for("RESTARTING 2");
  supervisor_->stop();
  EXPECT_THAT(log_.entries(),
              ElementsAre("LOADING 1", "RESTARTING 2", StartsWith("UNLOADED")));
}

TEST_F(WorkerSupervisorTest, NothingLeaksOverManyRestarts) {
  const size_t before = open_descriptors();
  options_.restart.limit = 50;
  start("exit_before_hello=3");
  log_.wait_for("budget_spent");
  EXPECT_EQ(pipeline().generation(), 51);
  supervisor_.reset();
  // gRPC keeps a few of its own once it has been used.
  EXPECT_LE(open_descriptors(), before + 5);
}

TEST_F(WorkerSupervisorTest, WorkersGetNoDescriptorOfOurs) {
  const std::string marker =
      absl::StrCat(::testing::TempDir(), "/careless_library");
  // Without O_CLOEXEC.
  const int fd = open(marker.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  start("");
  log_.wait_for("READY 1");
  for (const auto& entry : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", worker_pid(), "/fd"))) {
    std::error_code ignored;
    EXPECT_THAT(std::filesystem::read_symlink(entry.path(), ignored).string(),
                Not(HasSubstr("careless_library")));
  }
  close(fd);
}

}  // namespace
}  // namespace ferry
