#include "platform/distributed/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/clock.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/gather_size.h"

namespace ferry {
namespace {

constexpr char kIdKey[] = "nccl/id";
// NCCL tells nobody when something has happened; who waits for it looks again:
// at once, so many times, and then after an interval.
constexpr int kBusyLooks = 1000;
constexpr std::chrono::milliseconds kLookInterval{1};
constexpr std::chrono::milliseconds kWatchInterval{10};
// A call that does not hang returns meanwhile, and is not aborted under way.
constexpr absl::Duration kGrace = absl::Milliseconds(100);

std::string describe(const char* what, int64_t bytes) {
  return bytes == 0 ? what : absl::StrCat(what, " of ", bytes, " bytes");
}

absl::StatusOr<NcclConfig> make_config(NcclApi& api,
                                       const NcclOptions& options) {
  int version = 0;
  if (api.get_version(&version) != NcclResult::kSuccess ||
      version < NcclConfig::kVersion14) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL is of version ", version, "; it must be ",
                     NcclConfig::kVersion14, " (2.14) or later"));
  }
  NcclConfig config = {};
  config.magic = NcclConfig::kMagic;
  config.blocking = 1;
  // Not set.
  config.cga_cluster_size = INT_MIN;
  config.min_ctas = INT_MIN;
  config.max_ctas = options.max_ctas > 0 ? options.max_ctas : INT_MIN;
  if (version >= NcclConfig::kVersion17) {
    config.size = sizeof(NcclConfig);
    config.version = NcclConfig::kVersion17;
  } else {
    // What 2.14 knew, and its padding.
    config.size = 24;
    config.version = NcclConfig::kVersion14;
  }
  return config;
}

// Rank 0 makes the group's id, and tells it to the others.
absl::StatusOr<NcclUniqueId> agree_on_id(NcclApi& api, Store& store, int rank,
                                         absl::Duration timeout) {
  NcclUniqueId id = {};
  if (rank == 0) {
    const NcclResult result = api.get_unique_id(&id);
    if (result != NcclResult::kSuccess) {
      return absl::InternalError(absl::StrCat(
          "NCCL makes no id for the group: ", api.get_error_string(result)));
    }
    RETURN_IF_ERROR(
        store.set(kIdKey, absl::string_view(id.bytes, sizeof id.bytes)));
    return id;
  }
  ASSIGN_OR_RETURN(const std::string bytes, store.get(kIdKey, timeout));
  if (bytes.size() != sizeof id.bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("store: ", kIdKey, " has ", bytes.size(),
                     " bytes; an id of NCCL has ", sizeof id.bytes));
  }
  std::memcpy(id.bytes, bytes.data(), bytes.size());
  return id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::join(
    NcclApi& api, CudaDevice& device, Store& store, int rank, int size,
    const NcclOptions& options) {
  FERRY_CHECK_LE(0, rank);
  FERRY_CHECK_LT(rank, size);
  RETURN_IF_ERROR(device.use());
  ASSIGN_OR_RETURN(NcclConfig config, make_config(api, options));
  ASSIGN_OR_RETURN(const NcclUniqueId id,
                   agree_on_id(api, store, rank, options.join_timeout));
  std::unique_ptr<NcclCommunicator> communicator(
      new NcclCommunicator(api, device, rank, size, options));
  RETURN_IF_ERROR(communicator->initialize(id, &config));
  return communicator;
}

NcclCommunicator::NcclCommunicator(NcclApi& api, CudaDevice& device, int rank,
                                   int size, const NcclOptions& options)
    : api_(api), device_(device), rank_(rank), size_(size), options_(options) {}

absl::Status NcclCommunicator::initialize(const NcclUniqueId& id,
                                          NcclConfig* config) {
  MutexLock lock(&mutex_);
  for (Flight& flight : flights_) {
    ASSIGN_OR_RETURN(flight.before, device_.create_event(false));
    ASSIGN_OR_RETURN(flight.after, device_.create_event(false));
  }
  try {
    watchdog_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("NCCL: no thread for the watchdog: ", error.what()));
  }
  absl::Status joined = make_call("joining", 0, options_.join_timeout, [&]() {
    return api_.comm_init_rank_config(&comm_, size_, id, rank_, config);
  });
  has_joined_ = joined.ok();
  if (joined.ok()) return joined;
  return absl::Status(
      joined.code(),
      absl::StrCat(joined.message(), " (as rank ", rank_, " of ", size_, ")"));
}

NcclCommunicator::~NcclCommunicator() {
  leave();
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (watchdog_.joinable()) watchdog_.join();
  MutexLock lock(&mutex_);
  if (!is_gone_ && comm() != nullptr) abort_now();
}

void NcclCommunicator::leave() {
  const absl::Status usable = device_.use();
  MutexLock lock(&mutex_);
  if (!usable.ok()) (void)fail(usable);
  if (!error_.ok() || comm() == nullptr) return;
  // The others may still need what this rank sent.
  if (!make_call("leaving", 0, options_.join_timeout, [this] {
         return api_.comm_finalize(comm());
       }).ok()) {
    return;
  }
  // The call frees it: the watchdog must not ask it, nor abort it, from here
  // on. All is done, so that nothing is waited for.
  is_gone_ = true;
  NcclResult result = NcclResult::kSuccess;
  {
    MutexUnlock unlock(&mutex_);
    result = api_.comm_destroy(comm());
  }
  if (result != NcclResult::kSuccess) {
    log_warning("NCCL", {{"error", error_of(result, "leaving").ToString()}});
  }
}

absl::Status NcclCommunicator::all_gather(Stream stream, const void* in,
                                          void* out, int64_t bytes) {
  RETURN_IF_ERROR(check_gather_size(bytes, size_));
  RETURN_IF_ERROR(device_.use());
  MutexLock lock(&mutex_);
  while (error_.ok() && next_ - first_ == kMaxInFlight) {
    look();
    if (next_ - first_ < kMaxInFlight) break;
    changed_.wait_for(&mutex_, kLookInterval);
  }
  RETURN_IF_ERROR(error_);
  Flight& flight = flights_[next_ % kMaxInFlight];
  flight.bytes = bytes;
  flight.has_started = false;
  if (options_.recorder != nullptr) {
    flight.number = options_.recorder->enqueue("all_gather", bytes);
  }
  absl::Status status = launch(flight, stream, in, out);
  if (!status.ok()) {
    finish(flight, status);
    return fail(status);
  }
  ++next_;
  return absl::OkStatus();
}

absl::Status NcclCommunicator::launch(Flight& flight, Stream stream,
                                      const void* in, void* out) {
  ASSIGN_OR_RETURN(const cudaStream_t handle, device_.handle(stream));
  RETURN_IF_ERROR(device_.record(flight.before, stream));
  RETURN_IF_ERROR(make_call("all_gather", flight.bytes, options_.timeout, [&] {
    return api_.all_gather(in, out, static_cast<size_t>(flight.bytes),
                           NcclDataType::kInt8, comm(), handle);
  }));
  return device_.record(flight.after, stream);
}

template <typename Call>
absl::Status NcclCommunicator::make_call(const char* what, int64_t bytes,
                                         absl::Duration timeout, Call call) {
  RETURN_IF_ERROR(error_);
  call_.emplace(PendingCall{what, bytes, Deadline(timeout)});
  // One that looks anyway will see it.
  if (is_idle_) changed_.notify_all();
  NcclResult result = NcclResult::kSuccess;
  {
    MutexUnlock unlock(&mutex_);
    result = call();
  }
  result = settle(result);
  call_.reset();
  // Why it failed, if the watchdog made it do so.
  RETURN_IF_ERROR(error_);
  if (result == NcclResult::kSuccess) return absl::OkStatus();
  return fail(error_of(result, describe(what, bytes)));
}

// NCCL makes a communicator that does not block if its own environment says so.
NcclResult NcclCommunicator::settle(NcclResult result) {
  for (int looks = 0; result == NcclResult::kInProgress && error_.ok();
       ++looks) {
    if (looks >= kBusyLooks) changed_.wait_for(&mutex_, kLookInterval);
    if (is_gone_) break;
    const NcclResult asked = api_.comm_get_async_error(comm(), &result);
    if (asked != NcclResult::kSuccess) result = asked;
  }
  return result;
}

void NcclCommunicator::abort(absl::string_view reason) {
  MutexLock lock(&mutex_);
  (void)fail(absl::UnavailableError(
      absl::StrCat("rank ", rank_, " aborted: ", reason)));
}

absl::Status NcclCommunicator::status() {
  const absl::Status usable = device_.use();
  MutexLock lock(&mutex_);
  if (!usable.ok()) (void)fail(usable);
  look();
  return error_;
}

void NcclCommunicator::watch() {
  const absl::Status usable = device_.use();
  MutexLock lock(&mutex_);
  if (!usable.ok()) (void)fail(usable);
  while (!is_stopping_) watch_once();
}

void NcclCommunicator::watch_once() {
  if (!error_.ok() && !is_gone_ && comm() != nullptr) {
    if (!call_ || Clock::real().monotonic() >= abort_at_) return abort_now();
    changed_.wait_for(&mutex_, kLookInterval);
    return;
  }
  const bool has_work = first_ != next_ || call_.has_value();
  if (!has_work || is_gone_) {
    is_idle_ = true;
    changed_.wait(&mutex_);
    is_idle_ = false;
    return;
  }
  changed_.wait_for(&mutex_, kWatchInterval);
  look();
}

// Also where this rank hangs in a call: NCCL lets that return.
void NcclCommunicator::abort_now() {
  is_gone_ = true;
  NcclResult result = NcclResult::kSuccess;
  {
    MutexUnlock unlock(&mutex_);
    // Takes as long as kernels need to notice.
    result = api_.comm_abort(comm());
  }
  if (result != NcclResult::kSuccess) {
    log_warning("NCCL was not aborted in order",
                {{"error", api_.get_error_string(result)}});
  }
}

void NcclCommunicator::look() {
  if (!error_.ok() || is_gone_) return;
  if (call_ && call_->deadline.has_passed()) {
    (void)fail(absl::DeadlineExceededError(
        absl::StrCat("NCCL: ", describe(call_->what, call_->bytes),
                     " did not return within ",
                     absl::FormatDuration(call_->deadline.timeout()))));
    return;
  }
  if (has_joined_) look_at_flights();
}

void NcclCommunicator::look_at_flights() {
  NcclResult result = NcclResult::kSuccess;
  const NcclResult asked = api_.comm_get_async_error(comm(), &result);
  if (asked != NcclResult::kSuccess) result = asked;
  if (result != NcclResult::kSuccess && result != NcclResult::kInProgress) {
    (void)fail(error_of(result, "work that was under way"));
    return;
  }
  while (first_ != next_) {
    bool has_ended = false;
    const absl::Status status =
        look_at(flights_[first_ % kMaxInFlight], &has_ended);
    if (!status.ok()) {
      (void)fail(status);
      return;
    }
    if (!has_ended) return;
    finish(flights_[first_ % kMaxInFlight], absl::OkStatus());
    ++first_;
    changed_.notify_all();
  }
}

absl::Status NcclCommunicator::look_at(Flight& flight, bool* has_ended) {
  ASSIGN_OR_RETURN(*has_ended, device_.query(flight.after));
  if (*has_ended) return absl::OkStatus();
  const absl::Duration now = Clock::real().monotonic();
  if (!flight.has_started) {
    ASSIGN_OR_RETURN(flight.has_started, device_.query(flight.before));
    if (!flight.has_started) return absl::OkStatus();
    flight.started = now;
    if (options_.recorder != nullptr) options_.recorder->start(flight.number);
  }
  if (now - flight.started < options_.timeout) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "NCCL: all_gather of ", flight.bytes, " bytes did not end within ",
      absl::FormatDuration(options_.timeout)));
}

absl::Status NcclCommunicator::fail(const absl::Status& error) {
  if (!error_.ok()) return error_;
  error_ = error;
  abort_at_ = Clock::real().monotonic() + kGrace;
  changed_.notify_all();
  for (size_t i = first_; i != next_; ++i) {
    finish(flights_[i % kMaxInFlight], error);
  }
  return error_;
}

void NcclCommunicator::finish(const Flight& flight,
                              const absl::Status& status) {
  if (options_.recorder != nullptr) {
    options_.recorder->end(flight.number, status);
  }
}

absl::Status NcclCommunicator::error_of(NcclResult result,
                                        absl::string_view what) {
  const std::string message =
      absl::StrCat("NCCL: ", what, ": ", api_.get_error_string(result), ": ",
                   api_.get_last_error(is_gone_ ? nullptr : comm()));
  switch (result) {
    case NcclResult::kRemoteError:
    case NcclResult::kSystemError:
      return absl::UnavailableError(message);
    case NcclResult::kInvalidArgument:
    case NcclResult::kInvalidUsage:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace ferry
