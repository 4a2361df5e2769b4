#include "server/worker/worker_service_impl.h"

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "platform/base/error_info.h"
#include "platform/os/socket_pair.h"
#include "server/ipc/fd_channel.h"
#include "server/ipc/grpc_rank.h"
#include "server/ipc/grpc_status.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/testing/eager_participant.h"
#include "server/worker/testing/fake_pipeline.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using worker::v1::LoadPipelineResponse;
using worker::v1::RunGenerationRequest;
using worker::v1::WorkerService;

constexpr std::chrono::seconds kGenerous(30);

// Something that happens once, awaited by another thread.
class Notification {
 public:
  void notify() {
    MutexLock lock(&mutex_);
    notified_ = true;
    changed_.notify_all();
  }
  void wait() {
    MutexLock lock(&mutex_);
    while (!notified_) changed_.wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool notified_ GUARDED_BY(mutex_) = false;
};

class HandClock final : public Clock {
 public:
  absl::Time now() const override { return absl::UnixEpoch(); }
  absl::Duration monotonic() const override {
    MutexLock lock(&mutex_);
    return now_;
  }
  void advance(absl::Duration duration) {
    MutexLock lock(&mutex_);
    now_ += duration;
  }

 private:
  mutable Mutex mutex_;
  absl::Duration now_ GUARDED_BY(mutex_) = absl::Hours(1);
};

class Events final : public RankEvents {
 public:
  void on_progress(v1::Progress progress) override {
    if (progress.stage() == v1::Progress::STAGE_DENOISE) {
      steps.push_back(progress.step());
    }
  }
  void on_preview(v1::Preview preview) override {
    previews.push_back(preview.step());
  }
  void on_output_chunk(v1::OutputChunk chunk) override {
    chunks.push_back(std::move(chunk));
  }

  std::vector<int> steps;
  std::vector<int> previews;
  std::vector<v1::OutputChunk> chunks;
};

// The service at one end of a socket pair, and a client at the other.
class WorkerServiceTest : public ::testing::Test {
 protected:
  ~WorkerServiceTest() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  void serve(PipelineLoader loader) {
    SocketPair sockets = *make_socket_pair();
    service_ = std::make_unique<WorkerServiceImpl>(
        std::move(loader),
        [this](const absl::Status& error) {
          MutexLock lock(&mutex_);
          device_failures_.emplace_back(error.message());
        },
        clock_);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    set_fd_server_limits(builder);
    server_ = builder.BuildAndStart();
    serve_over_fd(*server_, std::move(sockets.second));
    channel_ = channel_over_fd(std::move(sockets.first));
    stub_ = WorkerService::NewStub(channel_);
    rank_ = std::make_unique<GrpcRank>("pipelines/test", channel_);
  }

  void serve_loaded(FakePipelineOptions options) {
    serve(fake_pipeline_loader(std::move(options)));
    ASSERT_TRUE(load().ok());
  }

  absl::StatusOr<LoadPipelineResponse> load() {
    grpc::ClientContext context;
    LoadPipelineResponse response;
    const grpc::Status status = stub_->LoadPipeline(&context, {}, &response);
    if (!status.ok()) return from_grpc_status(status);
    return response;
  }

  std::vector<std::string> device_failures() {
    MutexLock lock(&mutex_);
    return device_failures_;
  }

  worker::v1::HeartbeatResponse heartbeat() {
    grpc::ClientContext context;
    worker::v1::HeartbeatResponse response;
    EXPECT_TRUE(stub_->Heartbeat(&context, {}, &response).ok());
    return response;
  }

  // As ferryd asks.
  worker::v1::GetFlightRecordsResponse flight_records() {
    const auto response =
        rank_->flight_records(std::chrono::system_clock::now() + kGenerous);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : worker::v1::GetFlightRecordsResponse();
  }

  static RunGenerationRequest request() {
    RunGenerationRequest request;
    request.set_job("jobs/1");
    v1::GenerationSpec& spec = *request.mutable_spec();
    spec.set_prompt("a red circle");
    spec.set_num_inference_steps(4);
    spec.set_num_images(2);
    spec.set_seed(5);
    return request;
  }

  static std::string reason(const absl::Status& status) {
    const auto info = get_error_info(status);
    return info.has_value() ? info->reason : "none";
  }

  HandClock clock_;
  Mutex mutex_;
  std::vector<std::string> device_failures_ GUARDED_BY(mutex_);
  std::unique_ptr<WorkerServiceImpl> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<WorkerService::Stub> stub_;
  std::unique_ptr<GrpcRank> rank_;
};

TEST_F(WorkerServiceTest, LoadsOnce) {
  serve(fake_pipeline_loader({}));
  const auto response = load();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->device(), "cpu");
  EXPECT_EQ(response->pipeline().offload().strategy(), "none");
  EXPECT_EQ(load().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WorkerServiceTest, ALoadErrorComesThroughWithItsReason) {
  serve([](const auto&, WaveLine*,
           RankRecorders*) -> absl::StatusOr<std::unique_ptr<LoadedPipeline>> {
    return absl::InvalidArgumentError("pipeline.pt: no method denoise");
  });
  const absl::Status status = load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "pipeline.pt: no method denoise");
  EXPECT_EQ(reason(status), "INVALID_ARGUMENT");
  EXPECT_THAT(device_failures(), IsEmpty());
}

TEST_F(WorkerServiceTest, ADeviceThatFailsInTheLoadIsTold) {
  serve([](const auto&, auto*,
           auto*) -> absl::StatusOr<std::unique_ptr<LoadedPipeline>> {
    return make_error(absl::StatusCode::kInternal, "the device failed",
                      {kDeviceFailed, {}});
  });
  EXPECT_FALSE(load().ok());
  EXPECT_THAT(device_failures(), ElementsAre("the device failed"));
}

TEST_F(WorkerServiceTest, FlightRecordsAreReadWhileTheLoadHangs) {
  Notification joins;
  Notification go_on;
  serve([&](const auto& request, WaveLine* waves, RankRecorders* recorders) {
    FlightRecorder& votes = recorders->add("votes", 0, 2);
    votes.start(votes.enqueue("join", 0));
    joins.notify();
    go_on.wait();
    return fake_pipeline_loader({})(request, waves, recorders);
  });
  EXPECT_THAT(flight_records().groups(), IsEmpty());
  absl::Status status;
  std::thread thread([&] { status = load().status(); });
  joins.wait();
  clock_.advance(absl::Seconds(7));
  const worker::v1::GetFlightRecordsResponse response = flight_records();
  ASSERT_EQ(response.groups_size(), 1);
  EXPECT_EQ(response.groups(0).group(), "votes");
  ASSERT_EQ(response.groups(0).records_size(), 1);
  const v1::FlightRecord& join = response.groups(0).records(0);
  EXPECT_EQ(join.kind(), "join");
  EXPECT_EQ(join.state(), v1::FlightRecord::STATE_STARTED);
  EXPECT_EQ(join.took().seconds(), 7);
  go_on.notify();
  thread.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(flight_records().groups_size(), 1);
}

TEST_F(WorkerServiceTest, WavesAreWantedAndStarted) {
  EagerParticipant participant;
  WaveLine* line = nullptr;
  serve([&](const auto& request, WaveLine* waves, RankRecorders* recorders) {
    line = waves;
    waves->attach(participant);
    return fake_pipeline_loader({})(request, waves, recorders);
  });
  grpc::ClientContext context;
  const auto stub = WorkerService::NewStub(channel_);
  const auto stream = stub->JoinWaves(&context);
  // Before the participant is there.
  worker::v1::JoinWavesRequest start;
  start.set_wave(1);
  ASSERT_TRUE(stream->Write(start));
  ASSERT_TRUE(load().ok());
  worker::v1::JoinWavesResponse wanted;
  ASSERT_TRUE(stream->Read(&wanted));
  EXPECT_EQ(wanted.last_wave(), 1);
  start.set_wave(2);
  ASSERT_TRUE(stream->Write(start));
  ASSERT_TRUE(stream->Read(&wanted));
  EXPECT_EQ(wanted.last_wave(), 2);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_THAT(participant.waves(), ElementsAre(1, 2));
  line->detach();
}

TEST_F(WorkerServiceTest, WavesAreStartedInTheirOrderAndJoinedOnce) {
  serve(fake_pipeline_loader({}));
  const auto stub = WorkerService::NewStub(channel_);
  worker::v1::JoinWavesRequest start;
  start.set_wave(2);
  for (const char* why : {"wave 2 was started after wave 0", "joined once"}) {
    grpc::ClientContext context;
    const auto stream = stub->JoinWaves(&context);
    stream->Write(start);
    const absl::Status status = from_grpc_status(stream->Finish());
    EXPECT_EQ(reason(status), "WRONG_STATE");
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST_F(WorkerServiceTest, NothingRunsBeforeTheLoad) {
  serve(fake_pipeline_loader({}));
  Events events;
  const absl::Status status = rank_->run(request(), events).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reason(status), "WRONG_STATE");
}

TEST_F(WorkerServiceTest, StreamsProgressPreviewsAndOutputs) {
  serve_loaded({});
  RunGenerationRequest generation = request();
  generation.mutable_spec()->mutable_preview()->set_interval_steps(2);
  Events events;
  const auto summary = rank_->run(generation, events);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(events.steps, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(events.previews, ElementsAre(2, 4));
  ASSERT_EQ(events.chunks.size(), 2u);
  EXPECT_EQ(events.chunks[1].final_info().seed(), 6);
  EXPECT_NE(events.chunks[0].data(), events.chunks[1].data());
}

TEST_F(WorkerServiceTest, OmitsTheBytesButNotTheirMetadata) {
  FakePipelineOptions options;
  options.output_bytes = 3 << 20;
  serve_loaded(options);
  RunGenerationRequest generation = request();
  generation.mutable_spec()->mutable_output()->set_omit_data(true);
  Events events;
  ASSERT_TRUE(rank_->run(generation, events).ok());
  ASSERT_EQ(events.chunks.size(), 2u);
  EXPECT_EQ(events.chunks[0].data(), "");
  EXPECT_EQ(events.chunks[0].final_info().size_bytes(), 3 << 20);
  EXPECT_EQ(events.chunks[0].final_info().sha256().size(), 64u);
}

TEST_F(WorkerServiceTest, OneAtATimeAndTheHeartbeatAnswersMeanwhile) {
  Notification in_step;
  Notification go_on;
  FakePipelineOptions options;
  options.on_step = [&](int step) {
    if (step != 2) return;
    in_step.notify();
    go_on.wait();
  };
  serve_loaded(options);
  EXPECT_EQ(heartbeat().job(), "");
  Events events;
  absl::Status status;
  std::thread run([&] { status = rank_->run(request(), events).status(); });
  in_step.wait();
  clock_.advance(absl::Seconds(7));
  EXPECT_EQ(heartbeat().job(), "jobs/1");
  EXPECT_EQ(heartbeat().since_progress().seconds(), 7);
  EXPECT_FALSE(heartbeat().has_since_cancel());
  GrpcRank second("pipelines/test", channel_);
  EXPECT_EQ(reason(second.run(request(), events).status()), "RANK_BUSY");
  go_on.notify();
  run.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(heartbeat().job(), "");
}

TEST_F(WorkerServiceTest, ACancelReturnsOnlyWhenTheRankIsFree) {
  Notification in_step;
  Notification go_on;
  FakePipelineOptions options;
  options.on_step = [&](int step) {
    if (step != 2) return;
    in_step.notify();
    go_on.wait();
  };
  serve_loaded(options);
  Events events;
  absl::Status status;
  Notification returned;
  std::thread run([&] {
    status = rank_->run(request(), events).status();
    returned.notify();
  });
  in_step.wait();
  rank_->cancel();
  // The worker knows, and the step still runs.
  while (!heartbeat().has_since_cancel()) {
  }
  EXPECT_EQ(heartbeat().job(), "jobs/1");
  go_on.notify();
  returned.wait();
  run.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(heartbeat().job(), "");
  // What was still queued at the cancel is dropped.
  EXPECT_LE(events.steps.size(), 2u);
}

TEST_F(WorkerServiceTest, APipelinesErrorComesThroughAndTheNextOneRuns) {
  class Failing final : public LoadedPipeline {
   public:
    absl::StatusOr<GenerationReport> generate(const v1::GenerationSpec& spec,
                                              GenerationObserver&) override {
      if (spec.seed() == 0) return GenerationReport();
      if (spec.seed() == 1) {
        return make_error(absl::StatusCode::kInternal, "the device failed",
                          {kDeviceFailed, {}});
      }
      return make_error(absl::StatusCode::kInternal, "step 3 gave NaN",
                        {"NON_FINITE_OUTPUT", {{"step", "3"}}});
    }
    v1::Pipeline description() const override { return {}; }
    std::string device() const override { return "cpu"; }
  };
  serve([](const auto&, WaveLine*,
           RankRecorders*) -> absl::StatusOr<std::unique_ptr<LoadedPipeline>> {
    return std::make_unique<Failing>();
  });
  ASSERT_TRUE(load().ok());
  Events events;
  const absl::Status status = rank_->run(request(), events).status();
  EXPECT_EQ(status.message(), "step 3 gave NaN");
  EXPECT_EQ(reason(status), "NON_FINITE_OUTPUT");
  EXPECT_EQ(get_error_info(status)->metadata.at("step"), "3");
  RunGenerationRequest good = request();
  good.mutable_spec()->set_seed(0);
  EXPECT_TRUE(rank_->run(good, events).ok());
  EXPECT_THAT(device_failures(), IsEmpty());
  RunGenerationRequest fatal = request();
  fatal.mutable_spec()->set_seed(1);
  EXPECT_FALSE(rank_->run(fatal, events).ok());
  EXPECT_THAT(device_failures(), ElementsAre("the device failed"));
}

TEST_F(WorkerServiceTest, TheEndOfTheOtherSideIsALostWorker) {
  Notification in_step;
  FakePipelineOptions options;
  options.on_step = [&](int) { in_step.notify(); };
  serve_loaded(options);
  RunGenerationRequest generation = request();
  generation.mutable_spec()->set_num_inference_steps(1000000000);
  Events events;
  absl::Status status;
  std::thread run([&] { status = rank_->run(generation, events).status(); });
  in_step.wait();
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  rank_->set_lost(make_error(absl::StatusCode::kUnavailable,
                             "rank 0 exited with code 9", {"WORKER_LOST", {}}));
  run.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(reason(status), "WORKER_LOST");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0 exited with code 9"));
}

TEST_F(WorkerServiceTest, ARankIsLostByAWorkersLossOnlyDeathTest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  serve(fake_pipeline_loader({}));
  EXPECT_DEATH(rank_->set_lost(absl::UnavailableError("gone")), "has_value");
  EXPECT_DEATH(rank_->set_lost(make_error(absl::StatusCode::kUnavailable,
                                          "full", {"QUEUE_FULL", {}})),
               "info->reason == \"WORKER_LOST\" \\(\"QUEUE_FULL\"");
}

struct Thrown {
  std::function<void()> raise;
  absl::StatusCode code;
  const char* reason;
  const char* text;
};

// Of kinds that nobody here names.
std::vector<Thrown> thrown_kinds() {
  return {
      {[] { throw std::bad_alloc(); }, absl::StatusCode::kResourceExhausted,
       "GPU_OUT_OF_MEMORY", "out of memory"},
      {[] { throw std::length_error("vector::reserve"); },
       absl::StatusCode::kInternal, "INTERNAL", "vector::reserve"},
      {[] { throw std::system_error(EAGAIN, std::generic_category()); },
       absl::StatusCode::kInternal, "INTERNAL", "temporarily unavailable"},
      {[] { throw 42; }, absl::StatusCode::kInternal, "INTERNAL",
       "an unknown type"},
  };
}

TEST_F(WorkerServiceTest, WhatALoadThrowsIsItsError) {
  for (const Thrown& kind : thrown_kinds()) {
    serve(
        [&](const auto&, WaveLine*,
            RankRecorders*) -> absl::StatusOr<std::unique_ptr<LoadedPipeline>> {
          kind.raise();
          return absl::UnknownError("nothing was thrown");
        });
    const absl::Status status = load().status();
    EXPECT_EQ(status.code(), kind.code) << status;
    EXPECT_EQ(reason(status), kind.reason);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("LoadPipeline: "), HasSubstr(kind.text)));
    // The process lives, and says why it is of no use.
    EXPECT_EQ(reason(load().status()), "WRONG_STATE");
    heartbeat();
    server_->Shutdown();
    server_.reset();
  }
}

TEST_F(WorkerServiceTest, WhatAGenerationThrowsIsItsErrorAndTheNextOneRuns) {
  const std::vector<Thrown> kinds = thrown_kinds();
  const Thrown* kind = nullptr;
  FakePipelineOptions options;
  options.on_step = [&](int) {
    if (kind != nullptr) kind->raise();
  };
  serve_loaded(options);
  for (const Thrown& next : kinds) {
    kind = &next;
    Events events;
    const absl::Status status = rank_->run(request(), events).status();
    EXPECT_EQ(status.code(), next.code) << status;
    EXPECT_EQ(reason(status), next.reason);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("RunGeneration: "), HasSubstr(next.text)));
    kind = nullptr;
    EXPECT_TRUE(rank_->run(request(), events).ok());
  }
}

}  // namespace
}  // namespace ferry
