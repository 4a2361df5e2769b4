#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/event.h"
#include "platform/device/stream.h"
#include "platform/distributed/communicator.h"
#include "platform/distributed/deadline.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/nccl/nccl_abi.h"
#include "platform/distributed/nccl/nccl_api.h"
#include "platform/distributed/store.h"

namespace ferry {

struct NcclOptions {
  // Until all ranks have joined; and to leave.
  absl::Duration join_timeout = absl::Seconds(120);
  // Of one gather, from its start to its end.
  absl::Duration timeout = absl::Seconds(60);
  // Thread blocks that a gather takes from the kernels beside it, at most; 0:
  // as NCCL likes. NCCL 2.17 and later.
  int max_ctas = 0;
  // Sees the gathers; null: nobody does. Outlives the communicator.
  FlightRecorder* recorder = nullptr;
};

// Joins GPUs, by NCCL. A thread of ours, the watchdog, looks after the calls
// and the work that are under way, and alone aborts them: a call that does not
// return in time then does, with an error.
//
//   joining --> usable --error, deadline, abort()--> failed, for ever
//
// NCCL's communicator is a blocking one: a gather costs what giving a kernel to
// a stream does. (A non-blocking one starts a thread for each, and nothing can
// be recorded behind the gather before that has run.) The first gather sets up
// connections: it may block until all ranks make it. At most kMaxInFlight
// gathers can be under way; one more waits.
//
// Threads and errors: as Communicator says. Ownership: refers to `api` and
// `device`, which outlive it.
class NcclCommunicator final : public Communicator {
 public:
  static constexpr size_t kMaxInFlight = 32;

  // Joins the group; blocks until all ranks have. Rank 0 tells the others
  // through the store, under "nccl/id": a group needs a prefix of its own.
  // REQUIRES: 0 ≤ rank < size. Errors: DEADLINE_EXCEEDED, not all ranks came;
  // FAILED_PRECONDITION, NCCL is too old; UNAVAILABLE and INTERNAL, NCCL's.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> join(
      NcclApi& api, CudaDevice& device, Store& store, int rank, int size,
      const NcclOptions& options);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::Status all_gather(Stream stream, const void* in, void* out,
                          int64_t bytes) override EXCLUDES_LOCK(mutex_);
  void abort(absl::string_view reason) override EXCLUDES_LOCK(mutex_);
  absl::Status status() override EXCLUDES_LOCK(mutex_);

 private:
  // A gather that was given to a stream.
  struct Flight {
    Event before;
    Event after;
    int64_t bytes = 0;
    // When its stream was seen to have come to it; the deadline is from then.
    bool has_started = false;
    absl::Duration started;
    // Of the recorder's operations.
    int64_t number = 0;
  };

  NcclCommunicator(NcclApi& api, CudaDevice& device, int rank, int size,
                   const NcclOptions& options);

  absl::Status initialize(const NcclUniqueId& id, NcclConfig* config)
      EXCLUDES_LOCK(mutex_);
  // Makes a call of NCCL that may block, without the lock, and waits for what
  // it began; the watchdog sees to the time. `what` is a literal, `bytes` those
  // of a gather.
  template <typename Call>
  absl::Status make_call(const char* what, int64_t bytes,
                         absl::Duration timeout, Call call)
      REQUIRES_LOCK(mutex_);
  NcclResult settle(NcclResult result) REQUIRES_LOCK(mutex_);
  absl::Status launch(Flight& flight, Stream stream, const void* in, void* out)
      REQUIRES_LOCK(mutex_);
  void watch() EXCLUDES_LOCK(mutex_);
  void watch_once() REQUIRES_LOCK(mutex_);
  void abort_now() REQUIRES_LOCK(mutex_);
  // Looks for errors, and at what is under way.
  void look() REQUIRES_LOCK(mutex_);
  void look_at_flights() REQUIRES_LOCK(mutex_);
  absl::Status look_at(Flight& flight, bool* has_ended) REQUIRES_LOCK(mutex_);
  absl::Status fail(const absl::Status& error) REQUIRES_LOCK(mutex_);
  void finish(const Flight& flight, const absl::Status& status);
  absl::Status error_of(NcclResult result, absl::string_view what)
      REQUIRES_LOCK(mutex_);
  void leave() EXCLUDES_LOCK(mutex_);
  // Null while there is none.
  NcclComm comm() const { return __atomic_load_n(&comm_, __ATOMIC_ACQUIRE); }

  // Constant after construction.
  NcclApi& api_;
  CudaDevice& device_;
  const int rank_;
  const int size_;
  const NcclOptions options_;

  // A call that this rank is in.
  struct PendingCall {
    const char* what;
    int64_t bytes;
    Deadline deadline;
  };

  // NCCL writes it while it joins.
  NcclComm comm_ = nullptr;

  Mutex mutex_;
  CondVar changed_;
  // All ranks have joined it.
  bool has_joined_ GUARDED_BY(mutex_) = false;
  // It was aborted or destroyed, or is being so: nobody may use it.
  bool is_gone_ GUARDED_BY(mutex_) = false;
  std::optional<PendingCall> call_ GUARDED_BY(mutex_);
  // The gathers from `first_` to before `next_`, each at its number modulo
  // kMaxInFlight, are under way.
  std::array<Flight, kMaxInFlight> flights_ GUARDED_BY(mutex_);
  size_t first_ GUARDED_BY(mutex_) = 0;
  size_t next_ GUARDED_BY(mutex_) = 0;
  absl::Status error_ GUARDED_BY(mutex_);
  // By then a call that was under way at the error hangs.
  absl::Duration abort_at_ GUARDED_BY(mutex_);
  // The watchdog sleeps until it is told of work.
  bool is_idle_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread watchdog_;
};

}  // namespace ferry
