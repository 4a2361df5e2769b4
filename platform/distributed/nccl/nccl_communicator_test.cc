#include "platform/distributed/nccl/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device_arena.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/deadline.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/in_process/in_process_store.h"
#include "platform/distributed/nccl/nccl_abi.h"
#include "platform/distributed/nccl/nccl_library.h"
#include "platform/distributed/nccl/testing/fake_nccl_api.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBytes = 4096;
// Of the GPU.
constexpr int kIndex = 1;

std::string message(const absl::Status& status) {
  return std::string(status.message());
}

// Rank 0 of two, on a fake GPU.
class NcclTest : public testing::Test {
 protected:
  explicit NcclTest(
      FakeCudaApi::Execution execution = FakeCudaApi::Execution::kEager)
      : cuda_(execution),
        device_(make_device()),
        stream_(*device_->acquire_stream(StreamKind::kTransfer, "gather")),
        in_(*device_->allocate(kBytes, "in")),
        out_(*device_->allocate(2 * kBytes, "out")) {
    nccl_.cuda = &cuda_;
  }

  absl::Status join(const NcclOptions& options = {}, int rank = 0) {
    auto joined =
        NcclCommunicator::join(nccl_, *device_, store_, rank, 2, options);
    if (!joined.ok()) return joined.status();
    communicator_ = *std::move(joined);
    return absl::OkStatus();
  }
  absl::Status gather(int64_t bytes = kBytes) {
    return communicator_->all_gather(stream_.get(), in_.data(), out_.data(),
                                     bytes);
  }
  // A gather whose kernel waits for what never happens.
  void let_gathers_hang() {
    never_stream_ = *device_->acquire_stream(StreamKind::kTransfer, "never");
    ASSERT_EQ(cuda_.event_create_with_flags(&never_, cudaEventDisableTiming),
              cudaSuccess);
    ASSERT_EQ(cuda_.event_record(never_, *device_->handle(never_stream_.get())),
              cudaSuccess);
    nccl_.set_work([this](const void*, void*, size_t, cudaStream_t stream) {
      EXPECT_EQ(cuda_.stream_wait_event(stream, never_), cudaSuccess);
    });
  }
  void TearDown() override {
    // Whoever drops it last.
    std::thread([this] { communicator_.reset(); }).join();
    EXPECT_THAT(nccl_.misuses(), IsEmpty());
    EXPECT_THAT(cuda_.misuses(), IsEmpty());
    EXPECT_THAT(cuda_.contexts(), ElementsAre(kIndex));
  }

  // Blocks until the communicator has an error.
  absl::Status await_error() {
    while (communicator_->status().ok()) std::this_thread::yield();
    return communicator_->status();
  }

  std::unique_ptr<CudaDevice> make_device() {
    cuda_.machine().devices = 2;
    CudaDeviceOptions options;
    options.index = kIndex;
    return *CudaDevice::create(options, &cuda_, &torch_);
  }

  FakeCudaApi cuda_;
  FakeCudaTorch torch_;
  FakeNcclApi nccl_;
  InProcessStore store_;
  std::unique_ptr<CudaDevice> device_;
  StreamLease stream_;
  StreamLease never_stream_;
  cudaEvent_t never_ = nullptr;
  DeviceArena in_;
  DeviceArena out_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

// Streams do nothing until somebody waits for them.
class LazyNcclTest : public NcclTest {
 protected:
  LazyNcclTest() : NcclTest(FakeCudaApi::Execution::kLazy) {}
};

TEST_F(NcclTest, TheFirstRankTellsTheIdAndTheOthersTakeIt) {
  ASSERT_TRUE(join().ok());
  EXPECT_EQ(communicator_->rank(), 0);
  EXPECT_EQ(communicator_->size(), 2);
  EXPECT_EQ(nccl_.id, std::string(128, 'i'));
  EXPECT_EQ(*store_.get("nccl/id", absl::ZeroDuration()), nccl_.id);
  EXPECT_THAT(nccl_.log(),
              ElementsAre("get_unique_id", "comm_init_rank_config 0 of 2"));

  FakeNcclApi second;
  auto other = NcclCommunicator::join(second, *device_, store_, 1, 2, {});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(second.id, nccl_.id);
  EXPECT_THAT(second.log(), ElementsAre("comm_init_rank_config 1 of 2"));
}

TEST_F(NcclTest, TheConfigurationIsOneThatTheLibraryKnows) {
  NcclOptions options;
  options.max_ctas = 4;
  ASSERT_TRUE(join(options).ok());
  EXPECT_EQ(nccl_.config.size, 40u);
  EXPECT_EQ(nccl_.config.magic, 0xcafebeefu);
  EXPECT_EQ(nccl_.config.version, 21700u);
  EXPECT_EQ(nccl_.config.blocking, 1);
  EXPECT_EQ(nccl_.config.max_ctas, 4);
  EXPECT_EQ(nccl_.config.min_ctas, INT_MIN);
  EXPECT_EQ(nccl_.config.net_name, nullptr);

  nccl_.version = 21403;
  ASSERT_TRUE(join().ok());
  EXPECT_EQ(nccl_.config.size, 24u);
  EXPECT_EQ(nccl_.config.version, 21400u);

  nccl_.version = 21003;
  const absl::Status status = join();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(status), HasSubstr("21003"));
}

// NCCL does not block where its environment says so: each call starts a job
// then, and only when that is done may the next one come.
TEST_F(NcclTest, WaitsForEachCallOfNcclThatDoesNotBlock) {
  nccl_.never_blocks = true;
  // Longer than it looks without a pause.
  for (const int looks : {1, 5, 1100}) {
    nccl_.looks = looks;
    ASSERT_TRUE(join().ok());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(gather(), absl::OkStatus());
    communicator_.reset();
    EXPECT_EQ(nccl_.log().back(), "comm_destroy");
  }
}

TEST_F(NcclTest, ARankThatDoesNotComeIsADeadline) {
  NcclOptions options;
  options.join_timeout = absl::Milliseconds(20);
  nccl_.hang("comm_init_rank_config");
  for (const bool never_blocks : {false, true}) {
    nccl_.never_blocks = never_blocks;
    const absl::Status status = join(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(message(status),
                HasSubstr("joining did not return within 20ms (as rank 0 of "
                          "2)"));
    EXPECT_EQ(nccl_.log().back(), "comm_abort");
  }
}

TEST_F(NcclTest, AnIdThatDoesNotComeIsNamed) {
  NcclOptions options;
  options.join_timeout = absl::Milliseconds(5);
  absl::Status status = join(options, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(message(status), HasSubstr("nccl/id"));
  ASSERT_TRUE(store_.set("nccl/id", "too short").ok());
  status = join(options, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(NcclTest, ErrorsOfNcclSayWhatAndWhy) {
  const std::pair<NcclResult, absl::StatusCode> errors[] = {
      {NcclResult::kRemoteError, absl::StatusCode::kUnavailable},
      {NcclResult::kSystemError, absl::StatusCode::kUnavailable},
      {NcclResult::kInvalidUsage, absl::StatusCode::kFailedPrecondition},
      {NcclResult::kUnhandledCudaError, absl::StatusCode::kInternal}};
  for (const auto& [result, code] : errors) {
    nccl_.push_results("comm_init_rank_config", {result});
    const absl::Status status = join();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(message(status), HasSubstr("an error string: the last error"));
  }
}

TEST_F(NcclTest, GathersAsBytesOnTheStream) {
  ASSERT_TRUE(join().ok());
  nccl_.set_work(
      [&](const void* in, void* out, size_t bytes, cudaStream_t stream) {
        EXPECT_EQ(in, in_.data());
        EXPECT_EQ(out, out_.data());
        EXPECT_EQ(bytes, static_cast<size_t>(kBytes));
        EXPECT_EQ(stream, *device_->handle(stream_.get()));
      });
  // More than can be under way.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(gather().ok());
  EXPECT_TRUE(communicator_->status().ok());
  EXPECT_EQ(nccl_.log().back(), "all_gather 4096 of type 0");
}

// Whoever gathers waits for nothing.
TEST_F(NcclTest, AGatherDoesNotAskHowItGoes) {
  ASSERT_TRUE(join().ok());
  ASSERT_TRUE(gather().ok());
  const int looks = nccl_.looks_of_thread();
  for (size_t i = 1; i < NcclCommunicator::kMaxInFlight; ++i) {
    ASSERT_TRUE(gather().ok());
  }
  EXPECT_EQ(nccl_.looks_of_thread(), looks);
}

// The first one connects, which needs the others.
TEST_F(NcclTest, AGatherThatDoesNotReturnIsADeadline) {
  for (const bool never_blocks : {false, true}) {
    FlightRecorder recorder("weights", Clock::real());
    NcclOptions options;
    options.timeout = absl::Milliseconds(20);
    options.recorder = &recorder;
    nccl_.never_blocks = never_blocks;
    ASSERT_TRUE(join(options).ok());
    nccl_.hang("all_gather");
    const absl::Status status = gather();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(message(status),
                HasSubstr("all_gather of 4096 bytes did not return within"));
    EXPECT_EQ(communicator_->status(), status);
    ASSERT_EQ(recorder.entries().size(), 1u);
    EXPECT_EQ(recorder.entries()[0].state, FlightRecorder::State::kFailed);
    communicator_.reset();
    EXPECT_EQ(nccl_.log().back(), "comm_abort");
  }
}

TEST_F(NcclTest, AbortEndsAGatherThatDoesNotReturn) {
  for (const bool never_blocks : {false, true}) {
    nccl_.never_blocks = never_blocks;
    ASSERT_TRUE(join().ok());
    nccl_.hang("all_gather");
    std::thread transport(
        [this] { EXPECT_EQ(gather().code(), absl::StatusCode::kUnavailable); });
    nccl_.await("all_gather 4096 of type 0");
    // Nobody else waits for it.
    EXPECT_EQ(communicator_->status(), absl::OkStatus());
    communicator_->abort("enough");
    transport.join();
    communicator_.reset();
    EXPECT_EQ(nccl_.log().back(), "comm_abort");
  }
}

// A call that does not hang is left alone: NCCL would free what it uses.
TEST_F(NcclTest, ACallThatReturnsIsNotAbortedUnderWay) {
  ASSERT_TRUE(join().ok());
  nccl_.set_work([this](const void*, void*, size_t, cudaStream_t) {
    const absl::Duration start = Clock::real().monotonic();
    communicator_->abort("enough");
    const Deadline enough_for_the_watchdog(absl::Milliseconds(20));
    while (!enough_for_the_watchdog.has_passed()) std::this_thread::yield();
    const std::vector<std::string> log = nccl_.log();
    // A machine that is this slow tells nothing.
    if (Clock::real().monotonic() - start < absl::Milliseconds(50)) {
      EXPECT_EQ(log.back(), "all_gather 4096 of type 0");
    }
  });
  EXPECT_EQ(gather().code(), absl::StatusCode::kUnavailable);
  nccl_.await("comm_abort");
}

TEST_F(NcclTest, WhatNobodyCouldGatherIsRefused) {
  ASSERT_TRUE(join().ok());
  EXPECT_EQ(gather(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(communicator_->status().ok());
  EXPECT_TRUE(gather().ok());
}

TEST_F(NcclTest, LeavesInOrder) {
  ASSERT_TRUE(join().ok());
  communicator_.reset();
  EXPECT_THAT(nccl_.log(),
              ElementsAre("get_unique_id", "comm_init_rank_config 0 of 2",
                          "comm_finalize", "comm_destroy"));
}

TEST_F(NcclTest, WhoCannotLeaveInTimeAborts) {
  NcclOptions options;
  options.join_timeout = absl::Milliseconds(20);
  ASSERT_TRUE(join(options).ok());
  nccl_.hang("comm_finalize");
  communicator_.reset();
  EXPECT_EQ(nccl_.log().back(), "comm_abort");
}

TEST_F(NcclTest, AGatherThatNcclRefusesEndsTheCommunicator) {
  ASSERT_TRUE(join().ok());
  nccl_.push_results("all_gather", {NcclResult::kInvalidArgument});
  const absl::Status status = gather();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(gather(), status);
  nccl_.await("comm_abort");
  communicator_.reset();
  EXPECT_EQ(nccl_.log().back(), "comm_abort");
}

TEST_F(LazyNcclTest, AnAsynchronousErrorIsFoundAndAborts) {
  FlightRecorder recorder("weights", Clock::real());
  NcclOptions options;
  options.recorder = &recorder;
  ASSERT_TRUE(join(options).ok());
  ASSERT_TRUE(gather().ok());
  nccl_.set_result("async", NcclResult::kRemoteError);
  // By the watchdog: nobody asks.
  nccl_.await("comm_abort");
  EXPECT_EQ(communicator_->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(gather(), communicator_->status());
  ASSERT_EQ(recorder.entries().size(), 1u);
  EXPECT_EQ(recorder.entries()[0].state, FlightRecorder::State::kFailed);
  communicator_.reset();
  // Once.
  EXPECT_THAT(nccl_.log(),
              ElementsAre("get_unique_id", "comm_init_rank_config 0 of 2",
                          "all_gather 4096 of type 0", "comm_abort"));
}

TEST_F(LazyNcclTest, AGatherThatHasStartedMustEndInTime) {
  NcclOptions options;
  options.timeout = absl::Milliseconds(30);
  ASSERT_TRUE(join(options).ok());
  let_gathers_hang();
  ASSERT_TRUE(gather().ok());
  // As long as its stream is busy with something else, it may wait.
  const Deadline much_later(3 * options.timeout);
  while (!much_later.has_passed()) {
    ASSERT_TRUE(communicator_->status().ok());
    std::this_thread::yield();
  }
  cuda_.run_available(*device_->handle(stream_.get()));
  const absl::Status status = await_error();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(message(status), HasSubstr("all_gather of 4096 bytes"));
  nccl_.await("comm_abort");
}

TEST_F(LazyNcclTest, AbortReturnsAtOnceAndEndsWhatIsUnderWay) {
  ASSERT_TRUE(join().ok());
  let_gathers_hang();
  ASSERT_TRUE(gather().ok());
  communicator_->abort("enough");
  communicator_->abort("more than that");
  EXPECT_THAT(message(communicator_->status()),
              HasSubstr("rank 0 aborted: enough"));
  EXPECT_EQ(gather(), communicator_->status());
  nccl_.await("comm_abort");
}

TEST_F(LazyNcclTest, AbortWakesWhoWaitsForAPlace) {
  ASSERT_TRUE(join().ok());
  let_gathers_hang();
  for (size_t i = 0; i < NcclCommunicator::kMaxInFlight; ++i) {
    ASSERT_TRUE(gather().ok());
  }
  std::thread waits(
      [this] { EXPECT_EQ(gather().code(), absl::StatusCode::kUnavailable); });
  communicator_->abort("enough");
  waits.join();
}

// --- That the fake would find it

class FakeNcclTest : public testing::Test {
 protected:
  void init(int blocking) {
    NcclConfig config = {};
    config.blocking = blocking;
    const NcclResult result =
        nccl_.comm_init_rank_config(&comm_, 2, NcclUniqueId{}, 0, &config);
    EXPECT_EQ(result,
              blocking != 0 ? NcclResult::kSuccess : NcclResult::kInProgress);
  }
  NcclResult gather() {
    return nccl_.all_gather(nullptr, nullptr, 1, NcclDataType::kInt8, comm_,
                            nullptr);
  }

  FakeNcclApi nccl_;
  NcclComm comm_ = nullptr;
};

TEST_F(FakeNcclTest, RefusesACallWhileAJobIsInProgress) {
  init(/*blocking=*/0);
  EXPECT_EQ(gather(), NcclResult::kInvalidArgument);
  NcclResult result = NcclResult::kInProgress;
  while (result == NcclResult::kInProgress) {
    ASSERT_EQ(nccl_.comm_get_async_error(comm_, &result), NcclResult::kSuccess);
  }
  EXPECT_EQ(result, NcclResult::kSuccess);
  EXPECT_EQ(gather(), NcclResult::kInProgress);
  EXPECT_THAT(nccl_.misuses(),
              ElementsAre("all_gather while work was in progress"));
}

TEST_F(FakeNcclTest, TellsOfCallsAfterTheEnd) {
  init(/*blocking=*/1);
  EXPECT_EQ(nccl_.comm_destroy(comm_), NcclResult::kSuccess);
  EXPECT_EQ(gather(), NcclResult::kInvalidArgument);
  EXPECT_EQ(nccl_.comm_abort(comm_), NcclResult::kSuccess);
  EXPECT_THAT(nccl_.misuses(),
              ElementsAre("comm_destroy of a communicator that was not "
                          "finalized",
                          "all_gather on a communicator that is gone",
                          "comm_abort of a communicator that is gone"));
}

TEST_F(FakeNcclTest, TellsOfThreadsWithAnotherDevice) {
  FakeCudaApi cuda;
  cuda.machine().devices = 2;
  nccl_.cuda = &cuda;
  ASSERT_EQ(cuda.set_device(1), cudaSuccess);
  init(/*blocking=*/1);
  EXPECT_EQ(gather(), NcclResult::kSuccess);
  std::thread([&] {
    EXPECT_EQ(gather(), NcclResult::kSuccess);
    EXPECT_EQ(nccl_.comm_abort(comm_), NcclResult::kSuccess);
  }).join();
  EXPECT_THAT(nccl_.misuses(),
              ElementsAre("all_gather on a thread that has another device",
                          "comm_abort on a thread that has another device"));
}

TEST(NcclLibraryTest, SaysWhatIsMissing) {
  absl::Status status = NcclLibrary::open("libno-such-nccl.so").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(status), HasSubstr("libno-such-nccl.so"));
  status = NcclLibrary::open("libc.so.6").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(status), HasSubstr("ncclGetVersion"));
}

}  // namespace
}  // namespace ferry
