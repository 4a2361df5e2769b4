#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "platform/base/mutex.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/distributed/nccl/nccl_abi.h"
#include "platform/distributed/nccl/nccl_api.h"

namespace ferry {

// NCCL of one rank, without GPUs and other ranks: it says what it is told to
// say, remembers what it was asked, and is as strict as NCCL 2.28.
//
// - On a communicator that does not block, every call that starts work answers
//   kInProgress and starts a job. Until comm_get_async_error() has been asked
//   `looks` times the next call is kInvalidArgument, and a misuse.
// - On a blocking one calls return when they are done. One that hangs does when
//   the communicator is aborted, with an error.
// - Misuses are also: calls on a communicator that is gone or was finalized,
//   two calls at a time, and any on a thread whose device is not the
//   communicator's (with `cuda`).
//
// Threads: thread-safe.
class FakeNcclApi final : public NcclApi {
 public:
  // --- To be set before it is used

  int version = 22809;
  // NCCL's environment says so (NCCL_COMM_BLOCKING=0), whatever it is asked
  // for.
  bool never_blocks = false;
  int looks = 2;
  // Knows the threads' devices. Null: nobody looks.
  FakeCudaApi* cuda = nullptr;

  // --- Faults

  // Results of the next calls of a name, as in "all_gather"; then success. For
  // "async" those that comm_get_async_error() gives.
  void push_results(const std::string& call, std::deque<NcclResult> results)
      EXCLUDES_LOCK(mutex_);
  // From now on every call of that name says so.
  void set_result(const std::string& call, NcclResult result)
      EXCLUDES_LOCK(mutex_);
  // From now on calls of that name end with comm_abort() only.
  void hang(const std::string& call) EXCLUDES_LOCK(mutex_);
  // Called by all_gather(), without locks: the work.
  void set_work(std::function<void(const void* in, void* out, size_t bytes,
                                   cudaStream_t stream)>
                    work) EXCLUDES_LOCK(mutex_);

  // --- What happened

  // Calls but those that ask, in their order: "comm_init_rank_config 1 of 2".
  std::vector<std::string> log() const EXCLUDES_LOCK(mutex_);
  // Blocks until a call of that name was logged, as the last one.
  void await(const std::string& call) EXCLUDES_LOCK(mutex_);
  // How often the calling thread has asked for asynchronous errors.
  int looks_of_thread() const EXCLUDES_LOCK(mutex_);
  // "all_gather while work was in progress", in order.
  std::vector<std::string> misuses() const EXCLUDES_LOCK(mutex_);
  // What the last communicator was made with.
  NcclConfig config = {};
  std::string id;

  // --- NcclApi

  NcclResult get_version(int* out) override;
  NcclResult get_unique_id(NcclUniqueId* out) override;
  NcclResult comm_init_rank_config(NcclComm* comm, int size,
                                   NcclUniqueId unique_id, int rank,
                                   NcclConfig* options) override;
  NcclResult comm_get_async_error(NcclComm comm, NcclResult* result) override;
  NcclResult comm_finalize(NcclComm comm) override;
  NcclResult comm_destroy(NcclComm comm) override;
  NcclResult comm_abort(NcclComm comm) override;
  NcclResult all_gather(const void* in, void* out, size_t count,
                        NcclDataType type, NcclComm comm,
                        cudaStream_t stream) override EXCLUDES_LOCK(mutex_);
  const char* get_error_string(NcclResult /*result*/) override {
    return "an error string";
  }
  const char* get_last_error(NcclComm /*comm*/) override {
    return "the last error";
  }

 private:
  struct Comm {
    bool blocks = true;
    int device = 0;
    bool is_in_call = false;
    bool is_finalized = false;
    bool is_aborted = false;
    bool is_gone = false;
    // Looks after which the job is done; 0: there is none.
    int looks_left = 0;
    bool hangs = false;
    // Of the job.
    NcclResult result = NcclResult::kSuccess;
  };

  NcclResult next(const std::string& call) REQUIRES_LOCK(mutex_);
  void note(const std::string& line) REQUIRES_LOCK(mutex_);
  void misuse(absl::string_view call, absl::string_view how)
      REQUIRES_LOCK(mutex_);
  void check_device(absl::string_view call, const Comm& comm)
      REQUIRES_LOCK(mutex_);
  Comm& comm_of(NcclComm comm) REQUIRES_LOCK(mutex_);
  // A call that starts work on a communicator.
  NcclResult start(const std::string& call, const std::string& line, Comm& comm)
      EXCLUDES_LOCK(mutex_);
  NcclResult start_job(const std::string& call, Comm& comm)
      REQUIRES_LOCK(mutex_);
  // Blocks until it is aborted.
  NcclResult wait_for_abort(Comm& comm) REQUIRES_LOCK(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  // All that there were.
  std::vector<std::unique_ptr<Comm>> comms_ GUARDED_BY(mutex_);
  std::map<std::string, std::deque<NcclResult>> results_ GUARDED_BY(mutex_);
  std::map<std::string, NcclResult> forever_ GUARDED_BY(mutex_);
  std::set<std::string> hanging_ GUARDED_BY(mutex_);
  std::function<void(const void*, void*, size_t, cudaStream_t)> work_
      GUARDED_BY(mutex_);
  std::vector<std::string> log_ GUARDED_BY(mutex_);
  std::vector<std::string> misuses_ GUARDED_BY(mutex_);
  std::map<std::thread::id, int> looks_of_threads_ GUARDED_BY(mutex_);
};

}  // namespace ferry
