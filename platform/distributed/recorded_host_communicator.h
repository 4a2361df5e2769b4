#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {

// Another communicator, whose calls a FlightRecorder sees.
//
// Ownership: owns the communicator, refers to the recorder.
class RecordedHostCommunicator final : public HostCommunicator {
 public:
  RecordedHostCommunicator(std::unique_ptr<HostCommunicator> communicator,
                           FlightRecorder& recorder)
      : communicator_(std::move(communicator)), recorder_(recorder) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }

  absl::Status all_gather(const void* in, void* out, int64_t bytes,
                          absl::Duration timeout) override {
    const int64_t number = begin("all_gather", bytes);
    absl::Status status = communicator_->all_gather(in, out, bytes, timeout);
    recorder_.end(number, status);
    return status;
  }

  absl::StatusOr<uint64_t> all_reduce_or(uint64_t bits,
                                         absl::Duration timeout) override {
    const int64_t number = begin("all_reduce_or", 0);
    absl::StatusOr<uint64_t> result =
        communicator_->all_reduce_or(bits, timeout);
    recorder_.end(number, result.status());
    return result;
  }

  void abort(absl::string_view reason) override {
    communicator_->abort(reason);
  }
  absl::Status status() const override { return communicator_->status(); }

 private:
  int64_t begin(const char* kind, int64_t bytes) {
    const int64_t number = recorder_.enqueue(kind, bytes);
    recorder_.start(number);
    return number;
  }

  const std::unique_ptr<HostCommunicator> communicator_;
  FlightRecorder& recorder_;
};

}  // namespace ferry
