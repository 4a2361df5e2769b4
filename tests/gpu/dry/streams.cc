#include "tests/gpu/dry/streams.h"

#include <algorithm>
#include <utility>

namespace ferry::dry {
namespace {

constexpr std::chrono::microseconds kPollInterval{50};

template <typename Handle>
Handle next_handle(uint64_t* last) {
  // LibTorch tells streams of others from its own by an even number.
  *last += 16;
  return reinterpret_cast<Handle>(*last);
}

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy;
}

}  // namespace

Streams::Streams(int devices) : devices_(static_cast<size_t>(devices)) {
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i].default_stream = std::make_shared<Stream>();
    devices_[i].default_stream->device = static_cast<int>(i);
    devices_[i].streams.push_back(devices_[i].default_stream);
  }
}

cudaStream_t Streams::create(int device, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  MutexLock lock(&mutex_);
  const auto handle = next_handle<cudaStream_t>(&last_handle_);
  devices_[static_cast<size_t>(device)].streams.push_back(stream);
  streams_.emplace(handle, std::move(stream));
  return handle;
}

bool Streams::destroy(cudaStream_t stream) {
  MutexLock lock(&mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return false;
  // What it was given is done all the same.
  found->second->is_destroyed = true;
  streams_.erase(found);
  return true;
}

int Streams::device_of(cudaStream_t stream, int current) const {
  if (is_default(stream)) return current;
  MutexLock lock(&mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? -1 : found->second->device;
}

bool Streams::flags_of(cudaStream_t stream, unsigned* flags,
                       int* priority) const {
  *flags = cudaStreamDefault;
  *priority = 0;
  if (is_default(stream)) return true;
  MutexLock lock(&mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return false;
  *flags = found->second->flags;
  *priority = found->second->priority;
  return true;
}

Streams::Stream* Streams::find(cudaStream_t stream, int device) const {
  if (is_default(stream)) {
    return devices_[static_cast<size_t>(device)].default_stream.get();
  }
  return streams_.at(stream).get();
}

CompletionPtr Streams::push(Stream* stream, Work work) {
  Device& device = devices_[static_cast<size_t>(stream->device)];
  if (stream == device.default_stream.get()) {
    for (const auto& other : device.streams) {
      if (other->last != nullptr && !(other->flags & cudaStreamNonBlocking)) {
        work.after.push_back(other->last);
      }
    }
  } else if (!(stream->flags & cudaStreamNonBlocking) &&
             device.default_stream->last != nullptr) {
    work.after.push_back(device.default_stream->last);
  }
  auto done = std::make_shared<Completion>();
  stream->last = done;
  stream->queue.push_back({std::move(work), done});
  if (!device.thread.joinable()) {
    device.thread = std::thread([this, &device] { serve(&device); });
  }
  work_.notify_all();
  return done;
}

CompletionPtr Streams::give(cudaStream_t stream, int device, Work work) {
  MutexLock lock(&mutex_);
  return push(find(stream, device), std::move(work));
}

CompletionPtr Streams::last(cudaStream_t stream, int device) {
  MutexLock lock(&mutex_);
  return find(stream, device)->last;
}

std::vector<CompletionPtr> Streams::last_of(int device) {
  MutexLock lock(&mutex_);
  std::vector<CompletionPtr> all;
  for (const auto& stream : devices_[static_cast<size_t>(device)].streams) {
    if (stream->last != nullptr) all.push_back(stream->last);
  }
  return all;
}

bool Streams::is_done(const CompletionPtr& completion) const {
  MutexLock lock(&mutex_);
  return completion == nullptr || completion->is_done;
}

void Streams::wait(const std::vector<CompletionPtr>& completions) {
  MutexLock lock(&mutex_);
  for (const CompletionPtr& completion : completions) {
    while (completion != nullptr && !completion->is_done) done_.wait(&mutex_);
  }
}

void Streams::look_again() {
  MutexLock lock(&mutex_);
  work_.notify_all();
}

// A stream whose first work can run. The streams take turns.
std::shared_ptr<Streams::Stream> Streams::pick(Device* device,
                                               bool* must_poll) {
  auto& streams = device->streams;
  streams.erase(std::remove_if(streams.begin(), streams.end(),
                               [](const auto& stream) {
                                 return stream->is_destroyed &&
                                        stream->queue.empty();
                               }),
                streams.end());
  for (size_t i = 0; i < streams.size(); ++i) {
    const size_t index = (device->next + i) % streams.size();
    const std::shared_ptr<Stream>& stream = streams[index];
    if (stream->queue.empty()) continue;
    Work& work = stream->queue.front().work;
    const bool may_run =
        std::all_of(work.after.begin(), work.after.end(),
                    [](const auto& each) { return each->is_done; });
    if (!may_run) continue;
    if (work.is_ready && !work.is_ready()) {
      *must_poll = true;
      continue;
    }
    device->next = index + 1;
    return stream;
  }
  return nullptr;
}

void Streams::serve(Device* device) {
  MutexLock lock(&mutex_);
  for (;;) {
    bool must_poll = false;
    const std::shared_ptr<Stream> stream = pick(device, &must_poll);
    if (stream == nullptr) {
      if (must_poll) {
        work_.wait_for(&mutex_, kPollInterval);
      } else {
        work_.wait(&mutex_);
      }
      continue;
    }
    Item item = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (item.work.run) {
      MutexUnlock unlock(&mutex_);
      item.work.run();
    }
    item.done->is_done = true;
    item.done->time = std::chrono::steady_clock::now();
    done_.notify_all();
    work_.notify_all();
  }
}

cudaEvent_t Streams::create_event(int device, bool is_timed) {
  MutexLock lock(&mutex_);
  const auto handle = next_handle<cudaEvent_t>(&last_handle_);
  events_.emplace(handle, Event{device, is_timed, nullptr});
  return handle;
}

bool Streams::destroy_event(cudaEvent_t event) {
  MutexLock lock(&mutex_);
  return events_.erase(event) > 0;
}

bool Streams::find_event(cudaEvent_t event, Event* found) const {
  MutexLock lock(&mutex_);
  const auto entry = events_.find(event);
  if (entry == events_.end()) return false;
  *found = entry->second;
  return true;
}

void Streams::record(cudaEvent_t event, cudaStream_t stream, int device) {
  MutexLock lock(&mutex_);
  CompletionPtr done = push(find(stream, device), {});
  const auto entry = events_.find(event);
  if (entry != events_.end()) entry->second.record = std::move(done);
}

size_t Streams::streams() const {
  MutexLock lock(&mutex_);
  return streams_.size();
}

size_t Streams::events() const {
  MutexLock lock(&mutex_);
  return events_.size();
}

}  // namespace ferry::dry
