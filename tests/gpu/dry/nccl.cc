// NCCL 2.28, as Ferry calls it. Communicators that do not block work as there:
// a call, or a group of calls, starts a job on a thread of its own and answers
// ncclInProgress; the job gives the kernels to their streams; until it has
// ended, ncclCommGetAsyncError says ncclInProgress and the communicator may not
// be used. Without NCCL's header: what is the same in every version is
// written out in nccl_abi.h of the product.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/base/mutex.h"
#include "platform/distributed/nccl/nccl_abi.h"
#include "tests/gpu/dry/gather_group.h"
#include "tests/gpu/dry/machine.h"

namespace ferry::dry {
namespace {

using Result = NcclResult;

constexpr std::chrono::microseconds kPollInterval{50};

// A communicator of one rank. What streams hold of it outlives its handle.
struct Communicator {
  std::shared_ptr<GatherGroup> group;
  int device = 0;
  bool is_blocking = false;
  std::atomic<bool> is_aborted{false};
  // Gathers that stand in streams.
  std::atomic<int> under_way{0};
  std::atomic<Result> error{Result::kSuccess};
  int64_t next_gather = 0;

  Mutex mutex;
  CondVar changed;
  bool has_job GUARDED_BY(mutex) = false;
  std::thread job GUARDED_BY(mutex);
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

struct Gather {
  CommunicatorPtr communicator;
  const char* in = nullptr;  // For the host.
  char* out = nullptr;
  size_t bytes = 0;
  cudaStream_t stream = nullptr;
  FaultPlan::Fault fault;
};

// Waits until `is_true`, or until the communicator is aborted.
template <typename Condition>
void poll(Communicator& communicator, const Condition& is_true) {
  MutexLock lock(&communicator.mutex);
  while (!is_true() && !communicator.is_aborted) {
    communicator.changed.wait_for(&communicator.mutex, kPollInterval);
  }
}

// --- Handles

class Communicators {
 public:
  void add(NcclComm handle, CommunicatorPtr communicator)
      EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    all_[handle] = std::move(communicator);
  }
  CommunicatorPtr find(NcclComm handle, const char* call)
      EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(&mutex_);
      const auto found = all_.find(handle);
      if (found != all_.end()) return found->second;
    }
    machine().report.broke("communicator_unknown", call, "");
    return nullptr;
  }
  void remove(NcclComm handle) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    all_.erase(handle);
  }

 private:
  Mutex mutex_;
  std::map<NcclComm, CommunicatorPtr> all_ GUARDED_BY(mutex_);
};

Communicators& communicators() {
  static Communicators* const kCommunicators = new Communicators;
  return *kCommunicators;
}

// Ends a job that has nothing to do any more, or is aborted.
void join_job(Communicator& communicator) {
  std::thread job;
  {
    MutexLock lock(&communicator.mutex);
    job = std::move(communicator.job);
  }
  if (job.joinable()) job.join();
}

Result state_of(Communicator& communicator) {
  const Result error = communicator.error;
  if (error != Result::kSuccess) return error;
  MutexLock lock(&communicator.mutex);
  return communicator.has_job ? Result::kInProgress : Result::kSuccess;
}

// As ncclCommEnsureReady: what a call on the communicator answers at once.
Result ready(const char* call, Communicator& communicator) {
  const Result state = state_of(communicator);
  if (state == Result::kInProgress) {
    machine().report.broke("communicator_in_progress", call,
                           "used before its previous operation had ended");
    return Result::kInvalidArgument;
  }
  if (state == Result::kSuccess) join_job(communicator);
  return state;
}

// Runs `job`, on a thread where the communicator does not block.
Result start(const CommunicatorPtr& communicator, std::function<Result()> job) {
  const auto run = [communicator, job = std::move(job)] {
    this_thread().device = communicator->device;
    this_thread().has_set_device = true;
    const Result result = job();
    if (result != Result::kSuccess) communicator->error = result;
    MutexLock lock(&communicator->mutex);
    communicator->has_job = false;
    communicator->changed.notify_all();
    return result;
  };
  {
    MutexLock lock(&communicator->mutex);
    communicator->has_job = true;
  }
  if (communicator->is_blocking) {
    const Thread before = this_thread();
    const Result result = run();
    this_thread() = before;
    return result;
  }
  MutexLock lock(&communicator->mutex);
  communicator->job = std::thread([run] { (void)run(); });
  return Result::kInProgress;
}

// --- Gathers

// Whether the kernel may end. Asked by its device's thread.
bool may_end(const Gather& gather, int64_t number) {
  Communicator& communicator = *gather.communicator;
  if (communicator.is_aborted) return true;
  using Kind = FaultPlan::Fault::Kind;
  if (gather.fault.kind == Kind::kRemote) {
    communicator.error = static_cast<Result>(gather.fault.error);
  }
  if (gather.fault.kind == Kind::kHang || gather.fault.kind == Kind::kRemote) {
    return false;
  }
  return gather.fault.kind == Kind::kLate ||
         communicator.group->all_have_published(number);
}

void end(const Gather& gather, int64_t number) {
  Communicator& communicator = *gather.communicator;
  if (gather.fault.kind == FaultPlan::Fault::Kind::kLate) {
    communicator.error = static_cast<Result>(gather.fault.error);
  } else if (!communicator.is_aborted) {
    // Stale bytes stay where a rank has left, as with NCCL.
    (void)communicator.group->collect(number, gather.out, gather.bytes);
  }
  --communicator.under_way;
}

void give(const Gather& gather) {
  Communicator& communicator = *gather.communicator;
  Streams& streams = machine().streams;
  const int64_t number = communicator.next_gather++;
  ++communicator.under_way;
  if (gather.fault.kind == FaultPlan::Fault::Kind::kNone) {
    Streams::Work first;
    first.run = [gather, number] {
      gather.communicator->group->publish(number, gather.in, gather.bytes);
    };
    streams.give(gather.stream, communicator.device, std::move(first));
  }
  Streams::Work second;
  second.is_ready = [gather, number] { return may_end(gather, number); };
  second.run = [gather, number] { end(gather, number); };
  streams.give(gather.stream, communicator.device, std::move(second));
  machine().report.count("gathers");
}

// The gathers of one communicator in one group call.
Result launch_gathers(const CommunicatorPtr& communicator,
                      std::vector<Gather> gathers) {
  return start(communicator, [communicator, gathers = std::move(gathers)] {
    if (!communicator->is_blocking) {
      const auto begin = std::chrono::steady_clock::now();
      const std::chrono::microseconds length(machine().options.nccl_job_us);
      poll(*communicator,
           [&] { return std::chrono::steady_clock::now() - begin >= length; });
    }
    if (communicator->is_aborted) return Result::kSuccess;
    for (const Gather& gather : gathers) {
      const int of =
          machine().streams.device_of(gather.stream, communicator->device);
      if (of != communicator->device) {
        machine().report.broke(
            of < 0 ? "stream_unknown" : "gather_on_other_device",
            "ncclAllGather",
            "a communicator of device " + std::to_string(communicator->device) +
                ", a stream of device " + std::to_string(of));
        return Result::kUnhandledCudaError;
      }
      give(gather);
    }
    return Result::kSuccess;
  });
}

struct GroupCall {
  int depth = 0;
  std::vector<Gather> gathers;
};

GroupCall& this_group_call() {
  thread_local GroupCall group_call;
  return group_call;
}

Result end_group_call() {
  GroupCall& group_call = this_group_call();
  if (group_call.depth == 0) {
    machine().report.broke("group_end_without_start", "ncclGroupEnd", "");
    return Result::kInvalidUsage;
  }
  if (--group_call.depth > 0) return Result::kSuccess;
  std::map<CommunicatorPtr, std::vector<Gather>> by_communicator;
  for (Gather& gather : std::exchange(group_call.gathers, {})) {
    by_communicator[gather.communicator].push_back(gather);
  }
  Result all = Result::kSuccess;
  for (auto& [communicator, gathers] : by_communicator) {
    const Result result = launch_gathers(communicator, std::move(gathers));
    if (result != Result::kSuccess) all = result;
  }
  return all;
}

// ncclDataType_t's sizes.
size_t size_of(int type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? kSizes[type] : 0;
}

// The host's view of device memory of `device`; null when it is none.
char* device_bytes(const void* data, size_t bytes, int device) {
  const DeviceMemory::Place place = machine().device_memory.find(data);
  if (place.device == device && place.room >= bytes && place.room > 0) {
    return place.bytes;
  }
  machine().report.broke("device_memory_unknown", "ncclAllGather",
                         std::to_string(bytes) + " bytes, not all of device " +
                             std::to_string(device));
  return nullptr;
}

Result make_gather(const CommunicatorPtr& communicator, const void* in,
                   void* out, size_t bytes, cudaStream_t stream,
                   Gather* gather) {
  const GatherGroup& group = *communicator->group;
  const auto size = static_cast<size_t>(group.size());
  gather->communicator = communicator;
  gather->in = device_bytes(in, bytes, communicator->device);
  gather->out = device_bytes(out, size * bytes, communicator->device);
  gather->bytes = bytes;
  gather->stream = stream;
  if (gather->in == nullptr || gather->out == nullptr) {
    return Result::kInvalidArgument;
  }
  const char* const own =
      gather->out + static_cast<size_t>(group.rank()) * bytes;
  const bool overlaps = gather->in < gather->out + size * bytes &&
                        gather->out < gather->in + bytes;
  if (overlaps && gather->in != own) {
    machine().report.broke("gather_overlap", "ncclAllGather",
                           "the input is in the output, and not in its place");
    return Result::kInvalidArgument;
  }
  return Result::kSuccess;
}

Result all_gather(const void* in, void* out, size_t count, int type,
                  NcclComm handle, cudaStream_t stream) {
  constexpr char kName[] = "ncclAllGather";
  machine().report.count(kName);
  const CommunicatorPtr communicator = communicators().find(handle, kName);
  if (communicator == nullptr) return Result::kInvalidArgument;
  const Result state = ready(kName, *communicator);
  if (state != Result::kSuccess) return state;
  Gather gather;
  const Result made = make_gather(communicator, in, out, count * size_of(type),
                                  stream, &gather);
  if (made != Result::kSuccess) return made;
  gather.fault = machine().faults.next(kName, communicator->device);
  if (gather.fault.kind == FaultPlan::Fault::Kind::kError) {
    return static_cast<Result>(gather.fault.error);
  }
  ++this_group_call().depth;
  this_group_call().gathers.push_back(gather);
  return end_group_call();
}

// --- Communicators' lives

Result initialize(const CommunicatorPtr& communicator, const std::string& id,
                  int rank, int size) {
  if (machine().contexts.use(communicator->device, "ncclCommInitRank") !=
      cudaSuccess) {
    return Result::kUnhandledCudaError;
  }
  communicator->group = GatherGroup::join(id, rank, size, communicator->device);
  if (communicator->group == nullptr) return Result::kSystemError;
  poll(*communicator, [&] { return communicator->group->all_have_joined(); });
  if (communicator->is_aborted) return Result::kSuccess;
  if (communicator->group->has_duplicate_device()) {
    machine().report.broke("device_of_two_ranks", "ncclCommInitRank", "");
    return Result::kInvalidUsage;
  }
  return Result::kSuccess;
}

Result init_rank(NcclComm* handle, int size, const NcclUniqueId& id, int rank,
                 const NcclConfig* config) {
  constexpr char kName[] = "ncclCommInitRank";
  if (config != nullptr && (config->magic != NcclConfig::kMagic ||
                            config->size < offsetof(NcclConfig, blocking))) {
    machine().report.broke("config_not_initialized", kName, "");
    return Result::kInvalidArgument;
  }
  if (size < 1 || size > GatherGroup::kMaxRanks || rank < 0 || rank >= size) {
    machine().report.broke("rank_out_of_range", kName, std::to_string(rank));
    return Result::kInvalidArgument;
  }
  auto communicator = std::make_shared<Communicator>();
  communicator->device = this_thread().device;
  communicator->is_blocking = config == nullptr || config->blocking != 0;
  *handle = reinterpret_cast<NcclComm>(communicator.get());
  communicators().add(*handle, communicator);
  return start(communicator,
               [communicator, rank, size,
                key = std::string(id.bytes, ::strnlen(id.bytes, 128))] {
                 return initialize(communicator, key, rank, size);
               });
}

// Waits for what stands in streams.
void drain(Communicator& communicator) {
  poll(communicator, [&] { return communicator.under_way == 0; });
}

Result finalize(NcclComm handle) {
  const CommunicatorPtr communicator =
      communicators().find(handle, "ncclCommFinalize");
  if (communicator == nullptr) return Result::kInvalidArgument;
  const Result state = ready("ncclCommFinalize", *communicator);
  if (state != Result::kSuccess) return state;
  return start(communicator, [communicator] {
    drain(*communicator);
    return Result::kSuccess;
  });
}

Result destroy(NcclComm handle) {
  const CommunicatorPtr communicator =
      communicators().find(handle, "ncclCommDestroy");
  if (communicator == nullptr) return Result::kInvalidArgument;
  join_job(*communicator);
  drain(*communicator);
  if (communicator->group != nullptr) communicator->group->leave();
  communicators().remove(handle);
  return Result::kSuccess;
}

// Ends jobs and kernels, whatever they wait for.
Result abort(NcclComm handle) {
  const CommunicatorPtr communicator =
      communicators().find(handle, "ncclCommAbort");
  if (communicator == nullptr) return Result::kInvalidArgument;
  {
    MutexLock lock(&communicator->mutex);
    communicator->is_aborted = true;
    communicator->changed.notify_all();
  }
  machine().streams.look_again();
  join_job(*communicator);
  if (communicator->group != nullptr) communicator->group->leave();
  communicators().remove(handle);
  return Result::kSuccess;
}

}  // namespace
}  // namespace ferry::dry

using namespace ferry::dry;  // NOLINT: what follows is NCCL's interface.
using ferry::NcclComm;
using ferry::NcclConfig;
using ferry::NcclResult;
using ferry::NcclUniqueId;

extern "C" {

NcclResult ncclGetVersion(int* version) {
  *version = 22809;
  return NcclResult::kSuccess;
}

NcclResult ncclGetUniqueId(NcclUniqueId* id) {
  const std::string text = GatherGroup::make_id();
  *id = {};
  std::memcpy(id->bytes, text.data(), text.size());
  return text.empty() ? NcclResult::kSystemError : NcclResult::kSuccess;
}

NcclResult ncclCommInitRankConfig(NcclComm* comm, int size, NcclUniqueId id,
                                  int rank, NcclConfig* config) {
  return init_rank(comm, size, id, rank, config);
}

NcclResult ncclCommInitRank(NcclComm* comm, int size, NcclUniqueId id,
                            int rank) {
  return init_rank(comm, size, id, rank, nullptr);
}

NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* result) {
  const CommunicatorPtr found =
      communicators().find(comm, "ncclCommGetAsyncError");
  if (found == nullptr) return NcclResult::kInvalidArgument;
  *result = state_of(*found);
  return NcclResult::kSuccess;
}

NcclResult ncclCommFinalize(NcclComm comm) { return finalize(comm); }
NcclResult ncclCommDestroy(NcclComm comm) { return destroy(comm); }
NcclResult ncclCommAbort(NcclComm comm) { return abort(comm); }

NcclResult ncclGroupStart() {
  ++this_group_call().depth;
  return NcclResult::kSuccess;
}

NcclResult ncclGroupEnd() { return end_group_call(); }

NcclResult ncclAllGather(const void* in, void* out, size_t count, int type,
                         NcclComm comm, cudaStream_t stream) {
  return all_gather(in, out, count, type, comm, stream);
}

const char* ncclGetErrorString(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess:
      return "no error";
    case NcclResult::kUnhandledCudaError:
      return "unhandled cuda error";
    case NcclResult::kSystemError:
      return "unhandled system error";
    case NcclResult::kInternalError:
      return "internal error";
    case NcclResult::kInvalidArgument:
      return "invalid argument";
    case NcclResult::kInvalidUsage:
      return "invalid usage";
    case NcclResult::kRemoteError:
      return "remote process exited or there was a network error";
    case NcclResult::kInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(NcclComm /*comm*/) { return ""; }

}  // extern "C"
