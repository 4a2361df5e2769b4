#include "platform/distributed/nccl/testing/fake_nccl_api.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ferry {

// --- Faults

void FakeNcclApi::push_results(const std::string& call,
                               std::deque<NcclResult> results) {
  MutexLock lock(&mutex_);
  results_[call] = std::move(results);
}

void FakeNcclApi::set_result(const std::string& call, NcclResult result) {
  MutexLock lock(&mutex_);
  forever_[call] = result;
}

void FakeNcclApi::hang(const std::string& call) {
  MutexLock lock(&mutex_);
  hanging_.insert(call);
}

void FakeNcclApi::set_work(
    std::function<void(const void*, void*, size_t, cudaStream_t)> work) {
  MutexLock lock(&mutex_);
  work_ = std::move(work);
}

// --- What happened

std::vector<std::string> FakeNcclApi::log() const {
  MutexLock lock(&mutex_);
  return log_;
}

void FakeNcclApi::await(const std::string& call) {
  MutexLock lock(&mutex_);
  while (log_.empty() || log_.back() != call) changed_.wait(&mutex_);
}

int FakeNcclApi::looks_of_thread() const {
  MutexLock lock(&mutex_);
  const auto found = looks_of_threads_.find(std::this_thread::get_id());
  return found == looks_of_threads_.end() ? 0 : found->second;
}

std::vector<std::string> FakeNcclApi::misuses() const {
  MutexLock lock(&mutex_);
  return misuses_;
}

NcclResult FakeNcclApi::next(const std::string& call) {
  std::deque<NcclResult>& results = results_[call];
  if (!results.empty()) {
    const NcclResult result = results.front();
    results.pop_front();
    return result;
  }
  const auto forever = forever_.find(call);
  return forever == forever_.end() ? NcclResult::kSuccess : forever->second;
}

void FakeNcclApi::note(const std::string& line) {
  log_.push_back(line);
  changed_.notify_all();
}

void FakeNcclApi::misuse(absl::string_view call, absl::string_view how) {
  misuses_.push_back(absl::StrCat(call, " ", how));
}

void FakeNcclApi::check_device(absl::string_view call, const Comm& comm) {
  if (cuda != nullptr && cuda->current_device() != comm.device) {
    misuse(call, "on a thread that has another device");
  }
}

FakeNcclApi::Comm& FakeNcclApi::comm_of(NcclComm comm) {
  return *reinterpret_cast<Comm*>(comm);
}

// --- Calls

NcclResult FakeNcclApi::get_version(int* out) {
  *out = version;
  return NcclResult::kSuccess;
}

NcclResult FakeNcclApi::get_unique_id(NcclUniqueId* out) {
  std::memset(out->bytes, 'i', sizeof out->bytes);
  MutexLock lock(&mutex_);
  note("get_unique_id");
  return next("get_unique_id");
}

NcclResult FakeNcclApi::comm_init_rank_config(NcclComm* comm, int size,
                                              NcclUniqueId unique_id, int rank,
                                              NcclConfig* options) {
  config = *options;
  id = std::string(unique_id.bytes, sizeof unique_id.bytes);
  Comm* made = nullptr;
  {
    MutexLock lock(&mutex_);
    comms_.push_back(std::make_unique<Comm>());
    made = comms_.back().get();
    made->blocks = options->blocking != 0 && !never_blocks;
    // It is made for the thread's device, which it finds by itself.
    if (cuda != nullptr) {
      if (cuda->current_device() < 0) {
        misuse("comm_init_rank_config", "on a thread without a device");
      }
      made->device = cuda->current_device();
    }
    __atomic_store_n(comm, reinterpret_cast<NcclComm>(made), __ATOMIC_RELEASE);
  }
  return start("comm_init_rank_config",
               absl::StrCat("comm_init_rank_config ", rank, " of ", size),
               *made);
}

NcclResult FakeNcclApi::comm_get_async_error(NcclComm comm,
                                             NcclResult* result) {
  MutexLock lock(&mutex_);
  Comm& state = comm_of(comm);
  ++looks_of_threads_[std::this_thread::get_id()];
  check_device("comm_get_async_error", state);
  if (state.is_gone) {
    misuse("comm_get_async_error", "of a communicator that is gone");
    return NcclResult::kInvalidArgument;
  }
  *result = next("async");
  if (state.looks_left > 0) {
    if (!state.hangs) --state.looks_left;
    if (*result == NcclResult::kSuccess) {
      *result = state.looks_left > 0 ? NcclResult::kInProgress : state.result;
    }
  }
  return next("comm_get_async_error");
}

NcclResult FakeNcclApi::comm_finalize(NcclComm comm) {
  Comm* state = nullptr;
  {
    MutexLock lock(&mutex_);
    state = &comm_of(comm);
  }
  const NcclResult result = start("comm_finalize", "comm_finalize", *state);
  MutexLock lock(&mutex_);
  state->is_finalized = true;
  return result;
}

NcclResult FakeNcclApi::comm_destroy(NcclComm comm) {
  MutexLock lock(&mutex_);
  Comm& state = comm_of(comm);
  note("comm_destroy");
  check_device("comm_destroy", state);
  if (!state.is_finalized || state.is_gone || state.looks_left > 0) {
    misuse("comm_destroy", "of a communicator that was not finalized");
  }
  state.is_gone = true;
  return next("comm_destroy");
}

NcclResult FakeNcclApi::comm_abort(NcclComm comm) {
  MutexLock lock(&mutex_);
  Comm& state = comm_of(comm);
  note("comm_abort");
  check_device("comm_abort", state);
  if (state.is_gone) misuse("comm_abort", "of a communicator that is gone");
  state.is_aborted = true;
  state.is_gone = true;
  changed_.notify_all();
  return next("comm_abort");
}

NcclResult FakeNcclApi::all_gather(const void* in, void* out, size_t count,
                                   NcclDataType type, NcclComm comm,
                                   cudaStream_t stream) {
  std::function<void(const void*, void*, size_t, cudaStream_t)> work;
  Comm* state = nullptr;
  {
    MutexLock lock(&mutex_);
    work = work_;
    state = &comm_of(comm);
    if (state->is_finalized) misuse("all_gather", "after the end");
  }
  const NcclResult result = start(
      "all_gather",
      absl::StrCat("all_gather ", count, " of type ", static_cast<int>(type)),
      *state);
  // Of a job that is in progress the stream knows nothing yet, in NCCL; nobody
  // can tell here, since it is done before it is said to be.
  if (work &&
      (result == NcclResult::kSuccess || result == NcclResult::kInProgress)) {
    work(in, out, count, stream);
  }
  return result;
}

NcclResult FakeNcclApi::start(const std::string& call, const std::string& line,
                              Comm& comm) {
  MutexLock lock(&mutex_);
  note(line);
  check_device(call, comm);
  if (comm.is_gone) {
    misuse(call, "on a communicator that is gone");
    return NcclResult::kInvalidArgument;
  }
  if (comm.looks_left > 0) {
    misuse(call, "while work was in progress");
    return NcclResult::kInvalidArgument;
  }
  if (comm.is_in_call) misuse(call, "while another thread is in a call");
  if (!comm.blocks) return start_job(call, comm);
  if (hanging_.count(call) != 0) return wait_for_abort(comm);
  return next(call);
}

NcclResult FakeNcclApi::start_job(const std::string& call, Comm& comm) {
  const NcclResult result = next(call);
  if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) {
    return result;
  }
  comm.looks_left = looks;
  comm.hangs = hanging_.count(call) != 0;
  comm.result = NcclResult::kSuccess;
  return NcclResult::kInProgress;
}

NcclResult FakeNcclApi::wait_for_abort(Comm& comm) {
  comm.is_in_call = true;
  while (!comm.is_aborted) changed_.wait(&mutex_);
  comm.is_in_call = false;
  return NcclResult::kInternalError;
}

}  // namespace ferry
