#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "platform/device/simulated/vector_clock.h"

namespace ferry {

// Addresses from `begin` to before `end`.
struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;

  static AddressRange of(const void* data, int64_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(data);
    return {begin, begin + static_cast<uintptr_t>(bytes)};
  }
  bool empty() const { return begin >= end; }
};

enum class AccessType {
  kAllocate,
  kFree,
  kDiscard,
  kCopyFrom,
  kCopyTo,
  kUseRead,
  kUseWrite,
  kHostRead,
  kHostWrite,
};

bool is_write(AccessType type);

// What touched bytes: the `number`-th operation of the device, at `epoch` of
// its owner's clock.
struct Access {
  AccessType type = AccessType::kAllocate;
  int owner = VectorClock::kHost;
  int64_t epoch = 0;
  int64_t number = 0;
};

// Two accesses of the same bytes that are wrong together.
struct AccessConflict {
  enum class Reason {
    // One of them writes, and nothing orders them.
    kUnordered,
    // The later one reads what the earlier one left without content.
    kNoContent,
  };
  Reason reason = Reason::kUnordered;
  Access earlier;
  AccessType later = AccessType::kAllocate;
  // The bytes that both touch.
  AddressRange range;
};

// Who touched which bytes: the last write and, of every owner, the last read
// since. Bounded by the number of ranges that are told apart, not by time.
// Not thread-safe.
class AccessHistory {
 public:
  // The first conflict of an access of `type` whose owner knows `clock`.
  std::optional<AccessConflict> find_conflict(const AddressRange& range,
                                              AccessType type,
                                              const VectorClock& clock) const;
  // Allocates memory only where the bounds of `range` are new.
  void add(const AddressRange& range, const Access& access);
  // The bytes belong to nobody any more.
  void forget(const AddressRange& range);

  // Ranges that are told apart.
  int64_t size() const { return static_cast<int64_t>(spans_.size()); }

 private:
  struct Span {
    uintptr_t end = 0;
    std::optional<Access> write;
    absl::InlinedVector<Access, 4> reads;
  };
  // By their begin; they do not overlap.
  using Spans = std::map<uintptr_t, Span>;

  // Makes `address` a bound between spans; returns the span that starts there,
  // or the next one.
  Spans::iterator split_at(uintptr_t address);
  void add_write(const AddressRange& range, const Access& access);
  void add_read(const AddressRange& range, const Access& access);

  Spans spans_;
};

}  // namespace ferry
