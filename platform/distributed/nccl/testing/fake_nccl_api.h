#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "platform/base/mutex.h"
#include "platform/distributed/nccl/nccl_abi.h"
#include "platform/distributed/nccl/nccl_api.h"

namespace ferry {

// NCCL of one rank, without GPUs and other ranks: it says what it is told to
// say, and remembers what it was asked.
//
// Threads: thread-safe.
class FakeNcclApi final : public NcclApi {
 public:
  // Results of the next calls of a name, as in "all_gather"; then success. For
  // "async" those that comm_get_async_error() gives.
  void push_results(const std::string& call, std::deque<NcclResult> results)
      EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    results_[call] = std::move(results);
  }
  // From now on every call of that name says so.
  void set_result(const std::string& call, NcclResult result)
      EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    forever_[call] = result;
  }
  // Called by all_gather(), without locks: the work.
  void set_work(std::function<void(const void* in, void* out, size_t bytes,
                                   cudaStream_t stream)>
                    work) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    work_ = std::move(work);
  }

  // Calls but those that ask, in their order: "comm_init_rank_config 1 of 2".
  std::vector<std::string> log() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return log_;
  }
  // Blocks until a call of that name was logged.
  void await(const std::string& call) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    while (log_.empty() || log_.back() != call) logged_.wait(&mutex_);
  }

  // To be set before it is used, or read after.
  int version = 22809;
  NcclConfig config = {};
  std::string id;

  NcclResult get_version(int* out) override {
    *out = version;
    return NcclResult::kSuccess;
  }
  NcclResult get_unique_id(NcclUniqueId* out) override {
    std::memset(out->bytes, 'i', sizeof out->bytes);
    return enter("get_unique_id", "get_unique_id");
  }
  NcclResult comm_init_rank_config(NcclComm* comm, int size,
                                   NcclUniqueId unique_id, int rank,
                                   NcclConfig* options) override {
    config = *options;
    id = std::string(unique_id.bytes, sizeof unique_id.bytes);
    *comm = reinterpret_cast<NcclComm>(this);
    return enter("comm_init_rank_config",
                 absl::StrCat("comm_init_rank_config ", rank, " of ", size));
  }
  NcclResult comm_get_async_error(NcclComm /*comm*/,
                                  NcclResult* result) override {
    *result = next("async");
    return next("comm_get_async_error");
  }
  NcclResult comm_finalize(NcclComm /*comm*/) override {
    return enter("comm_finalize", "comm_finalize");
  }
  NcclResult comm_destroy(NcclComm /*comm*/) override {
    return enter("comm_destroy", "comm_destroy");
  }
  NcclResult comm_abort(NcclComm /*comm*/) override {
    return enter("comm_abort", "comm_abort");
  }
  NcclResult all_gather(const void* in, void* out, size_t count,
                        NcclDataType type, NcclComm /*comm*/,
                        cudaStream_t stream) override EXCLUDES_LOCK(mutex_) {
    std::function<void(const void*, void*, size_t, cudaStream_t)> work;
    {
      MutexLock lock(&mutex_);
      work = work_;
    }
    if (work) work(in, out, count, stream);
    return enter("all_gather", absl::StrCat("all_gather ", count, " of type ",
                                            static_cast<int>(type)));
  }
  const char* get_error_string(NcclResult /*result*/) override {
    return "an error string";
  }
  const char* get_last_error(NcclComm /*comm*/) override {
    return "the last error";
  }

 private:
  NcclResult next(const std::string& call) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    std::deque<NcclResult>& results = results_[call];
    if (!results.empty()) {
      const NcclResult result = results.front();
      results.pop_front();
      return result;
    }
    const auto forever = forever_.find(call);
    return forever == forever_.end() ? NcclResult::kSuccess : forever->second;
  }
  NcclResult enter(const std::string& call, const std::string& line)
      EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(&mutex_);
      log_.push_back(line);
      logged_.notify_all();
    }
    return next(call);
  }

  mutable Mutex mutex_;
  CondVar logged_;
  std::map<std::string, std::deque<NcclResult>> results_ GUARDED_BY(mutex_);
  std::map<std::string, NcclResult> forever_ GUARDED_BY(mutex_);
  std::function<void(const void*, void*, size_t, cudaStream_t)> work_
      GUARDED_BY(mutex_);
  std::vector<std::string> log_ GUARDED_BY(mutex_);
};

}  // namespace ferry
