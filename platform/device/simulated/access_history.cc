#include "platform/device/simulated/access_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ferry {
namespace {

bool leaves_content(AccessType type) {
  return type != AccessType::kAllocate && type != AccessType::kFree &&
         type != AccessType::kDiscard;
}

bool is_before(const Access& access, const VectorClock& clock) {
  return clock.at(access.owner) >= access.epoch;
}

}  // namespace

bool is_write(AccessType type) {
  switch (type) {
    case AccessType::kCopyFrom:
    case AccessType::kUseRead:
    case AccessType::kHostRead:
      return false;
    default:
      return true;
  }
}

std::optional<AccessConflict> AccessHistory::find_conflict(
    const AddressRange& range, AccessType type,
    const VectorClock& clock) const {
  auto span = spans_.upper_bound(range.begin);
  if (span != spans_.begin()) --span;
  for (; span != spans_.end() && span->first < range.end; ++span) {
    const AddressRange common = {std::max(range.begin, span->first),
                                 std::min(range.end, span->second.end)};
    if (common.empty()) continue;
    const std::optional<Access>& write = span->second.write;
    if (write && !is_before(*write, clock)) {
      return AccessConflict{AccessConflict::Reason::kUnordered, *write, type,
                            common};
    }
    if (!is_write(type)) {
      if (write && !leaves_content(write->type)) {
        return AccessConflict{AccessConflict::Reason::kNoContent, *write, type,
                              common};
      }
      continue;
    }
    for (const Access& read : span->second.reads) {
      if (!is_before(read, clock)) {
        return AccessConflict{AccessConflict::Reason::kUnordered, read, type,
                              common};
      }
    }
  }
  return std::nullopt;
}

void AccessHistory::add(const AddressRange& range, const Access& access) {
  if (range.empty()) return;
  if (is_write(access.type)) {
    add_write(range, access);
  } else {
    add_read(range, access);
  }
}

void AccessHistory::forget(const AddressRange& range) {
  if (range.empty()) return;
  const auto first = split_at(range.begin);
  const auto last = split_at(range.end);
  spans_.erase(first, last);
}

AccessHistory::Spans::iterator AccessHistory::split_at(uintptr_t address) {
  auto next = spans_.lower_bound(address);
  if (next == spans_.begin()) return next;
  Span& before = std::prev(next)->second;
  if (before.end <= address) return next;
  Span rest = before;
  before.end = address;
  return spans_.emplace_hint(next, address, std::move(rest));
}

void AccessHistory::add_write(const AddressRange& range, const Access& access) {
  auto first = split_at(range.begin);
  const auto last = split_at(range.end);
  if (first == last || first->first != range.begin) {
    first = spans_.emplace_hint(first, range.begin, Span{});
  }
  // One span takes the place of all; its node and its reads' memory stay.
  first->second.end = range.end;
  first->second.write = access;
  first->second.reads.clear();
  spans_.erase(std::next(first), last);
}

void AccessHistory::add_read(const AddressRange& range, const Access& access) {
  auto span = split_at(range.begin);
  const auto last = split_at(range.end);
  uintptr_t covered = range.begin;
  const auto fill_gap = [&](Spans::iterator next, uintptr_t end) {
    if (covered < end) {
      spans_.emplace_hint(next, covered, Span{end, std::nullopt, {access}});
    }
  };
  for (; span != last; ++span) {
    fill_gap(span, span->first);
    covered = span->second.end;
    auto& reads = span->second.reads;
    const auto same = std::find_if(
        reads.begin(), reads.end(),
        [&](const Access& read) { return read.owner == access.owner; });
    if (same != reads.end()) {
      *same = access;
    } else {
      reads.push_back(access);
    }
  }
  fill_gap(last, range.end);
}

}  // namespace ferry
