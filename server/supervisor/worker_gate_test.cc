#include "server/supervisor/worker_gate.h"

#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/clock.h"
#include "platform/os/host_port.h"
#include "platform/os/tcp_socket.h"
#include "platform/os/unique_fd.h"
#include "server/core/daemon_config.h"
#include "server/ipc/worker_hello.h"
#include "server/supervisor/worker_connection.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kToken[] = "0123456789abcdef";
constexpr char kPipeline[] = "pipelines/demo";
constexpr char kAccepted[] = "accepted\n";
constexpr absl::Duration kGenerous = absl::Seconds(30);
constexpr absl::Duration kMoment = absl::Milliseconds(20);

WorkerHello hello_of(int rank) {
  WorkerHello hello;
  hello.token = kToken;
  hello.pipeline = kPipeline;
  hello.rank = rank;
  hello.world_size = 3;
  hello.pid = 4711;
  hello.host = "elsewhere";
  hello.listen_host = "127.0.0.1";
  return hello;
}

// Three ranks, of which the last two are external.
class WorkerGateTest : public ::testing::Test {
 protected:
  WorkerGateTest() { open(kGenerous); }

  void open(absl::Duration hello_timeout) {
    WorkerGate::Options options;
    options.address = "127.0.0.1:0";
    options.token = kToken;
    options.groups = {{"pipelines/own", 2, 0}, {kPipeline, 3, 2}};
    options.hello_timeout = hello_timeout;
    gate_ = *WorkerGate::open(std::move(options), Clock::real());
  }

  UniqueFd dial() const {
    return *connect_tcp(*parse_host_port(gate_->address()), "", kGenerous);
  }

  // What the gate says until it closes the connection, or to the end of a line.
  static std::string read_answer(const UniqueFd& socket) {
    const Clock& clock = Clock::real();
    const absl::Duration deadline = clock.monotonic() + kGenerous;
    std::string answer;
    while (answer.empty() || answer.back() != '\n') {
      char bytes[4096];
      const ssize_t size = recv(socket.get(), bytes, sizeof bytes, 0);
      if (size > 0) {
        answer.append(bytes, static_cast<size_t>(size));
      } else if (size == 0 || clock.monotonic() > deadline) {
        break;
      } else {
        pollfd wait = {socket.get(), POLLIN, 0};
        poll(&wait, 1, 1000);
      }
    }
    return answer;
  }

  static void say(const UniqueFd& socket, const std::string& text) {
    ASSERT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  // The answer to somebody who says this.
  std::string answer_to(const std::string& text) const {
    const UniqueFd socket = dial();
    say(socket, text);
    return read_answer(socket);
  }
  std::string answer_to(const WorkerHello& hello) const {
    return answer_to(format_hello(hello));
  }

  // Lets a worker in.
  UniqueFd come_in(int rank) const {
    UniqueFd socket = dial();
    say(socket, format_hello(hello_of(rank)));
    EXPECT_EQ(read_answer(socket), kAccepted);
    return socket;
  }

  std::unique_ptr<WorkerGate> gate_;
};

TEST_F(WorkerGateTest, GivesAwayThoseWhoHaveComeIn) {
  const UniqueFd second = come_in(2);
  const UniqueFd first = come_in(1);
  const auto workers = gate_->take(kPipeline, kGenerous);
  ASSERT_TRUE(workers.ok()) << workers.status();
  ASSERT_THAT(*workers, SizeIs(2));
  const WorkerConnection& worker = *workers->at(0);
  EXPECT_EQ(worker.hello().rank, 1);
  EXPECT_EQ(worker.hello().pid, 4711);
  EXPECT_EQ(worker.hello().token, "");
  EXPECT_EQ(worker.peer(), local_address(first)->to_string());
  EXPECT_EQ(worker.local_host(), "127.0.0.1");
  EXPECT_EQ(workers->at(1)->hello().rank, 2);
  // They belong to the taker.
  EXPECT_FALSE(worker.has_ended());
  EXPECT_FALSE(wait_for_end_of(first, kMoment));
  worker.close();
  EXPECT_TRUE(worker.has_ended());
  EXPECT_TRUE(wait_for_end_of(first, kGenerous));
}

TEST_F(WorkerGateTest, WaitsForAll) {
  const UniqueFd first = come_in(1);
  absl::StatusOr<WorkerGate::Connections> workers;
  std::thread taker([&] { workers = gate_->take(kPipeline, kGenerous); });
  const UniqueFd second = come_in(2);
  taker.join();
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_THAT(*workers, SizeIs(2));
}

TEST_F(WorkerGateTest, NamesThoseWhoDoNotCome) {
  const UniqueFd first = come_in(1);
  const absl::Status status = gate_->take(kPipeline, kMoment).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_EQ(status.message(), "no worker has come for rank 2 within 20ms");
  // Nobody was taken away.
  const UniqueFd second = come_in(2);
  EXPECT_TRUE(gate_->take(kPipeline, kGenerous).ok());
}

TEST_F(WorkerGateTest, ForgetsThoseWhoAreGone) {
  come_in(1);
  come_in(2);
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(gate_->take(kPipeline, kMoment).status()));
  const UniqueFd first = come_in(1);
  const UniqueFd second = come_in(2);
  EXPECT_TRUE(gate_->take(kPipeline, kGenerous).ok());
}

TEST_F(WorkerGateTest, ARankHasRoomForOne) {
  UniqueFd first = come_in(1);
  const std::string taken = absl::StrCat(
      "wait rank: 1 is taken by the worker at ",
      local_address(first)->to_string(), ", process 4711 of elsewhere\n");
  EXPECT_EQ(answer_to(hello_of(1)), taken);
  const UniqueFd second = come_in(2);
  WorkerGate::Connections workers = *gate_->take(kPipeline, kGenerous);
  EXPECT_EQ(answer_to(hello_of(1)), taken);
  // Its group has given it up.
  workers[0]->close();
  const UniqueFd next = come_in(1);
  // It went away, or its group.
  workers.clear();
  const UniqueFd other = come_in(2);
  EXPECT_TRUE(gate_->take(kPipeline, kGenerous).ok());
}

TEST_F(WorkerGateTest, RefusesAWrongTokenAndTellsNothing) {
  WorkerHello hello = hello_of(99);
  hello.pipeline = "pipelines/unknown";
  for (const char* token :
       {"0123456789abcdeF", "0123456789abcde", "0123456789abcdef0", "x"}) {
    hello.token = token;
    EXPECT_EQ(answer_to(hello),
              "refused its token is not that of ferryd's worker_token_file\n");
  }
}

TEST_F(WorkerGateTest, NamesAllThatIsWrong) {
  WorkerHello hello = hello_of(3);
  hello.world_size = 2;
  EXPECT_EQ(answer_to(hello),
            "refused world_size: must be 3, got 2; rank: must be 1 to 2, got "
            "3\n");
  EXPECT_EQ(answer_to(hello_of(0)), "refused rank: must be 1 to 2, got 0\n");
  for (const char* pipeline : {"pipelines/none", "pipelines/own"}) {
    hello.pipeline = pipeline;
    EXPECT_EQ(answer_to(hello),
              absl::StrCat("refused pipeline: \"", pipeline,
                           "\" has no external ranks here\n"));
  }
}

TEST_F(WorkerGateTest, RefusesWhatIsNoWorker) {
  const std::string hello = format_hello(hello_of(1));
  for (const std::string& text :
       {std::string("\n"), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("\x16\x03\x01\x02\n"), std::string(3000, 'x'), hello + "x",
        hello + hello}) {
    EXPECT_THAT(answer_to(text), StartsWith("refused it ")) << text;
  }
  const UniqueFd first = come_in(1);
}

TEST_F(WorkerGateTest, ALineMayComeInPieces) {
  const std::string hello = format_hello(hello_of(1));
  const UniqueFd socket = dial();
  for (const char byte : hello) say(socket, std::string(1, byte));
  EXPECT_EQ(read_answer(socket), kAccepted);
}

TEST_F(WorkerGateTest, WhoSaysNothingIsSentAway) {
  open(kMoment);
  const UniqueFd silent = dial();
  const UniqueFd half = dial();
  say(half, "ferry-worker");
  for (const UniqueFd* socket : {&silent, &half}) {
    EXPECT_EQ(read_answer(*socket),
              "refused it did not say who it is within 20ms\n");
    EXPECT_TRUE(wait_for_end_of(*socket, kGenerous));
  }
}

TEST_F(WorkerGateTest, ManyWhoSayNothingKeepNobodyOut) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(dial());
  const UniqueFd first = come_in(1);
  EXPECT_THAT(read_answer(silent[0]), HasSubstr("too many others"));
}

TEST_F(WorkerGateTest, AClosedPipelineTakesNobody) {
  const UniqueFd first = come_in(1);
  absl::StatusOr<WorkerGate::Connections> workers;
  std::thread taker([&] { workers = gate_->take(kPipeline, kGenerous); });
  gate_->close(kPipeline);
  taker.join();
  EXPECT_TRUE(absl::IsCancelled(workers.status()));
  EXPECT_TRUE(wait_for_end_of(first, kGenerous));
  EXPECT_EQ(answer_to(hello_of(2)), "wait ferryd ends\n");
}

TEST_F(WorkerGateTest, ItsEndIsTheEndOfThoseWhoWait) {
  const UniqueFd first = come_in(1);
  const UniqueFd silent = dial();
  gate_.reset();
  EXPECT_TRUE(wait_for_end_of(first, kGenerous));
  EXPECT_TRUE(wait_for_end_of(silent, kGenerous));
}

TEST(WorkerGateOpenTest, IsThereForExternalRanksOnly) {
  const auto gate = WorkerGate::open_for(DaemonConfig(), Clock::real());
  ASSERT_TRUE(gate.ok());
  EXPECT_EQ(*gate, nullptr);
}

TEST(WorkerGateOpenTest, SaysWhyItCannotListen) {
  WorkerGate::Options options;
  options.address = "192.0.2.1:0";
  EXPECT_THAT(
      std::string(WorkerGate::open(options, Clock::real()).status().message()),
      HasSubstr("cannot listen on 192.0.2.1:0"));
}

using WorkerGateDeathTest = WorkerGateTest;

TEST_F(WorkerGateDeathTest, ServesPipelinesWithExternalRanksOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* pipeline : {"pipelines/own", "pipelines/no"}) {
    EXPECT_DEATH((void)gate_->take(pipeline, absl::ZeroDuration()),
                 "check failed: found != rooms_.end");
    EXPECT_DEATH(gate_->close(pipeline), "check failed: found != rooms_.end");
  }
}

}  // namespace
}  // namespace ferry
