#include "platform/device/cuda/staged_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_errors.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/device.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kBuffer = 64;
constexpr int64_t kBytes = 5 * kBuffer - 3;

using Execution = FakeCudaApi::Execution;

std::string pattern(int64_t bytes, int seed) {
  std::string text;
  for (int64_t i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>((i * 7 + seed) % 253));
  }
  return text;
}

class StagedCopiesTest : public testing::Test {
 protected:
  explicit StagedCopiesTest(Execution execution = Execution::kLazy)
      : api_(execution), errors_(&api_) {
    copies_ = std::make_unique<StagedCopies>(&api_, &errors_, kBuffer);
    EXPECT_EQ(api_.stream_create_with_priority(&stream_, 0, 0), cudaSuccess);
    EXPECT_EQ(api_.malloc(&device_, kBytes), cudaSuccess);
  }

  void TearDown() override {
    copies_.reset();
    EXPECT_EQ(api_.stream_destroy(stream_), cudaSuccess);
    EXPECT_EQ(api_.free(device_), cudaSuccess);
    EXPECT_EQ(api_.leaks(), "");
    EXPECT_EQ(api_.pageable_copies(), 0);
  }

  absl::Status send(const std::string& from, bool blocks = false) {
    return copies_->copy(stream_,
                         {CopyKind::kHostToDevice, device_, from.data(),
                          static_cast<int64_t>(from.size())},
                         blocks);
  }
  absl::Status receive(std::string* to, bool blocks = false) {
    return copies_->copy(stream_,
                         {CopyKind::kDeviceToHost, to->data(), device_,
                          static_cast<int64_t>(to->size())},
                         blocks);
  }
  std::string on_device() const {
    return {static_cast<const char*>(device_), kBytes};
  }
  // Its streams: the caller's, then the one for staging.
  cudaStream_t staging_stream() const { return api_.streams().at(1); }

  FakeCudaApi api_;
  CudaErrors errors_;
  std::unique_ptr<StagedCopies> copies_;
  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
};

class EagerStagedCopiesTest : public StagedCopiesTest {
 protected:
  EagerStagedCopiesTest() : StagedCopiesTest(Execution::kEager) {}
};

TEST_F(EagerStagedCopiesTest, FillsOneBufferWhileItSendsTheOther) {
  const std::string from = pattern(3 * kBuffer, 1);
  ASSERT_TRUE(send(from).ok());
  EXPECT_EQ(on_device().substr(0, from.size()), from);
  api_.start_log();
  ASSERT_TRUE(send(from).ok());
  // Streams: 1 the caller's, 2 the one for staging. Of the next buffer only
  // the fill waits, for the send before the last.
  EXPECT_THAT(
      api_.log(),
      ElementsAre("event_record stream1",
                  "stream_wait_event stream2",  // Start.
                  "stream_wait_event stream2", "launch_host_func stream2",
                  "event_record stream2", "stream_wait_event stream1",
                  "memcpy_async 64 h2d stream1", "event_record stream1",
                  "stream_wait_event stream2", "launch_host_func stream2",
                  "event_record stream2", "stream_wait_event stream1",
                  "memcpy_async 64 h2d stream1", "event_record stream1",
                  "stream_wait_event stream2", "launch_host_func stream2",
                  "event_record stream2", "stream_wait_event stream1",
                  "memcpy_async 64 h2d stream1", "event_record stream1"));
}

TEST_F(EagerStagedCopiesTest, MakesTwoBuffersOnce) {
  EXPECT_EQ(api_.calls("host_alloc"), 0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(pattern(kBytes, i)).ok());
  EXPECT_EQ(api_.calls("host_alloc"), 2);
  EXPECT_EQ(api_.streams().size(), 2u);
}

// However late or early either stream runs, the bytes are right.
TEST_F(StagedCopiesTest, SendsWhicheverStreamIsAhead) {
  for (const bool staging_ahead : {false, true}) {
    const std::string from = pattern(kBytes, staging_ahead ? 1 : 2);
    ASSERT_TRUE(send(from).ok());
    if (staging_ahead) {
      // It fills two buffers, and has to wait for the first to be sent.
      for (int turn = 0; turn < 4; ++turn) {
        api_.run_available(staging_stream());
        api_.run_available(stream_);
      }
    }
    ASSERT_EQ(api_.stream_synchronize(stream_), cudaSuccess);
    EXPECT_EQ(on_device(), from);
  }
}

TEST_F(StagedCopiesTest, ReceivesWhicheverStreamIsAhead) {
  for (const bool caller_ahead : {false, true}) {
    const std::string there = pattern(kBytes, caller_ahead ? 3 : 4);
    std::memcpy(device_, there.data(), kBytes);
    std::string to(kBytes, '\0');
    ASSERT_TRUE(receive(&to).ok());
    if (caller_ahead) {
      for (int turn = 0; turn < 4; ++turn) {
        api_.run_available(stream_);
        api_.run_available(staging_stream());
      }
    }
    // The caller's stream is done when the host has the bytes.
    ASSERT_EQ(api_.stream_synchronize(stream_), cudaSuccess);
    EXPECT_EQ(to, there);
  }
}

TEST_F(StagedCopiesTest, ComesAfterWhatTheStreamWasGivenBefore) {
  const std::string first = pattern(kBytes, 5);
  std::string middle(kBytes, '\0');
  ASSERT_TRUE(send(first).ok());
  // The second copy reads what the first one of this pair writes.
  ASSERT_TRUE(receive(&middle).ok());
  ASSERT_TRUE(send(middle).ok());
  api_.run_available(staging_stream());
  ASSERT_EQ(api_.stream_synchronize(stream_), cudaSuccess);
  EXPECT_EQ(middle, first);
  EXPECT_EQ(on_device(), first);
}

TEST_F(StagedCopiesTest, BlocksUntilTheHostIsDoneWith) {
  std::string from = pattern(kBytes, 6);
  const std::string expected = from;
  ASSERT_TRUE(send(from, /*blocks=*/true).ok());
  from.assign(kBytes, 'x');
  ASSERT_EQ(api_.stream_synchronize(stream_), cudaSuccess);
  EXPECT_EQ(on_device(), expected);
  std::string to(kBytes, '\0');
  ASSERT_TRUE(receive(&to, /*blocks=*/true).ok());
  EXPECT_EQ(to, expected);
}

// A failure at any call leaves nothing running, and the next copy is right.
TEST_F(StagedCopiesTest, AnyCallMayFail) {
  int failures = 0;
  for (int64_t nth = 1;; ++nth) {
    std::string from = pattern(kBytes, 1);
    api_.fail("", nth, cudaErrorNotSupported);
    const absl::Status status = send(from);
    api_.clear_faults();
    if (status.ok()) {
      ASSERT_EQ(api_.stream_synchronize(stream_), cudaSuccess);
      break;
    }
    ++failures;
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    // The host's memory is the caller's again.
    EXPECT_EQ(api_.pending_work(), 0u) << nth;
    from.assign(kBytes, 'x');
    const std::string next = pattern(kBytes, static_cast<int>(nth));
    ASSERT_TRUE(send(next).ok());
    ASSERT_EQ(api_.stream_synchronize(stream_), cudaSuccess);
    EXPECT_EQ(on_device(), next) << nth;
  }
  // Beside making the buffers, five calls a piece and more.
  EXPECT_GT(failures, 5 * 5);
}

TEST_F(StagedCopiesTest, BuffersThatCannotBeMadeAreTriedAgain) {
  for (int64_t nth = 1; nth <= 8; ++nth) {
    StagedCopies copies(&api_, &errors_, kBuffer);
    std::string from = pattern(kBytes, 1);
    const Copy copy{CopyKind::kHostToDevice, device_, from.data(), kBytes};
    const std::string before = api_.leaks();
    api_.fail("", nth, cudaErrorMemoryAllocation);
    EXPECT_EQ(copies.copy(stream_, copy, false).code(),
              absl::StatusCode::kResourceExhausted)
        << nth;
    api_.clear_faults();
    EXPECT_EQ(api_.leaks(), before) << nth;
    ASSERT_TRUE(copies.copy(stream_, copy, true).ok());
    ASSERT_EQ(api_.stream_synchronize(stream_), cudaSuccess);
  }
}

}  // namespace
}  // namespace ferry
