#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "platform/base/check.h"

namespace ferry {

// A queue that keeps its memory: it allocates only to grow beyond the most
// elements that it ever held. Not thread-safe.
template <typename T>
class RingQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // REQUIRES: !empty().
  const T& front() const {
    FERRY_CHECK(!empty());
    return slots_[head_];
  }

  void push(T value) {
    if (size_ == slots_.size()) grow();
    slots_[(head_ + size_) % slots_.size()] = std::move(value);
    ++size_;
  }

  // REQUIRES: !empty().
  T pop() {
    FERRY_CHECK(!empty());
    T value = std::move(slots_[head_]);
    head_ = (head_ + 1) % slots_.size();
    --size_;
    return value;
  }

 private:
  void grow() {
    std::vector<T> slots(slots_.empty() ? 16 : 2 * slots_.size());
    for (size_t i = 0; i < size_; ++i) {
      slots[i] = std::move(slots_[(head_ + i) % slots_.size()]);
    }
    slots_ = std::move(slots);
    head_ = 0;
  }

  std::vector<T> slots_;
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace ferry
