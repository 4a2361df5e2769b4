#include "server/frontend/frontend_server.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "ferry/v1/generation_service.grpc.pb.h"
#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "platform/base/mutex.h"
#include "server/core/errors.h"
#include "server/frontend/pipeline_service.h"
#include "server/frontend/testing/test_frontend.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// One Generate call of a client.
struct Call {
  Call(v1::GenerationService::Stub& stub, const v1::GenerateRequest& request,
       absl::Duration timeout = absl::Minutes(1)) {
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(timeout));
    reader = stub.Generate(&context, request);
  }

  // Reads one event; false at the end.
  bool read() { return reader->Read(&response); }
  // Reads up to a Job in this state.
  bool read_to(v1::Job::State state) {
    while (read()) {
      if (response.event().job().state() == state) return true;
    }
    return false;
  }
  grpc::Status finish() {
    while (read()) events.push_back(response.event());
    return reader->Finish();
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  v1::GenerateResponse response;
  std::vector<v1::JobEvent> events;
};

class FrontendServerTest : public ::testing::Test {
 protected:
  void start() {
    auto server = FrontendServer::start(
        parts_.config, {&parts_.manager, &parts_.directory, &parts_.board,
                        &parts_.clock, [this](const std::string& pipeline) {
                          return flight_records_(pipeline);
                        }});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    parts_.reporter.set_listening();
    parts_.make_ready();
    channel_ = connect_to(server_->grpc_address());
    stub_ = v1::GenerationService::NewStub(channel_);
  }

  void TearDown() override {
    parts_.rank->set_automatic();
    parts_.manager.cancel_all(job_cancelled());
    server_.reset();
  }

  grpc::Status get_flight_records(const std::string& name,
                                  v1::GetFlightRecordsResponse* response) {
    grpc::ClientContext context;
    v1::GetFlightRecordsRequest request;
    request.set_name(name);
    return v1::PipelineService::NewStub(channel_)->GetFlightRecords(
        &context, request, response);
  }

  v1::Job get_job(const std::string& name) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_name(name);
    v1::GetJobResponse response;
    EXPECT_TRUE(stub_->GetJob(&context, request, &response).ok());
    return response.job();
  }

  // Polls: there is nothing to wait on across the wire.
  bool eventually_in(const std::string& name, v1::Job::State state) {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (absl::Now() < end) {
      if (get_job(name).state() == state) return true;
    }
    return false;
  }

  void emit_output(const std::string& data, int bytes_told) {
    parts_.rank->emit([data, bytes_told](RankEvents& events) {
      v1::OutputChunk chunk;
      chunk.set_data(data);
      chunk.mutable_final_info()->set_size_bytes(bytes_told);
      chunk.mutable_final_info()->set_mime_type("image/png");
      events.on_output_chunk(chunk);
    });
  }

  // What the supervisor says.
  FlightRecordsOf flight_records_ = [](const std::string&) {
    return v1::GetFlightRecordsResponse();
  };
  TestFrontend parts_;
  std::unique_ptr<FrontendServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

TEST_F(FrontendServerTest, GenerateStreamsFromQueuedToSucceeded) {
  start();
  Call call(*stub_, make_test_request());
  ASSERT_TRUE(call.read());
  EXPECT_EQ(call.response.event().sequence(), 1);
  EXPECT_EQ(call.response.event().job().state(), v1::Job::STATE_QUEUED);
  const std::string name = call.response.event().job().name();
  parts_.rank->wait_for_run(1);
  parts_.rank->emit([](RankEvents& events) {
    v1::Progress progress;
    progress.set_stage(v1::Progress::STAGE_DENOISE);
    progress.set_step(1);
    progress.set_total_steps(20);
    events.on_progress(progress);
  });
  emit_output("pixels", 6);
  parts_.rank->end_run(absl::OkStatus());

  const grpc::Status status = call.finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<int64_t> sequences;
  bool saw_progress = false;
  std::string data;
  for (const v1::JobEvent& event : call.events) {
    sequences.push_back(event.sequence());
    saw_progress = saw_progress || event.progress().step() == 1;
    data += event.output_chunk().data();
  }
  EXPECT_THAT(sequences, ::testing::Contains(call.events.back().sequence()));
  EXPECT_TRUE(std::is_sorted(sequences.begin(), sequences.end()));
  EXPECT_TRUE(saw_progress);
  EXPECT_EQ(data, "pixels");
  EXPECT_EQ(call.events.back().job().state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_EQ(get_job(name).state(), v1::Job::STATE_SUCCEEDED);
}

TEST_F(FrontendServerTest, AStreamEndsWithExactlyTheJobsError) {
  start();
  Call call(*stub_, make_test_request());
  ASSERT_TRUE(call.read());
  parts_.rank->wait_for_run(1);
  parts_.rank->end_run(worker_lost(kTestPipeline, "signal 9"));
  const grpc::Status status = call.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(reason_of(status), "WORKER_LOST");
  ASSERT_FALSE(call.events.empty());
  const google::rpc::Status& error = call.events.back().job().error();
  EXPECT_EQ(status.error_message(), error.message());
  EXPECT_EQ(status.error_details(), error.SerializeAsString());
}

TEST_F(FrontendServerTest, ABadRequestNamesEveryField) {
  start();
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_height(100);
  request.mutable_spec()->set_seed(-1);
  Call call(*stub_, request);
  const grpc::Status status = call.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(reason_of(status), "INVALID_FIELD");
  const auto bad = detail_of<google::rpc::BadRequest>(status);
  ASSERT_EQ(bad.field_violations_size(), 2);
  EXPECT_EQ(bad.field_violations(0).field(), "spec.height");
  EXPECT_EQ(bad.field_violations(1).field(), "spec.seed");
}

TEST_F(FrontendServerTest, ValidateOnlyTellsTheSpecAndRunsNothing) {
  start();
  v1::GenerateRequest request = make_test_request();
  request.set_validate_only(true);
  Call call(*stub_, request);
  EXPECT_TRUE(call.finish().ok());
  ASSERT_THAT(call.events, SizeIs(1));
  const v1::Job& job = call.events[0].job();
  EXPECT_EQ(job.effective_spec().num_inference_steps(), 20);
  EXPECT_EQ(parts_.rank->runs(), 0u);
}

TEST_F(FrontendServerTest, LeavingCancelsTheJob) {
  start();
  std::string name;
  {
    Call call(*stub_, make_test_request());
    ASSERT_TRUE(call.read_to(v1::Job::STATE_RUNNING));
    name = call.response.event().job().name();
    call.context.TryCancel();
    call.finish();
  }
  EXPECT_TRUE(eventually_in(name, v1::Job::STATE_CANCELLED));
  EXPECT_EQ(parts_.rank->cancels(), 1);
  EXPECT_THAT(get_job(name).error().ShortDebugString(),
              HasSubstr("CLIENT_CANCELLED"));
}

TEST_F(FrontendServerTest, CancelJobEndsTheStream) {
  start();
  Call call(*stub_, make_test_request());
  ASSERT_TRUE(call.read_to(v1::Job::STATE_RUNNING));
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_name(call.response.event().job().name());
  v1::CancelJobResponse response;
  ASSERT_TRUE(stub_->CancelJob(&context, request, &response).ok());
  EXPECT_EQ(response.job().name(), request.name());
  const grpc::Status status = call.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(reason_of(status), "JOB_CANCELLED");
}

TEST_F(FrontendServerTest, TheClientsDeadlineEndsTheJob) {
  start();
  Call call(*stub_, make_test_request(), absl::Seconds(1));
  ASSERT_TRUE(call.read());
  const std::string name = call.response.event().job().name();
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(eventually_in(name, v1::Job::STATE_CANCELLED));
  EXPECT_EQ(get_job(name).error().code(),
            static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED));
}

TEST_F(FrontendServerTest, UnaryCallsAnswerWhileAllStreamsAreTaken) {
  parts_.config.max_inflight = 36;
  start();
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(std::make_unique<Call>(*stub_, make_test_request()));
    ASSERT_TRUE(calls.back()->read());
  }
  const std::string queued = calls.back()->response.event().job().name();

  Call refused(*stub_, make_test_request());
  const grpc::Status status = refused.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(reason_of(status), "TOO_MANY_STREAMS");
  EXPECT_GT(detail_of<google::rpc::RetryInfo>(status).retry_delay().seconds(),
            0);

  const absl::Time start = absl::Now();
  get_job(queued);
  grpc::ClientContext health_context;
  grpc::health::v1::HealthCheckResponse health;
  EXPECT_TRUE(grpc::health::v1::Health::NewStub(channel_)
                  ->Check(&health_context, {}, &health)
                  .ok());
  grpc::ClientContext cancel_context;
  v1::CancelJobRequest cancel;
  cancel.set_name(queued);
  v1::CancelJobResponse cancelled;
  EXPECT_TRUE(stub_->CancelJob(&cancel_context, cancel, &cancelled).ok());
  // A server without a free thread would answer once a stream ends: never.
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));

  // A stream that ends makes room.
  EXPECT_EQ(reason_of(calls.back()->finish()), "JOB_CANCELLED");
  Call accepted(*stub_, make_test_request());
  EXPECT_TRUE(accepted.read());
}

TEST_F(FrontendServerTest, AReaderThatIsTooSlowLosesItsStream) {
  // Longer than the rank takes to end, also on a busy machine: the job of a
  // slow reader that still runs would be cancelled.
  parts_.config.slow_reader_timeout = absl::Seconds(2);
  start();
  Call call(*stub_, make_test_request());
  ASSERT_TRUE(call.read_to(v1::Job::STATE_RUNNING));
  parts_.rank->emit([](RankEvents& events) {
    // Far more than the connection buffers.
    for (int i = 0; i < 32; ++i) {
      v1::OutputChunk chunk;
      chunk.set_index(i);
      chunk.set_data(std::string(1 << 20, 'x'));
      chunk.mutable_final_info()->set_size_bytes(1 << 20);
      events.on_output_chunk(std::move(chunk));
    }
  });
  parts_.rank->end_run(absl::OkStatus());
  // The rank is free although nobody reads.
  const std::string name = call.response.event().job().name();
  EXPECT_TRUE(eventually_in(name, v1::Job::STATE_SUCCEEDED));
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (server_->generate_streams() > 0 && absl::Now() < end) {
  }
  EXPECT_EQ(server_->generate_streams(), 0);
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(FrontendServerTest, ListsJobsAndPipelines) {
  start();
  Call call(*stub_, make_test_request());
  ASSERT_TRUE(call.read());
  grpc::ClientContext context;
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(stub_->ListJobs(&context, {}, &jobs).ok());
  ASSERT_THAT(jobs.jobs(), SizeIs(1));
  EXPECT_EQ(jobs.jobs(0).name(), call.response.event().job().name());

  const auto pipelines = v1::PipelineService::NewStub(channel_);
  grpc::ClientContext list_context;
  v1::ListPipelinesResponse list;
  ASSERT_TRUE(pipelines->ListPipelines(&list_context, {}, &list).ok());
  ASSERT_THAT(list.pipelines(), SizeIs(1));
  EXPECT_EQ(list.pipelines(0).state(), v1::Pipeline::STATE_READY);

  grpc::ClientContext get_context;
  v1::GetPipelineRequest request;
  request.set_name("pipelines/none");
  v1::GetPipelineResponse response;
  const grpc::Status status =
      pipelines->GetPipeline(&get_context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(reason_of(status), "PIPELINE_NOT_FOUND");
}

TEST_F(FrontendServerTest, PipelinesTellTheLimitsThatRequestsMeet) {
  start();
  // A package that allows more than the server does.
  parts_.directory.update(kTestPipeline, [](v1::Pipeline& pipeline) {
    pipeline.mutable_limits()->set_max_images(1000);
  });
  const auto pipelines = v1::PipelineService::NewStub(channel_);
  grpc::ClientContext list_context;
  v1::ListPipelinesResponse list;
  ASSERT_TRUE(pipelines->ListPipelines(&list_context, {}, &list).ok());
  ASSERT_THAT(list.pipelines(), SizeIs(1));
  grpc::ClientContext get_context;
  v1::GetPipelineRequest get_request;
  get_request.set_name(kTestPipeline);
  v1::GetPipelineResponse get;
  ASSERT_TRUE(pipelines->GetPipeline(&get_context, get_request, &get).ok());
  const int max_images = get.pipeline().limits().max_images();
  EXPECT_LT(max_images, 1000);
  EXPECT_EQ(list.pipelines(0).limits().max_images(), max_images);

  v1::GenerateRequest request = make_test_request();
  request.set_validate_only(true);
  request.mutable_spec()->set_num_images(max_images);
  EXPECT_TRUE(Call(*stub_, request).finish().ok());
  request.mutable_spec()->set_num_images(max_images + 1);
  EXPECT_EQ(reason_of(Call(*stub_, request).finish()), "INVALID_FIELD");
}

TEST_F(FrontendServerTest, ListPipelinesGoesPageByPage) {
  for (const char* name : {"pipelines/a", "pipelines/b"}) {
    parts_.directory.add(name);
  }
  start();
  const auto pipelines = v1::PipelineService::NewStub(channel_);
  v1::ListPipelinesRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  for (int page = 0; page < 2; ++page) {
    grpc::ClientContext context;
    v1::ListPipelinesResponse response;
    ASSERT_TRUE(pipelines->ListPipelines(&context, request, &response).ok());
    for (const auto& pipeline : response.pipelines()) {
      names.push_back(pipeline.name());
    }
    request.set_page_token(response.next_page_token());
  }
  EXPECT_EQ(request.page_token(), "");
  EXPECT_THAT(names, ::testing::ElementsAre("pipelines/a", "pipelines/b",
                                            kTestPipeline));

  grpc::ClientContext context;
  v1::ListPipelinesResponse response;
  request.set_page_token("nonsense");
  EXPECT_EQ(reason_of(pipelines->ListPipelines(&context, request, &response)),
            "INVALID_PAGE_TOKEN");
  grpc::ClientContext negative;
  request.set_page_token("");
  request.set_page_size(-1);
  EXPECT_EQ(reason_of(pipelines->ListPipelines(&negative, request, &response)),
            "INVALID_FIELD");
}

TEST_F(FrontendServerTest, FlightRecordsAreTheSupervisors) {
  flight_records_ = [](const std::string& pipeline) {
    EXPECT_EQ(pipeline, kTestPipeline);
    v1::GetFlightRecordsResponse response;
    response.set_generation(7);
    response.add_ranks()->add_groups()->set_group("votes");
    response.add_ranks()->mutable_error()->set_message("is gone");
    return response;
  };
  start();
  v1::GetFlightRecordsResponse response;
  ASSERT_TRUE(get_flight_records(kTestPipeline, &response).ok());
  EXPECT_EQ(response.generation(), 7);
  ASSERT_THAT(response.ranks(), SizeIs(2));
  EXPECT_EQ(response.ranks(0).groups(0).group(), "votes");
  EXPECT_EQ(response.ranks(1).error().message(), "is gone");
}

TEST_F(FrontendServerTest, FlightRecordsNeedAPipelineAndNoGroup) {
  start();
  parts_.directory.update(kTestPipeline, [](v1::Pipeline& pipeline) {
    pipeline.set_generation(3);
  });
  v1::GetFlightRecordsResponse response;
  EXPECT_TRUE(get_flight_records(kTestPipeline, &response).ok());
  EXPECT_EQ(response.generation(), 3);
  EXPECT_THAT(response.ranks(), SizeIs(0));
  EXPECT_EQ(reason_of(get_flight_records("pipelines/none", &response)),
            "PIPELINE_NOT_FOUND");
  EXPECT_EQ(reason_of(get_flight_records("test", &response)), "INVALID_FIELD");
}

TEST_F(FrontendServerTest, RanksThatDoNotAnswerHoldFewPlaces) {
  constexpr int kCalls = 6;
  Mutex mutex;
  CondVar changed;
  bool answers = false;
  flight_records_ = [&](const std::string&) {
    MutexLock lock(&mutex);
    while (!answers) changed.wait(&mutex);
    return v1::GetFlightRecordsResponse();
  };
  start();
  int refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kCalls; ++i) {
    threads.emplace_back([&] {
      v1::GetFlightRecordsResponse response;
      const grpc::Status status = get_flight_records(kTestPipeline, &response);
      if (status.ok()) return;
      EXPECT_EQ(reason_of(status), "TOO_MANY_STREAMS");
      MutexLock lock(&mutex);
      ++refused;
      changed.notify_all();
    });
  }
  {
    MutexLock lock(&mutex);
    while (refused < 2) changed.wait(&mutex);
    answers = true;
    changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 2);
}

TEST_F(FrontendServerTest, CallsToComeSayThatTheyAreNotSupported) {
  start();
  const auto expect_refused = [](const grpc::Status& status,
                                 const std::string& method) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(reason_of(status), "METHOD_NOT_SUPPORTED");
    EXPECT_THAT(status.error_message(), HasSubstr(method));
  };
  grpc::ClientContext contexts[5];
  v1::CreateJobResponse created;
  expect_refused(stub_->CreateJob(&contexts[0], {}, &created), "CreateJob");
  v1::DeleteJobResponse deleted;
  expect_refused(stub_->DeleteJob(&contexts[1], {}, &deleted), "DeleteJob");
  v1::WatchJobResponse event;
  const auto watch = stub_->WatchJob(&contexts[2], {});
  EXPECT_FALSE(watch->Read(&event));
  expect_refused(watch->Finish(), "WatchJob");
  const auto pipelines = v1::PipelineService::NewStub(channel_);
  v1::LoadPipelineResponse loaded;
  expect_refused(pipelines->LoadPipeline(&contexts[3], {}, &loaded),
                 "LoadPipeline");
  v1::UnloadPipelineResponse unloaded;
  expect_refused(pipelines->UnloadPipeline(&contexts[4], {}, &unloaded),
                 "UnloadPipeline");
}

TEST_F(FrontendServerTest, HealthHasAServerOfItsOwn) {
  start();
  const auto health =
      grpc::health::v1::Health::NewStub(connect_to(server_->health_address()));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("readiness");
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(health->Check(&context, request, &response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  // And nothing but health.
  const auto jobs =
      v1::GenerationService::NewStub(connect_to(server_->health_address()));
  grpc::ClientContext job_context;
  v1::ListJobsResponse list;
  EXPECT_EQ(jobs->ListJobs(&job_context, {}, &list).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(FrontendServerTest, APortInUseIsNamed) {
  start();
  DaemonConfig config = parts_.config;
  config.grpc_address = server_->grpc_address();
  const auto second = FrontendServer::start(
      config,
      {&parts_.manager, &parts_.directory, &parts_.board, &parts_.clock});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(server_->grpc_address()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST_F(FrontendServerTest, ServesOnAUnixSocketAndDefendsIt) {
  char directory[] = "/tmp/ferryXXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  parts_.config.grpc_address = std::string("unix:") + directory + "/s";
  start();
  EXPECT_EQ(server_->grpc_address(), parts_.config.grpc_address);
  grpc::ClientContext context;
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(stub_->ListJobs(&context, {}, &jobs).ok());
  // gRPC itself would take the path over.
  const auto second = FrontendServer::start(
      parts_.config,
      {&parts_.manager, &parts_.directory, &parts_.board, &parts_.clock});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  server_.reset();
  EXPECT_EQ(rmdir(directory), 0) << "the socket is left";
}

}  // namespace
}  // namespace ferry
