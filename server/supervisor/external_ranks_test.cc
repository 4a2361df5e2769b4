// Groups with ranks that others start: workers that dial.

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ferry/v1/pipeline_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "platform/base/error_info.h"
#include "platform/os/exit_status.h"
#include "platform/os/pipe.h"
#include "platform/os/subprocess.h"
#include "server/ipc/worker_exit.h"
#include "server/supervisor/testing/supervisor_fixture.h"
#include "server/supervisor/worker_gate.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kToken[] = "0123456789abcdef";
constexpr absl::Duration kGenerous = absl::Seconds(30);
const ExitStatus kConnectionEnded = ExitStatus::exited(kWorkerConnectionEnded);

// A worker that the test starts.
struct External {
  std::unique_ptr<Subprocess> process;
  Pipe err;

  // What it has written, once it has ended.
  std::string output() {
    err.write_end.reset();
    std::string text(4096, '\0');
    const ssize_t size = read(err.read_end.get(), text.data(), text.size());
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
  }
};

class ExternalRanksTest : public SupervisorFixture {
 protected:
  ~ExternalRanksTest() override { supervisor_.reset(); }

  // Starts ferryd's part of a group of which the last ranks are external.
  void start_group(int ranks, int external_ranks,
                   const std::string& script = "") {
    open_gate(ranks, external_ranks, "127.0.0.1:0");
    options_.worker.ranks = ranks;
    options_.worker.external_ranks = external_ranks;
    options_.worker.gate = gate_.get();
    start(script);
  }

  void open_gate(int ranks, int external_ranks, const std::string& address) {
    WorkerGate::Options options;
    options.address = address;
    options.token = kToken;
    options.groups = {{kPipeline, ranks, external_ranks}};
    auto gate = WorkerGate::open(std::move(options), Clock::real());
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
    address_ = gate_->address();
  }

  External start_worker(int rank, int world_size = 2,
                        const std::vector<std::string>& flags = {}) const {
    External external;
    external.err = *make_pipe();
    SubprocessOptions options;
    options.argv = {"server/supervisor/testing/scripted_worker",
                    absl::StrCat("--rendezvous=", address_),
                    absl::StrCat("--rank=", rank),
                    absl::StrCat("--world_size=", world_size)};
    options.argv.insert(options.argv.end(), flags.begin(), flags.end());
    if (flags.empty()) {
      options.argv.push_back(absl::StrCat("--token=", kToken));
    }
    options.stderr_fd = external.err.write_end.get();
    auto process = Subprocess::spawn(options);
    EXPECT_TRUE(process.ok()) << process.status();
    external.process = *std::move(process);
    return external;
  }

  // A request that `act` interrupts after its first step.
  template <typename Act>
  absl::Status run_and(Act act) {
    const std::shared_ptr<Rank> rank = log_.rank();
    CollectedEvents events;
    absl::Status status;
    std::thread thread(
        [&] { status = rank->run(request(1000000), events).status(); });
    events.wait_for_step(1);
    act();
    thread.join();
    return status;
  }

  static void expect_lost(const absl::Status& status, const std::string& why) {
    ASSERT_TRUE(get_error_info(status).has_value()) << status;
    EXPECT_EQ(get_error_info(status)->reason, "WORKER_LOST");
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  std::unique_ptr<WorkerGate> gate_;
  std::string address_;
};

TEST_F(ExternalRanksTest, ServeAsAllOthers) {
  start_group(2, 1, "says_where");
  const External external =
      start_worker(1, 2,
                   {absl::StrCat("--token=", kToken),
                    "--bind_address=127.0.0.2", "--script=says_where"});
  log_.wait_for("READY 1");
  ASSERT_EQ(pipeline().ranks_size(), 2);
  EXPECT_EQ(pipeline().ranks(1).pid(), external.process->pid());
  EXPECT_NE(pipeline().ranks(0).pid(), external.process->pid());
  // Both find the store where the external one has reached ferryd, and each
  // listens at its own address.
  EXPECT_THAT(pipeline().ranks(0).device(),
              StartsWith("cpu:0 at 127.0.0.1, store at 127.0.0.1:"));
  EXPECT_THAT(pipeline().ranks(1).device(),
              StartsWith("cpu:7 at 127.0.0.2, store at 127.0.0.1:"));
  // Added last: the external one.
  CollectedEvents events;
  ASSERT_TRUE(log_.rank()->run(request(4), events).ok());
  EXPECT_THAT(events.steps, ElementsAre(1, 2, 3, 4));
  supervisor_->stop();
  EXPECT_EQ(external.process->wait_for(kGenerous), kConnectionEnded);
}

TEST_F(ExternalRanksTest, TellTheirFlightRecordsOnceTheyHaveCome) {
  start_group(2, 1);
  v1::GetFlightRecordsResponse response;
  // Nothing tells when a group has begun to wait.
  while (response.ranks().empty()) {
    response = supervisor_->flight_records(kPipeline);
  }
  ASSERT_EQ(response.ranks_size(), 2);
  for (const v1::RankFlightRecords& rank : response.ranks()) {
    EXPECT_EQ(rank.error().message(), "is not connected yet");
  }
  const External external = start_worker(1);
  log_.wait_for("READY 1");
  response = supervisor_->flight_records(kPipeline);
  ASSERT_EQ(response.ranks_size(), 2);
  for (const v1::RankFlightRecords& rank : response.ranks()) {
    EXPECT_FALSE(rank.has_error());
    EXPECT_EQ(rank.groups_size(), 1);
  }
}

TEST_F(ExternalRanksTest, TakePartInWaves) {
  start_group(3, 2, "waves=50");
  const std::vector<std::string> flags = {absl::StrCat("--token=", kToken),
                                          "--script=waves=50"};
  const External first = start_worker(1, 3, flags);
  const External second = start_worker(2, 3, flags);
  log_.wait_for("READY 1");
}

TEST_F(ExternalRanksTest, ComeInAnyOrder) {
  start_group(3, 2);
  const External second = start_worker(2, 3);
  const External first = start_worker(1, 3);
  log_.wait_for("READY 1");
  EXPECT_THAT(log_.entries(),
              ElementsAre("LOADING 1", "add", "add", "add", "READY 1"));
  EXPECT_EQ(pipeline().ranks(1).pid(), first.process->pid());
  EXPECT_EQ(pipeline().ranks(2).pid(), second.process->pid());
}

TEST_F(ExternalRanksTest, OneThatIsKilledIsTheGroupsEnd) {
  options_.worker.heartbeat_interval = absl::Hours(1);
  start_group(2, 1);
  const External first = start_worker(1);
  log_.wait_for("READY 1");
  const pid_t own = worker_pid();
  expect_lost(run_and([&] { first.process->send_signal(SIGKILL); }),
              "rank 1 has ended its connection from 127.0.0.1:");
  log_.wait_for("RESTARTING 2");
  const External second = start_worker(1);
  log_.wait_for("READY 2");
  EXPECT_NE(worker_pid(), own);
  EXPECT_EQ(pipeline().ranks(1).pid(), second.process->pid());
  CollectedEvents events;
  EXPECT_TRUE(log_.rank()->run(request(), events).ok());
}

TEST_F(ExternalRanksTest, EndWithTheGroup) {
  start_group(2, 1);
  const External first = start_worker(1);
  log_.wait_for("READY 1");
  kill(worker_pid(), SIGKILL);
  EXPECT_EQ(first.process->wait_for(kGenerous), kConnectionEnded);
  const External second = start_worker(1);
  log_.wait_for("READY 2");
}

TEST_F(ExternalRanksTest, OneThatWasStoppedEndsWhenItWakesUp) {
  options_.worker.heartbeat_interval = absl::Milliseconds(20);
  options_.worker.heartbeat_timeout = absl::Seconds(3);
  start_group(2, 1);
  const External first = start_worker(1);
  log_.wait_for("READY 1");
  expect_lost(run_and([&] { first.process->send_signal(SIGSTOP); }),
              "rank 1 did not answer for 3s");
  // It does not stand in the way of the next one.
  log_.wait_for("RESTARTING 2");
  const External second = start_worker(1);
  log_.wait_for("READY 2");
  first.process->send_signal(SIGCONT);
  EXPECT_EQ(first.process->wait_for(kGenerous), kConnectionEnded);
  EXPECT_EQ(pipeline().ranks(1).pid(), second.process->pid());
}

TEST_F(ExternalRanksTest, ARefusedWorkerChangesNothing) {
  start_group(2, 1);
  External wrong = start_worker(1, 2, {"--token=fedcba9876543210"});
  EXPECT_EQ(wrong.process->wait_for(kGenerous),
            ExitStatus::exited(kWorkerNotLetIn));
  EXPECT_THAT(wrong.output(), HasSubstr("its token is not that of ferryd's"));
  External elsewhere = start_worker(2, 3);
  EXPECT_EQ(elsewhere.process->wait_for(kGenerous),
            ExitStatus::exited(kWorkerNotLetIn));
  EXPECT_THAT(elsewhere.output(),
              HasSubstr("world_size: must be 2, got 3; rank: must be 1 to 1"));
  const External right = start_worker(1);
  log_.wait_for("READY 1");
  External second = start_worker(
      1, 2, {absl::StrCat("--token=", kToken), "--join_timeout=10ms"});
  EXPECT_EQ(second.process->wait_for(kGenerous),
            ExitStatus::exited(kWorkerNotLetIn));
  EXPECT_THAT(second.output(), HasSubstr("is taken by the worker at"));
  CollectedEvents events;
  EXPECT_TRUE(log_.rank()->run(request(), events).ok());
  EXPECT_EQ(pipeline().generation(), 1);
}

// As when its host has fallen silent, and is replaced before ferryd knows.
TEST_F(ExternalRanksTest, OneWhosePlaceIsTakenWaitsForIt) {
  start_group(2, 1);
  const External first = start_worker(1);
  log_.wait_for("READY 1");
  const External second = start_worker(1);
  EXPECT_EQ(second.process->wait_for(absl::Milliseconds(50)), std::nullopt);
  first.process->send_signal(SIGKILL);
  log_.wait_for("READY 2");
  EXPECT_EQ(pipeline().ranks(1).pid(), second.process->pid());
}

TEST_F(ExternalRanksTest, MayComeBeforeFerrydListens) {
  open_gate(2, 1, "127.0.0.1:0");
  gate_.reset();
  const External external = start_worker(1);
  EXPECT_EQ(external.process->wait_for(absl::Milliseconds(50)), std::nullopt);
  open_gate(2, 1, address_);
  options_.worker.ranks = 2;
  options_.worker.external_ranks = 1;
  options_.worker.gate = gate_.get();
  start("");
  log_.wait_for("READY 1");
}

TEST_F(ExternalRanksTest, GiveUpWhenNobodyListens) {
  open_gate(2, 1, "127.0.0.1:0");
  gate_.reset();
  External external = start_worker(
      1, 2, {absl::StrCat("--token=", kToken), "--join_timeout=10ms"});
  EXPECT_EQ(external.process->wait_for(kGenerous),
            ExitStatus::exited(kWorkerNotLetIn));
  EXPECT_THAT(external.output(), HasSubstr("within 10ms (--join_timeout)"));
}

TEST_F(ExternalRanksTest, OneThatWaitsEndsWhenItIsAsked) {
  start_group(3, 2);
  const External external = start_worker(1, 3);
  const ExitStatus status = external.process->terminate(kGenerous);
  EXPECT_TRUE(status == ExitStatus::exited(0) ||
              status == ExitStatus::signaled(SIGTERM))
      << status.to_string();
}

TEST_F(ExternalRanksTest, ThatDoNotComeAreNamed) {
  options_.worker.load_timeout = absl::Milliseconds(50);
  options_.restart.limit = 0;
  start_group(3, 2);
  EXPECT_THAT(log_.wait_for("budget_spent"),
              HasSubstr("no worker has come for rank 1, rank 2 within 50ms"));
}

TEST_F(ExternalRanksTest, FerrydEndsWhileItWaits) {
  start_group(2, 1);
  log_.wait_for("LOADING 1");
  supervisor_->stop();
  EXPECT_THAT(log_.entries(), ElementsAre("LOADING 1", "UNLOADED 1"));
}

}  // namespace
}  // namespace ferry
