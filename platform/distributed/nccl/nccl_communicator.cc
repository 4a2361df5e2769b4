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
// NCCL tells nobody when something has happened; who waits for it looks again.
constexpr std::chrono::milliseconds kInitInterval{1};
constexpr std::chrono::milliseconds kWatchInterval{10};

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
  config.blocking = 0;
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
  const Deadline deadline(options_.join_timeout);
  const NcclResult result =
      api_.comm_init_rank_config(&comm_, size_, id, rank_, config);
  return settle(result, deadline,
                absl::StrCat("joining as rank ", rank_, " of ", size_));
}

NcclCommunicator::~NcclCommunicator() {
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (watchdog_.joinable()) watchdog_.join();
  leave();
}

void NcclCommunicator::leave() {
  MutexLock lock(&mutex_);
  if (comm_ == nullptr) return;
  if (absl::Status status = device_.use(); !status.ok()) (void)fail(status);
  if (error_.ok()) {
    // The others may still need what this rank sent.
    const Deadline deadline(options_.join_timeout);
    if (settle(api_.comm_finalize(comm_), deadline, "leaving").ok()) {
      const NcclResult result = api_.comm_destroy(comm_);
      if (result != NcclResult::kSuccess) {
        log_warning("NCCL",
                    {{"error", error_of(result, "leaving").ToString()}});
      }
      return;
    }
  }
  (void)api_.comm_abort(comm_);
}

absl::Status NcclCommunicator::all_gather(Stream stream, const void* in,
                                          void* out, int64_t bytes) {
  RETURN_IF_ERROR(check_gather_size(bytes, size_));
  RETURN_IF_ERROR(device_.use());
  MutexLock lock(&mutex_);
  while (error_.ok() && next_ - first_ == kMaxInFlight) {
    changed_.wait(&mutex_);
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
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status NcclCommunicator::launch(Flight& flight, Stream stream,
                                      const void* in, void* out) {
  ASSIGN_OR_RETURN(const cudaStream_t handle, device_.handle(stream));
  RETURN_IF_ERROR(device_.record(flight.before, stream));
  const NcclResult result =
      api_.all_gather(in, out, static_cast<size_t>(flight.bytes),
                      NcclDataType::kInt8, comm_, handle);
  RETURN_IF_ERROR(
      settle(result, Deadline(options_.timeout),
             absl::StrCat("all_gather of ", flight.bytes, " bytes")));
  return device_.record(flight.after, stream);
}

absl::Status NcclCommunicator::settle(NcclResult result,
                                      const Deadline& deadline,
                                      absl::string_view what) {
  while (result == NcclResult::kInProgress) {
    RETURN_IF_ERROR(error_);
    if (deadline.has_passed()) {
      return fail(absl::DeadlineExceededError(
          absl::StrCat("NCCL: ", what, " did not end within ",
                       absl::FormatDuration(deadline.timeout()))));
    }
    changed_.wait_for(&mutex_, kInitInterval);
    RETURN_IF_ERROR(error_);
    const NcclResult asked = api_.comm_get_async_error(comm_, &result);
    if (asked != NcclResult::kSuccess) result = asked;
  }
  if (result == NcclResult::kSuccess) return absl::OkStatus();
  return fail(error_of(result, what));
}

void NcclCommunicator::abort(absl::string_view reason) {
  MutexLock lock(&mutex_);
  (void)fail(absl::UnavailableError(
      absl::StrCat("rank ", rank_, " aborted: ", reason)));
}

absl::Status NcclCommunicator::status() {
  MutexLock lock(&mutex_);
  look();
  return error_;
}

void NcclCommunicator::watch() {
  if (absl::Status status = device_.use(); !status.ok()) {
    MutexLock lock(&mutex_);
    (void)fail(status);
  }
  MutexLock lock(&mutex_);
  while (!is_stopping_) {
    if (!error_.ok() && comm_ != nullptr) {
      NcclComm const comm = std::exchange(comm_, nullptr);
      NcclResult result = NcclResult::kSuccess;
      {
        MutexUnlock unlock(&mutex_);
        // Takes as long as kernels need to notice.
        result = api_.comm_abort(comm);
      }
      if (result != NcclResult::kSuccess) {
        log_warning("NCCL was not aborted in order",
                    {{"error", api_.get_error_string(result)}});
      }
    } else if (!error_.ok() || first_ == next_) {
      changed_.wait(&mutex_);
    } else {
      changed_.wait_for(&mutex_, kWatchInterval);
      look();
    }
  }
}

void NcclCommunicator::look() {
  if (!error_.ok() || comm_ == nullptr) return;
  NcclResult result = NcclResult::kSuccess;
  const NcclResult asked = api_.comm_get_async_error(comm_, &result);
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
                   api_.get_last_error(comm_));
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
