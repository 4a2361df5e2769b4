#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "ferry/worker/v1/worker_service.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "platform/base/mutex.h"

namespace ferry {

// The waves of a rank in another process, over gRPC: one call as long as both
// live.
//
//   construct → watch() → start() … → stop()
//
// Ownership: what the callbacks use must outlive it. The destructor stops.
// Threads: start() is thread-safe, all else belongs to one thread. The
// callbacks
//   run on its own and must not call stop().
// Errors: what the worker says is wrong goes to on_error; the end of its
// process
//   to nobody, since others see that.
class GrpcWaves {
 public:
  struct Callbacks {
    // The rank wants a wave after this one.
    std::function<void(int64_t last_wave)> on_wanted;
    std::function<void(const absl::Status& error)> on_error;
  };

  explicit GrpcWaves(const std::shared_ptr<grpc::Channel>& channel);
  ~GrpcWaves();
  GrpcWaves(const GrpcWaves&) = delete;
  GrpcWaves& operator=(const GrpcWaves&) = delete;

  // Tells from now on. REQUIRES: called once, or never, and before stop().
  void watch(Callbacks callbacks);
  // Gives the wave to the rank, unless it is gone. Does not wait for it.
  void start(int64_t wave) EXCLUDES_LOCK(mutex_);
  // Ends the call. No callback runs any more when it returns, and start() does
  // nothing. Any number of times.
  void stop() EXCLUDES_LOCK(mutex_);

 private:
  void read() EXCLUDES_LOCK(mutex_);
  bool has_ended() EXCLUDES_LOCK(mutex_);

  const std::unique_ptr<worker::v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<worker::v1::JoinWavesRequest,
                                                 worker::v1::JoinWavesResponse>>
      stream_;
  bool is_watched_ = false;
  Callbacks callbacks_;
  // One writer at a time, and none when the call has ended.
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::thread reader_;
};

}  // namespace ferry
