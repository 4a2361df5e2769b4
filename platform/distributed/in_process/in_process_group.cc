#include "platform/distributed/in_process/in_process_group.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "platform/base/check.h"
#include "platform/base/mutex.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/deadline.h"
#include "platform/distributed/gather_size.h"

namespace ferry {

// Where ranks meet. A call waits here until all ranks have made theirs; the
// last one to come does the work of all, and lets them go:
//
//   gathering --last rank arrives--> working --> gathering (next call)
//        \--timeout, abort, mismatch, rank gone--> failed, for ever
//
// Memory of a call is touched while working only, and nobody leaves then.
class InProcessGroup::Meeting {
 public:
  struct Call {
    enum class Kind { kAllGather, kAllReduceOr };
    Kind kind = Kind::kAllGather;
    // kAllGather.
    const char* in = nullptr;
    char* out = nullptr;
    int64_t bytes = 0;
    // kAllReduceOr.
    uint64_t bits = 0;
  };

  explicit Meeting(int size) : size_(size), ranks_(static_cast<size_t>(size)) {}

  int size() const { return size_; }
  void join(int rank) EXCLUDES_LOCK(mutex_);
  // The result of kAllReduceOr.
  absl::StatusOr<uint64_t> meet(int rank, const Call& call,
                                const CallFault& fault, absl::Duration timeout)
      EXCLUDES_LOCK(mutex_);
  void fail(const absl::Status& error) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    fail_locked(error);
  }
  absl::Status error() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return error_;
  }

 private:
  struct Rank {
    bool has_joined = false;
    bool has_arrived = false;
    Call call;
  };

  static std::string describe(const Call& call);
  void suffer(int rank, const CallFault& fault, const Deadline& deadline)
      REQUIRES_LOCK(mutex_);
  // Whether the call of `rank` is what the others call.
  absl::Status match(size_t rank) const REQUIRES_LOCK(mutex_);
  // What the calls of all ranks come to; the bits of kAllReduceOr.
  static uint64_t carry_out(const std::vector<Rank>& ranks);
  void work() REQUIRES_LOCK(mutex_);
  absl::Status timed_out(const Call& call, absl::Duration timeout) const
      REQUIRES_LOCK(mutex_);
  void fail_locked(const absl::Status& error) REQUIRES_LOCK(mutex_) {
    if (error_.ok()) error_ = error;
    changed_.notify_all();
  }

  const int size_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Rank> ranks_ GUARDED_BY(mutex_);
  size_t arrived_ GUARDED_BY(mutex_) = 0;
  bool is_working_ GUARDED_BY(mutex_) = false;
  // Calls that all ranks have made.
  int64_t calls_done_ GUARDED_BY(mutex_) = 0;
  // Of the last one.
  uint64_t bits_ GUARDED_BY(mutex_) = 0;
  absl::Status error_ GUARDED_BY(mutex_);
};

void InProcessGroup::Meeting::join(int rank) {
  MutexLock lock(&mutex_);
  FERRY_CHECK_LE(0, rank);
  FERRY_CHECK_LT(rank, size_);
  Rank& joining = ranks_[static_cast<size_t>(rank)];
  FERRY_CHECK(!joining.has_joined);
  joining.has_joined = true;
}

absl::StatusOr<uint64_t> InProcessGroup::Meeting::meet(int rank,
                                                       const Call& call,
                                                       const CallFault& fault,
                                                       absl::Duration timeout) {
  const Deadline deadline(timeout);
  MutexLock lock(&mutex_);
  suffer(rank, fault, deadline);
  RETURN_IF_ERROR(error_);
  const auto index = static_cast<size_t>(rank);
  Rank& mine = ranks_[index];
  mine.call = call;
  mine.has_arrived = true;
  ++arrived_;
  if (absl::Status mismatch = match(index); !mismatch.ok()) {
    fail_locked(mismatch);
    return error_;
  }
  const int64_t calls_before = calls_done_;
  if (arrived_ == ranks_.size()) work();
  while (calls_done_ == calls_before && (is_working_ || error_.ok())) {
    if (!is_working_ && deadline.has_passed()) {
      fail_locked(timed_out(call, timeout));
    } else {
      deadline.wait(&changed_, &mutex_);
    }
  }
  if (calls_done_ == calls_before) return error_;
  return bits_;
}

void InProcessGroup::Meeting::suffer(int rank, const CallFault& fault,
                                     const Deadline& deadline) {
  if (fault.kind == CallFault::Kind::kFails) {
    fail_locked(
        absl::UnavailableError(absl::StrCat("rank ", rank, " is gone")));
    return;
  }
  const bool arrives = fault.kind != CallFault::Kind::kNeverArrives;
  const Deadline delay(fault.delay);
  while (error_.ok() && !(arrives && delay.has_passed())) {
    if (deadline.has_passed()) {
      fail_locked(absl::DeadlineExceededError(
          absl::StrCat("rank ", rank, " did not reach the others in time")));
    }
    const bool is_delay_first = arrives && delay.left() < deadline.left();
    (is_delay_first ? delay : deadline).wait(&changed_, &mutex_);
  }
}

absl::Status InProcessGroup::Meeting::match(size_t rank) const {
  const Call& mine = ranks_[rank].call;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (i == rank || !ranks_[i].has_arrived) continue;
    const Call& theirs = ranks_[i].call;
    if (theirs.kind == mine.kind && theirs.bytes == mine.bytes) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "ranks disagree about call ", calls_done_ + 1, ": rank ", i, " calls ",
        describe(theirs), ", rank ", rank, " ", describe(mine)));
  }
  return absl::OkStatus();
}

uint64_t InProcessGroup::Meeting::carry_out(const std::vector<Rank>& ranks) {
  uint64_t bits = 0;
  for (const Rank& to : ranks) {
    char* end = to.call.out;
    for (const Rank& from : ranks) {
      bits |= from.call.bits;
      if (end == nullptr) continue;
      std::memcpy(end, from.call.in, static_cast<size_t>(from.call.bytes));
      end += from.call.bytes;
    }
  }
  return bits;
}

void InProcessGroup::Meeting::work() {
  is_working_ = true;
  // Nobody changes his call meanwhile.
  const std::vector<Rank>* const ranks = &ranks_;
  uint64_t bits = 0;
  {
    MutexUnlock unlock(&mutex_);
    bits = carry_out(*ranks);
  }
  bits_ = bits;
  is_working_ = false;
  arrived_ = 0;
  for (Rank& rank : ranks_) rank.has_arrived = false;
  ++calls_done_;
  changed_.notify_all();
}

absl::Status InProcessGroup::Meeting::timed_out(const Call& call,
                                                absl::Duration timeout) const {
  std::string missing;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].has_arrived) continue;
    absl::StrAppend(&missing, missing.empty() ? "rank " : ", rank ", i);
  }
  return absl::DeadlineExceededError(
      absl::StrCat(missing, " did not come to call ", calls_done_ + 1, ", ",
                   describe(call), ", within ", absl::FormatDuration(timeout)));
}

std::string InProcessGroup::Meeting::describe(const Call& call) {
  if (call.kind == Call::Kind::kAllReduceOr) return "all_reduce_or";
  return absl::StrCat("all_gather of ", call.bytes, " bytes");
}

class InProcessGroup::Member final : public HostCommunicator {
 public:
  Member(std::shared_ptr<Meeting> meeting, int rank, CallFaults faults)
      : meeting_(std::move(meeting)), rank_(rank), faults_(std::move(faults)) {}
  ~Member() override {
    meeting_->fail(
        absl::UnavailableError(absl::StrCat("rank ", rank_, " is gone")));
  }

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }

  absl::Status all_gather(const void* in, void* out, int64_t bytes,
                          absl::Duration timeout) override {
    RETURN_IF_ERROR(check_gather_size(bytes, size()));
    Meeting::Call call;
    call.in = static_cast<const char*>(in);
    call.out = static_cast<char*>(out);
    call.bytes = bytes;
    return meet(call, timeout).status();
  }

  absl::StatusOr<uint64_t> all_reduce_or(uint64_t bits,
                                         absl::Duration timeout) override {
    Meeting::Call call;
    call.kind = Meeting::Call::Kind::kAllReduceOr;
    call.bits = bits;
    return meet(call, timeout);
  }

  void abort(absl::string_view reason) override {
    meeting_->fail(absl::UnavailableError(
        absl::StrCat("rank ", rank_, " aborted: ", reason)));
  }
  absl::Status status() const override { return meeting_->error(); }

 private:
  absl::StatusOr<uint64_t> meet(const Meeting::Call& call,
                                absl::Duration timeout) {
    ++calls_;
    const CallFault fault = faults_ ? faults_(rank_, calls_) : CallFault{};
    if (fault.kind != CallFault::Kind::kLosesResult) {
      return meeting_->meet(rank_, call, fault, timeout);
    }
    Meeting::Call lost = call;
    lost.out = nullptr;
    RETURN_IF_ERROR(meeting_->meet(rank_, lost, fault, timeout).status());
    meeting_->fail(absl::UnavailableError(
        absl::StrCat("rank ", rank_, " has lost what it was sent")));
    return meeting_->error();
  }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  const CallFaults faults_;
  int64_t calls_ = 0;
};

InProcessGroup::InProcessGroup(int size, CallFaults faults)
    : meeting_(std::make_shared<Meeting>(size)), faults_(std::move(faults)) {}

InProcessGroup::~InProcessGroup() = default;

std::unique_ptr<HostCommunicator> InProcessGroup::join(int rank) {
  meeting_->join(rank);
  return std::make_unique<Member>(meeting_, rank, faults_);
}

}  // namespace ferry
