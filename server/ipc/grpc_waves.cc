#include "server/ipc/grpc_waves.h"

#include <utility>

#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "server/ipc/grpc_status.h"

namespace ferry {

using worker::v1::JoinWavesRequest;
using worker::v1::JoinWavesResponse;
using worker::v1::WorkerService;

GrpcWaves::GrpcWaves(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(WorkerService::NewStub(channel)),
      stream_(stub_->JoinWaves(&context_)) {}

GrpcWaves::~GrpcWaves() { stop(); }

void GrpcWaves::stop() {
  context_.TryCancel();
  if (reader_.joinable()) {
    reader_.join();
  } else if (!has_ended()) {
    // gRPC wants the end of every call to be read.
    read();
  }
}

bool GrpcWaves::has_ended() {
  MutexLock lock(&mutex_);
  return ended_;
}

void GrpcWaves::watch(Callbacks callbacks) {
  FERRY_CHECK(!std::exchange(is_watched_, true));
  FERRY_CHECK(!has_ended());
  callbacks_ = std::move(callbacks);
  reader_ = std::thread([this] { read(); });
}

void GrpcWaves::read() {
  JoinWavesResponse response;
  while (stream_->Read(&response)) {
    if (callbacks_.on_wanted) callbacks_.on_wanted(response.last_wave());
  }
  {
    MutexLock lock(&mutex_);
    ended_ = true;
  }
  const absl::Status status = from_grpc_status(stream_->Finish());
  // What gRPC says itself carries no reason.
  if (callbacks_.on_error && get_error_info(status).has_value()) {
    callbacks_.on_error(status);
  }
}

void GrpcWaves::start(int64_t wave) {
  JoinWavesRequest request;
  request.set_wave(wave);
  MutexLock lock(&mutex_);
  if (!ended_) stream_->Write(request);
}

}  // namespace ferry
