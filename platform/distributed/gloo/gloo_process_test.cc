// Ranks as processes, and what becomes of a group when one of them dies.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "platform/distributed/file_store/file_store.h"
#include "platform/distributed/gloo/gloo_communicator.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/host_communicator.h"
#include "platform/os/exit_status.h"
#include "platform/os/pipe.h"
#include "platform/os/process_spawner.h"
#include "platform/os/subprocess.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kSize = 3;
constexpr size_t kBytes = 1 << 20;
constexpr absl::Duration kGenerous = absl::Seconds(60);

// A rank that is a process of gloo_rank.
class RankProcess {
 public:
  RankProcess(ProcessSpawner& spawner, const std::string& directory, int rank) {
    Pipe pipe = *make_pipe();
    SubprocessOptions options;
    options.argv = {"platform/distributed/gloo/gloo_rank", directory,
                    absl::StrCat(rank), absl::StrCat(kSize)};
    options.stdout_fd = pipe.write_end.get();
    auto process = spawner.spawn(options);
    EXPECT_TRUE(process.ok()) << process.status();
    process_ = *std::move(process);
    output_ = std::move(pipe.read_end);
  }

  void send_signal(int signal) { process_->send_signal(signal); }
  // Its next line; empty when it has ended.
  std::string line() {
    std::string text;
    char c = 0;
    while (::read(output_.get(), &c, 1) == 1 && c != '\n') text += c;
    return text;
  }
  bool has_ended_well() {
    return process_->wait_for(kGenerous) == ExitStatus::exited(0);
  }

 private:
  std::unique_ptr<Subprocess> process_;
  UniqueFd output_;
};

// Rank 0 is this process.
class GlooProcessTest : public testing::Test {
 protected:
  GlooProcessTest() : directory_(testing::TempDir() + "/gloo.XXXXXX") {
    struct sigaction action = {};
    action.sa_handler = SIG_IGN;
    EXPECT_EQ(::sigaction(SIGPIPE, &action, nullptr), 0);
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
    for (int rank = 1; rank < kSize; ++rank) {
      others_.push_back(
          std::make_unique<RankProcess>(spawner_, directory_, rank));
    }
    FileStore store(directory_);
    auto joined = join_gloo_group(store, 0, kSize, GlooOptions{});
    EXPECT_TRUE(joined.ok()) << joined.status();
    mine_ = *std::move(joined);
  }
  ~GlooProcessTest() override { std::filesystem::remove_all(directory_); }

  RankProcess& other(int rank) {
    return *others_[static_cast<size_t>(rank - 1)];
  }
  absl::Status gather(absl::Duration timeout) {
    const std::vector<char> in(kBytes, 'a');
    std::vector<char> out(kSize * kBytes);
    absl::Status status = mine_->all_gather(
        in.data(), out.data(), static_cast<int64_t>(kBytes), timeout);
    for (size_t i = 0; status.ok() && i < kSize; ++i) {
      EXPECT_EQ(out[i * kBytes], static_cast<char>('a' + i));
      EXPECT_EQ(out[(i + 1) * kBytes - 1], static_cast<char>('a' + i));
    }
    return status;
  }
  // Gathers until that fails.
  absl::Status gather_on(absl::Duration timeout) {
    absl::Status status;
    while (status.ok()) status = gather(timeout);
    return status;
  }
  void expect_running(int rank) {
    EXPECT_EQ(other(rank).line(), "joined");
    EXPECT_EQ(other(rank).line(), "gathered");
  }

  ProcessSpawner spawner_;
  std::string directory_;
  std::vector<std::unique_ptr<RankProcess>> others_;
  std::unique_ptr<HostCommunicator> mine_;
};

TEST_F(GlooProcessTest, GathersUntilOneLeaves) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(gather(kGenerous).ok());
  mine_.reset();
  for (const int rank : {1, 2}) {
    expect_running(rank);
    EXPECT_THAT(other(rank).line(), StartsWith("UNAVAILABLE"));
    EXPECT_TRUE(other(rank).has_ended_well());
  }
}

TEST_F(GlooProcessTest, ARankThatIsKilledInAGatherEndsItEverywhereAtOnce) {
  absl::Status status;
  absl::Time failed;
  std::thread gathers([&] {
    status = gather_on(kGenerous);
    failed = absl::Now();
  });
  expect_running(1);
  expect_running(2);
  const absl::Time killed = absl::Now();
  other(2).send_signal(SIGKILL);
  gathers.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank"));
  // Long before the deadline.
  EXPECT_LT(failed - killed, absl::Seconds(20));
  EXPECT_THAT(other(1).line(), StartsWith("UNAVAILABLE"));
  EXPECT_TRUE(other(1).has_ended_well());
}

TEST_F(GlooProcessTest, ARankThatIsStoppedIsADeadlineAndEndsWhenItWakes) {
  ASSERT_TRUE(gather(kGenerous).ok());
  expect_running(1);
  expect_running(2);
  other(2).send_signal(SIGSTOP);
  const absl::Status status = gather_on(absl::Milliseconds(500));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(other(1).line(), StartsWith("UNAVAILABLE"));
  EXPECT_TRUE(other(1).has_ended_well());
  other(2).send_signal(SIGCONT);
  EXPECT_THAT(other(2).line(), StartsWith("UNAVAILABLE"));
  EXPECT_TRUE(other(2).has_ended_well());
}

}  // namespace
}  // namespace ferry
