#include "server/supervisor/worker_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "platform/base/check.h"
#include "platform/base/clock.h"
#include "platform/base/error_info.h"
#include "platform/base/random_hex.h"
#include "platform/base/status_macros.h"
#include "platform/os/host_port.h"
#include "platform/os/shared_memory.h"
#include "platform/os/tcp_socket.h"
#include "platform/os/unique_fd.h"
#include "server/core/errors.h"
#include "server/supervisor/external_worker.h"
#include "server/supervisor/own_worker.h"

namespace ferry {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
// 32 bits each.
constexpr int kIncarnationWords = 4;

// "cuda" of "cuda:1".
absl::string_view kind_of(absl::string_view device) {
  return device.substr(0, device.find(':'));
}

}  // namespace

WorkerGroup::WorkerGroup(const WorkerSettings& settings, int64_t generation,
                         ProcessSpawner& spawner, LogDrain& drain)
    : settings_(settings),
      generation_(generation),
      spawner_(spawner),
      drain_(drain),
      waves_([this](int64_t wave) {
        for (const auto& process : processes_) process->start_wave(wave);
      }),
      connections_{generation, {}} {
  FERRY_CHECK_GE(settings_.ranks, 1);
  FERRY_CHECK_LT(settings_.external_ranks, settings_.ranks);
  FERRY_CHECK(settings_.external_ranks == 0 || settings_.gate != nullptr);
  loaded_.resize(static_cast<size_t>(settings.ranks));
  connections_.ranks.resize(static_cast<size_t>(settings.ranks));
}

WorkerGroup::~WorkerGroup() { end(); }

absl::Status WorkerGroup::load() {
  {
    MutexLock lock(&mutex_);
    FERRY_CHECK_EQ(state_, WorkerState::kStarting);
  }
  const absl::Status started = start_processes();
  if (started.ok()) {
    load_all();
  } else {
    MutexLock lock(&mutex_);
    fail_locked(worker_lost(settings_.pipeline, started.message()));
  }
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(result_locked());
  if (absl::Status devices = check_devices_locked(); !devices.ok()) {
    load_error_reported_ = true;
    fail_locked(devices);
    return devices;
  }
  for (const auto& process : processes_) {
    // What ranks tried as they loaded they may have given up.
    process->rank()->set_makes_passes_with_others(false);
    ranks_.push_back(process->rank());
  }
  set_state_locked(WorkerState::kReady);
  return absl::OkStatus();
}

absl::Status WorkerGroup::start_processes() {
  // First, since it may take long: nothing else holds a device meanwhile.
  ASSIGN_OR_RETURN(const WorkerGate::Connections external, take_external());
  UniqueFd store;
  // The ranks alone keep it, so that it ends with the last of them. Those of
  // other hosts could not inherit it.
  UniqueFd images;
  if (settings_.ranks > 1) {
    ASSIGN_OR_RETURN(store, make_rendezvous(external));
    if (external.empty()) {
      ASSIGN_OR_RETURN(images, make_shared_memory("ferry-host"));
    }
  }
  for (int rank = 0; rank < settings_.ranks - settings_.external_ranks;
       ++rank) {
    ASSIGN_OR_RETURN(
        OwnWorker::Started worker,
        OwnWorker::start(settings_, rank, generation_, spawner_, drain_,
                         {rank == 0 ? store.get() : -1, images.get()}));
    add_process(std::move(worker.link), std::move(worker.socket));
  }
  for (const auto& connection : external) {
    UniqueFd socket = connection->take_socket();
    add_process(std::make_unique<ExternalWorker>(connection),
                std::move(socket));
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkerGate::Connections> WorkerGroup::take_external() const {
  if (settings_.external_ranks == 0) return WorkerGate::Connections();
  return settings_.gate->take(settings_.pipeline, settings_.load_timeout);
}

absl::StatusOr<UniqueFd> WorkerGroup::make_rendezvous(
    const WorkerGate::Connections& external) {
  const std::string host =
      external.empty() ? kLoopback : external[0]->local_host();
  ASSIGN_OR_RETURN(UniqueFd store, bind_tcp({host, 0}));
  ASSIGN_OR_RETURN(const HostPort address, local_address(store));
  rendezvous_ = {random_hex(kIncarnationWords), address.to_string(), host};
  return store;
}

void WorkerGroup::add_process(std::unique_ptr<WorkerLink> link,
                              UniqueFd socket) {
  const int rank = static_cast<int>(processes_.size());
  processes_.push_back(std::make_unique<WorkerProcess>(
      settings_, WorkerProcess::Position{rank, generation_}, std::move(link),
      std::move(socket),
      [this, rank](const std::string& why) { on_lost(rank, why); }));
  MutexLock lock(&mutex_);
  connections_.ranks[static_cast<size_t>(rank)] = processes_.back()->rank();
}

void WorkerGroup::join_waves() {
  for (const auto& process : processes_) process->join_waves();
  for (size_t i = 0; i < processes_.size(); ++i) {
    const int rank = static_cast<int>(i);
    processes_[i]->watch_waves(
        [this, rank](int64_t last_wave) { on_wave_wanted(rank, last_wave); });
  }
}

void WorkerGroup::on_wave_wanted(int rank, int64_t last_wave) {
  const absl::Status status = waves_.wanted(last_wave);
  if (!status.ok()) on_lost(rank, std::string(status.message()));
}

void WorkerGroup::load_all() {
  {
    MutexLock lock(&mutex_);
    if (useless_locked()) return;
    set_state_locked(WorkerState::kLoading);
  }
  if (settings_.ranks > 1) join_waves();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes_.size(); ++i) {
    threads.emplace_back(
        [this, i] { on_loaded(i, processes_[i]->load(rendezvous_)); });
  }
  bool useless;
  {
    MutexLock lock(&mutex_);
    while (!useless_locked() && !all_loaded_locked()) {
      changed_.wait(&mutex_);
    }
    useless = useless_locked();
  }
  if (useless) {
    // Whoever still loads has nothing to save, and would not hear a SIGTERM.
    for (const auto& process : processes_) process->kill();
  }
  for (std::thread& thread : threads) thread.join();
}

void WorkerGroup::on_loaded(size_t rank, LoadResult result) {
  MutexLock lock(&mutex_);
  if (result.ok()) {
    loaded_[rank] = *std::move(result);
    changed_.notify_all();
    return;
  }
  const absl::Status& error = result.status();
  if (get_error_info(error).has_value()) {
    if (!useless_locked()) load_error_reported_ = true;
    fail_locked(error);
  } else if (absl::IsDeadlineExceeded(error)) {
    fail_locked(
        worker_lost(settings_.pipeline,
                    absl::StrCat("rank ", rank, " did not load within ",
                                 absl::FormatDuration(settings_.load_timeout),
                                 " (pipeline_load_timeout)")));
  } else if (!absl::IsUnavailable(error)) {
    fail_locked(
        worker_lost(settings_.pipeline,
                    absl::StrCat("rank ", rank, ": ", error.message())));
  }
  // UNAVAILABLE: the rank is gone, and on_lost() is about to say how.
}

void WorkerGroup::on_lost(int rank, const std::string& why) {
  MutexLock lock(&mutex_);
  if (!useless_locked()) lost_rank_ = rank;
  fail_locked(
      worker_lost(settings_.pipeline, absl::StrCat("rank ", rank, " ", why)));
}

void WorkerGroup::fail_locked(absl::Status failure) {
  if (useless_locked()) return;
  failure_ = std::move(failure);
  set_state_locked(WorkerState::kFailed);
}

bool WorkerGroup::useless_locked() const {
  return stop_requested_ || !failure_.ok();
}

bool WorkerGroup::all_loaded_locked() const {
  return std::all_of(loaded_.begin(), loaded_.end(),
                     [](const auto& answer) { return answer.has_value(); });
}

absl::Status WorkerGroup::check_devices_locked() const {
  const std::string& first = loaded_[0]->device();
  for (size_t i = 1; i < loaded_.size(); ++i) {
    const std::string& device = loaded_[i]->device();
    if (kind_of(device) == kind_of(first)) continue;
    return make_error(absl::StatusCode::kFailedPrecondition,
                      absl::StrCat("ranks: rank 0 has the device ", first,
                                   " and rank ", i, " ", device,
                                   "; ask for as many ranks as there are GPUs "
                                   "that work, or set --platform"),
                      {"DEVICES_DIFFER", {{"pipeline", settings_.pipeline}}});
  }
  return absl::OkStatus();
}

void WorkerGroup::set_state_locked(WorkerState state) {
  FERRY_CHECK(is_valid_transition(state_, state));
  state_ = state;
  changed_.notify_all();
}

bool WorkerGroup::load_error_reported() const {
  MutexLock lock(&mutex_);
  return load_error_reported_;
}

const std::vector<std::shared_ptr<Rank>>& WorkerGroup::ranks() const {
  // load() fills them in when it succeeds.
  FERRY_CHECK(!ranks_.empty());
  return ranks_;
}

absl::Status WorkerGroup::wait() {
  FERRY_CHECK(!ranks_.empty());
  MutexLock lock(&mutex_);
  while (!useless_locked()) changed_.wait(&mutex_);
  return result_locked();
}

absl::Status WorkerGroup::result_locked() const {
  if (!failure_.ok()) return failure_;
  if (stop_requested_) return absl::CancelledError("ferryd ends");
  return absl::OkStatus();
}

void WorkerGroup::request_stop() {
  {
    MutexLock lock(&mutex_);
    stop_requested_ = true;
    changed_.notify_all();
  }
  if (settings_.external_ranks > 0) settings_.gate->close(settings_.pipeline);
}

void WorkerGroup::end() {
  bool failed;
  {
    MutexLock lock(&mutex_);
    if (state_ == WorkerState::kStopped) return;
    failed = state_ == WorkerState::kFailed;
    if (!failed) {
      stop_requested_ = true;
      set_state_locked(WorkerState::kStopping);
    }
  }
  for (const auto& process : processes_) {
    failed ? process->kill() : process->interrupt();
  }
  const Clock& clock = Clock::real();
  const absl::Duration deadline = clock.monotonic() + settings_.stop_grace;
  for (const auto& process : processes_) {
    process->stop(failed ? absl::ZeroDuration() : deadline - clock.monotonic());
  }
  for (const auto& process : processes_) process->leave_waves();
  MutexLock lock(&mutex_);
  if (!failed) set_state_locked(WorkerState::kStopped);
}

GroupConnections WorkerGroup::connections() const {
  MutexLock lock(&mutex_);
  return connections_;
}

std::vector<std::string> WorkerGroup::last_lines() {
  int rank;
  {
    MutexLock lock(&mutex_);
    rank = lost_rank_;
  }
  if (rank < 0) return {};
  return processes_[static_cast<size_t>(rank)]->last_lines();
}

v1::Pipeline WorkerGroup::description() const {
  FERRY_CHECK(!ranks_.empty());
  MutexLock lock(&mutex_);
  v1::Pipeline description = loaded_[0]->pipeline();
  description.set_name(settings_.pipeline);
  description.set_generation(generation_);
  for (size_t i = 0; i < processes_.size(); ++i) {
    v1::Rank& rank = *description.add_ranks();
    rank.set_index(static_cast<int32_t>(i));
    rank.set_pid(processes_[i]->place().pid);
    rank.set_host(processes_[i]->place().host);
    rank.set_device(loaded_[i]->device());
  }
  return description;
}

std::vector<v1::OffloadReport> WorkerGroup::offloads() const {
  FERRY_CHECK(!ranks_.empty());
  MutexLock lock(&mutex_);
  std::vector<v1::OffloadReport> reports;
  for (const auto& loaded : loaded_) {
    reports.push_back(loaded->pipeline().offload());
  }
  return reports;
}

void WorkerGroup::set_lost(const absl::Status& error) {
  FERRY_CHECK(!ranks_.empty());
  for (const auto& process : processes_) process->rank()->set_lost(error);
}

}  // namespace ferry
