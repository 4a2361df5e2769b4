#include "platform/device/cuda/testing/fake_cuda_api.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

constexpr size_t kPageBytes = 4096;

// The entry that begins at or before `data`, if `data` lies in it. `Map` has a
// size or a Registration by address.
template <typename Map, typename Bytes>
typename Map::const_iterator find_range(const Map& map, const void* data,
                                        Bytes bytes_of) {
  auto next = map.upper_bound(const_cast<void*>(data));
  if (next == map.begin()) return map.end();
  const auto entry = std::prev(next);
  const char* const begin = static_cast<const char*>(entry->first);
  return static_cast<const char*>(data) < begin + bytes_of(entry->second)
             ? entry
             : map.end();
}

}  // namespace

FakeCudaApi::~FakeCudaApi() {
  MutexLock lock(&mutex_);
  for (const auto& [data, bytes] : device_memory_) std::free(data);
  for (const auto& [data, bytes] : host_memory_) {
    std::free(const_cast<void*>(data));
  }
}

// --- Faults and log

void FakeCudaApi::fail(absl::string_view call, int64_t nth, cudaError_t error,
                       bool sticky) {
  MutexLock lock(&mutex_);
  faults_.push_back({std::string(call), nth, error, sticky});
}

void FakeCudaApi::clear_faults() {
  MutexLock lock(&mutex_);
  faults_.clear();
  sticky_error_ = cudaSuccess;
}

void FakeCudaApi::set_observer(
    std::function<void(absl::string_view)> observer) {
  MutexLock lock(&mutex_);
  observer_ = std::move(observer);
}

cudaError_t FakeCudaApi::enter(const char* call, const std::string& details) {
  std::function<void(absl::string_view)> observer;
  {
    MutexLock lock(&mutex_);
    if (observer_) observer = observer_;
  }
  if (observer) observer(call);
  MutexLock lock(&mutex_);
  const auto counter = calls_.find(absl::string_view(call));
  if (counter == calls_.end()) {
    calls_.emplace(call, 1);
  } else {
    ++counter->second;
  }
  ++all_calls_;
  if (is_logging_) {
    log_.push_back(details.empty() ? call : absl::StrCat(call, " ", details));
  }
  cudaError_t error = cudaSuccess;
  for (Fault& fault : faults_) {
    if (!fault.call.empty() && fault.call != call) continue;
    if (--fault.remaining != 0 || error != cudaSuccess) continue;
    error = fault.error;
    if (fault.is_sticky) sticky_error_ = error;
  }
  return error == cudaSuccess ? error : failed(error);
}

cudaError_t FakeCudaApi::enter_device(const char* call,
                                      const std::string& details) {
  const cudaError_t error = enter(call, details);
  MutexLock lock(&mutex_);
  if (device_of_thread() < 0) {
    misuses_.push_back(absl::StrCat(call, " on a thread without a device"));
    make_context(0, cudaDeviceScheduleAuto);
  }
  if (sticky_error_ != cudaSuccess) return failed(sticky_error_);
  return error;
}

cudaError_t FakeCudaApi::failed(cudaError_t error) {
  last_errors_[std::this_thread::get_id()] = error;
  return error;
}

int FakeCudaApi::device_of_thread() const {
  const auto found = current_devices_.find(std::this_thread::get_id());
  return found == current_devices_.end() ? -1 : found->second;
}

void FakeCudaApi::make_context(int device, unsigned flags) {
  contexts_.emplace(device, flags);
}

void FakeCudaApi::check_wait(const char* call, bool is_blocking_event) {
  const auto context = contexts_.find(std::max(device_of_thread(), 0));
  if (is_blocking_event ||
      (context != contexts_.end() &&
       (context->second & cudaDeviceScheduleBlockingSync) != 0)) {
    return;
  }
  misuses_.push_back(absl::StrCat(call, " spins"));
}

std::vector<int> FakeCudaApi::contexts() const {
  MutexLock lock(&mutex_);
  std::vector<int> devices;
  for (const auto& [device, flags] : contexts_) devices.push_back(device);
  return devices;
}

int FakeCudaApi::current_device() const {
  MutexLock lock(&mutex_);
  return device_of_thread();
}

std::vector<std::string> FakeCudaApi::misuses() const {
  MutexLock lock(&mutex_);
  return misuses_;
}

bool FakeCudaApi::is_logging() const {
  MutexLock lock(&mutex_);
  return is_logging_;
}

int64_t FakeCudaApi::calls(absl::string_view call) const {
  MutexLock lock(&mutex_);
  const auto counter = calls_.find(call);
  return counter == calls_.end() ? 0 : counter->second;
}

int64_t FakeCudaApi::all_calls() const {
  MutexLock lock(&mutex_);
  return all_calls_;
}

void FakeCudaApi::start_log() {
  MutexLock lock(&mutex_);
  is_logging_ = true;
  log_.clear();
}

std::vector<std::string> FakeCudaApi::log() const {
  MutexLock lock(&mutex_);
  return log_;
}

int64_t FakeCudaApi::pageable_copies() const {
  MutexLock lock(&mutex_);
  return pageable_copies_;
}

size_t FakeCudaApi::registered_bytes() const {
  MutexLock lock(&mutex_);
  size_t sum = 0;
  for (const auto& [data, registration] : registered_) {
    sum += registration.bytes;
  }
  return sum;
}

void FakeCudaApi::forget_registrations() {
  MutexLock lock(&mutex_);
  registered_.clear();
}

std::string FakeCudaApi::leaks() const {
  MutexLock lock(&mutex_);
  std::string text;
  const auto tell = [&text](size_t count, absl::string_view what) {
    if (count > 0) absl::StrAppend(&text, count, " ", what, "; ");
  };
  tell(device_memory_.size(), "device allocations");
  tell(host_memory_.size(), "host allocations");
  tell(registered_.size(), "registrations");
  tell(streams_.size(), "streams");
  tell(events_.size(), "events");
  return text;
}

cudaError_t FakeCudaApi::get_last_error() {
  MutexLock lock(&mutex_);
  return std::exchange(last_errors_[std::this_thread::get_id()], cudaSuccess);
}

cudaError_t FakeCudaApi::peek_at_last_error() {
  MutexLock lock(&mutex_);
  return last_errors_[std::this_thread::get_id()];
}

const char* FakeCudaApi::get_error_name(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    default:
      return "cudaErrorFake";
  }
}

const char* FakeCudaApi::get_error_string(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "it failed";
}

// --- Devices

cudaError_t FakeCudaApi::driver_get_version(int* version) {
  if (const auto error = enter("driver_get_version")) return error;
  *version = machine_.driver_version;
  return cudaSuccess;
}

cudaError_t FakeCudaApi::runtime_get_version(int* version) {
  if (const auto error = enter("runtime_get_version")) return error;
  *version = machine_.runtime_version;
  return cudaSuccess;
}

cudaError_t FakeCudaApi::get_device_count(int* count) {
  if (const auto error = enter("get_device_count")) return error;
  MutexLock lock(&mutex_);
  if (machine_.driver_version < machine_.runtime_version) {
    return failed(cudaErrorInsufficientDriver);
  }
  if (machine_.devices == 0) return failed(cudaErrorNoDevice);
  *count = machine_.devices;
  return cudaSuccess;
}

cudaError_t FakeCudaApi::device_get_attribute(int* value,
                                              cudaDeviceAttr attribute,
                                              int /*device*/) {
  if (const auto error = enter("device_get_attribute")) return error;
  *value = attribute == cudaDevAttrHostRegisterSupported
               ? static_cast<int>(machine_.can_register)
               : static_cast<int>(machine_.can_register_read_only);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::device_get_pci_bus_id(char* id, int length,
                                               int /*device*/) {
  if (const auto error = enter("device_get_pci_bus_id")) return error;
  std::snprintf(id, static_cast<size_t>(length), "%s",
                machine_.pci_bus_id.c_str());
  return cudaSuccess;
}

cudaError_t FakeCudaApi::init_device(int device, unsigned device_flags,
                                     unsigned flags) {
  if (const auto error = enter("init_device")) return error;
  MutexLock lock(&mutex_);
  if (device >= machine_.devices) return failed(cudaErrorInvalidDevice);
  const bool counts = (flags & cudaInitDeviceFlagsAreValid) != 0;
  make_context(device, counts ? device_flags : cudaDeviceScheduleAuto);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::set_device(int device) {
  if (const auto error = enter("set_device")) return error;
  MutexLock lock(&mutex_);
  if (device >= machine_.devices) return failed(cudaErrorInvalidDevice);
  current_devices_[std::this_thread::get_id()] = device;
  make_context(device, cudaDeviceScheduleAuto);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::device_synchronize() {
  if (const auto error = enter_device("device_synchronize")) return error;
  MutexLock lock(&mutex_);
  check_wait("device_synchronize", /*is_blocking_event=*/false);
  run_all(&default_stream_);
  for (const auto& [number, stream] : streams_) run_all(stream.get());
  return cudaSuccess;
}

// --- Memory

cudaError_t FakeCudaApi::mem_get_info(size_t* free, size_t* total) {
  if (const auto error = enter_device("mem_get_info")) return error;
  MutexLock lock(&mutex_);
  size_t used = 0;
  for (const auto& [data, bytes] : device_memory_) used += bytes;
  *total = machine_.memory_bytes;
  *free = machine_.memory_bytes - used;
  return cudaSuccess;
}

cudaError_t FakeCudaApi::malloc(void** data, size_t bytes) {
  if (const auto error = enter_device("malloc", absl::StrCat(bytes)))
    return error;
  MutexLock lock(&mutex_);
  size_t used = bytes;
  for (const auto& [address, size] : device_memory_) used += size;
  if (used > machine_.memory_bytes) return failed(cudaErrorMemoryAllocation);
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xFF, bytes);
  device_memory_.emplace(*data, bytes);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::free(void* data) {
  if (const auto error = enter_device("free")) return error;
  MutexLock lock(&mutex_);
  if (device_memory_.erase(data) == 0) return failed(cudaErrorInvalidValue);
  std::free(data);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::host_alloc(void** data, size_t bytes,
                                    unsigned /*flags*/) {
  if (const auto error = enter_device("host_alloc", absl::StrCat(bytes)))
    return error;
  MutexLock lock(&mutex_);
  *data = std::malloc(bytes);
  std::memset(*data, 0xFF, bytes);
  host_memory_.emplace(*data, bytes);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::free_host(void* data) {
  if (const auto error = enter_device("free_host")) return error;
  MutexLock lock(&mutex_);
  if (host_memory_.erase(data) == 0) return failed(cudaErrorInvalidValue);
  std::free(data);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::host_register(void* data, size_t bytes,
                                       unsigned flags) {
  const bool is_read_only = (flags & cudaHostRegisterReadOnly) != 0;
  if (const auto error = enter_device(
          "host_register", absl::StrCat(bytes, is_read_only ? " ro" : ""))) {
    return error;
  }
  MutexLock lock(&mutex_);
  if (!machine_.can_register ||
      (is_read_only && !machine_.can_register_read_only)) {
    return failed(cudaErrorNotSupported);
  }
  if (reinterpret_cast<uintptr_t>(data) % kPageBytes != 0 ||
      bytes % kPageBytes != 0 || bytes == 0) {
    return failed(cudaErrorInvalidValue);
  }
  const char* const begin = static_cast<const char*>(data);
  const auto next = registered_.lower_bound(data);
  const bool reaches_next =
      next != registered_.end() && begin + bytes > next->first;
  const bool is_in_previous = next != registered_.begin() &&
                              static_cast<const char*>(std::prev(next)->first) +
                                      std::prev(next)->second.bytes >
                                  begin;
  if (reaches_next || is_in_previous) {
    return failed(cudaErrorHostMemoryAlreadyRegistered);
  }
  registered_.emplace(data, Registration{bytes, is_read_only});
  return cudaSuccess;
}

cudaError_t FakeCudaApi::host_unregister(void* data) {
  if (const auto error = enter_device("host_unregister")) return error;
  MutexLock lock(&mutex_);
  if (registered_.erase(data) == 0) {
    return failed(cudaErrorHostMemoryNotRegistered);
  }
  return cudaSuccess;
}

cudaError_t FakeCudaApi::check_host_side(const void* data, size_t bytes,
                                         bool writes) {
  const auto allocated =
      find_range(host_memory_, data, [](size_t size) { return size; });
  if (allocated != host_memory_.end()) return cudaSuccess;
  const auto found = find_range(
      registered_, data,
      [](const Registration& registration) { return registration.bytes; });
  if (found == registered_.end()) {
    ++pageable_copies_;
    return cudaSuccess;
  }
  const auto offset = static_cast<size_t>(
      static_cast<const char*>(data) - static_cast<const char*>(found->first));
  const bool is_wrong = offset + bytes > found->second.bytes ||
                        (writes && found->second.is_read_only);
  return is_wrong ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace ferry
