#include "platform/distributed/gloo/gloo_communicator.h"

#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/check.h"
#include "platform/base/logging.h"
#include "platform/base/mutex.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/deadline.h"
#include "platform/distributed/gather_size.h"
#include "platform/distributed/gloo/gloo_rendezvous.h"

namespace ferry {
namespace {

using gloo::transport::UnboundBuffer;

// What a rank calls: each rank tells it to every other one first. Bits are all
// that a reduction needs.
struct Header {
  // Of the rank's calls, from 1.
  int64_t number = 0;
  // Of a gather; 0 for a reduction.
  int64_t bytes = 0;
  uint64_t bits = 0;
};

// The last that a rank tells the others: why it leaves.
struct Farewell {
  std::array<char, 252> reason = {};
  // Comes last: when it is there, so is the rest. 0, nothing has come; −1, in
  // order; else the code of the error.
  int32_t code = 0;
};
constexpr int32_t kInOrder = -1;

// Messages of one slot meet in the order in which they were sent. Bytes of a
// gather have a slot of their size, so that those of calls that do not match
// never meet: Gloo would end the process.
constexpr uint64_t kHeaderSlot = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kFarewellSlot = kHeaderSlot - 1;
constexpr uint64_t kProbeSlot = kHeaderSlot - 2;
// Gloo closes connections when a wait takes longer.
constexpr std::chrono::milliseconds kNeverTimeout =
    std::chrono::hours(24) * 365;
// It is sent at once, unless the other rank is about to go too: then nobody
// needs it.
constexpr absl::Duration kFarewellTimeout = absl::Milliseconds(100);

constexpr uint64_t data_slot(int64_t bytes) {
  return static_cast<uint64_t>(bytes);
}

std::string describe(const Header& header) {
  if (header.bytes == 0) return "all_reduce_or";
  return absl::StrCat("all_gather of ", header.bytes, " bytes");
}

// Gloo takes whole milliseconds, and 0 for ever.
std::chrono::milliseconds milliseconds_of(absl::Duration timeout) {
  const absl::Duration whole =
      absl::Ceil(std::min(timeout, absl::Hours(24)), absl::Milliseconds(1));
  return std::chrono::milliseconds(
      std::max<int64_t>(absl::ToInt64Milliseconds(whole), 1));
}

// Whether Gloo does it.
template <typename Call>
bool succeeds(const Call& call) {
  try {
    call();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Every rank sends what it has to every other one, without a detour: a vote
// takes one way, and no rank sends more bytes than it would in a ring.
//
// A thread waits for ranks that go: one that leaves in order, after calls that
// all have come to; one that fails, and tells why; one that is lost. The latter
// two end the group, also between calls and while this rank waits for another
// one.
class GlooCommunicator final : public HostCommunicator {
 public:
  // May throw what Gloo throws.
  explicit GlooCommunicator(std::shared_ptr<gloo::rendezvous::Context> context)
      : context_(std::move(context)),
        headers_(static_cast<size_t>(context_->size)),
        farewells_(static_cast<size_t>(context_->size)),
        header_out_(context_->createUnboundBuffer(&mine_, sizeof mine_)),
        headers_in_(context_->createUnboundBuffer(
            headers_.data(), headers_.size() * sizeof(Header))),
        farewell_out_(
            context_->createUnboundBuffer(&my_farewell_, sizeof(Farewell))),
        farewells_in_(context_->createUnboundBuffer(
            farewells_.data(), farewells_.size() * sizeof(Farewell))) {
    for_each_peer([&](int peer) {
      farewells_in_->recv(peer, kFarewellSlot,
                          static_cast<size_t>(peer) * sizeof(Farewell),
                          sizeof(Farewell));
    });
    receive_headers();
    watcher_ = std::thread([this] { watch(); });
  }

  ~GlooCommunicator() override {
    leave();
    farewells_in_->abortWaitRecv();
    watcher_.join();
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  absl::Status all_gather(const void* in, void* out, int64_t bytes,
                          absl::Duration timeout) override;
  absl::StatusOr<uint64_t> all_reduce_or(uint64_t bits,
                                         absl::Duration timeout) override;
  void abort(absl::string_view reason) override {
    (void)fail(absl::UnavailableError(
        absl::StrCat("rank ", rank(), " aborted: ", reason)));
  }
  absl::Status status() const override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return error_;
  }

 private:
  // Makes a call, which may throw what Gloo throws. An error ends the group.
  template <typename Call>
  absl::Status guard(const Deadline& deadline, const Call& call)
      EXCLUDES_LOCK(mutex_);
  absl::Status gather(const void* in, void* out, const Deadline& deadline);
  // Readies this rank for the headers of the next call, so that the others need
  // not wait for it to send theirs.
  void receive_headers();
  // Tells every other rank what this one calls.
  void send_headers();
  // Blocks until the headers are exchanged, and compares them.
  absl::Status await_headers(const Deadline& deadline);
  // Block until the buffer's messages have come, or gone.
  absl::Status await_receives(UnboundBuffer& buffer, const Deadline& deadline);
  absl::Status await_sends(UnboundBuffer& buffer, const Deadline& deadline);
  // What Gloo's error means.
  absl::Status explain(const Deadline& deadline, const char* error);
  void watch() EXCLUDES_LOCK(mutex_);
  // The error of a rank that has failed.
  absl::Status find_failure() const;
  void leave() EXCLUDES_LOCK(mutex_);
  // Tells the others; returns how many can be reached.
  int say_farewell(const absl::Status& status);
  std::string describe_loss();
  std::string ranks_that_did_not_come() const;
  // The first error counts: returns it. Wakes whoever waits, here and on the
  // other ranks.
  absl::Status fail(const absl::Status& error) EXCLUDES_LOCK(mutex_);
  // Calls `visit` for every other rank, the next one first.
  template <typename Visit>
  void for_each_peer(const Visit& visit) const {
    for (int i = 1; i < size(); ++i) visit((rank() + i) % size());
  }

  const std::shared_ptr<gloo::rendezvous::Context> context_;

  // Of the calling thread, and of Gloo's while a call runs.
  Header mine_;
  std::vector<Header> headers_;
  Farewell my_farewell_;
  std::vector<Farewell> farewells_;
  const std::unique_ptr<UnboundBuffer> header_out_;
  const std::unique_ptr<UnboundBuffer> headers_in_;
  const std::unique_ptr<UnboundBuffer> farewell_out_;
  const std::unique_ptr<UnboundBuffer> farewells_in_;
  // All ranks have come to the call, and what their bits come to.
  bool has_headers_ = false;
  uint64_t bits_ = 0;

  std::thread watcher_;

  mutable Mutex mutex_;
  // Of the call that runs.
  std::optional<Deadline> deadline_ GUARDED_BY(mutex_);
  // Of a gather that runs.
  std::unique_ptr<UnboundBuffer> data_out_ GUARDED_BY(mutex_);
  std::unique_ptr<UnboundBuffer> data_in_ GUARDED_BY(mutex_);
  absl::Status error_ GUARDED_BY(mutex_);
};

absl::Status GlooCommunicator::all_gather(const void* in, void* out,
                                          int64_t bytes,
                                          absl::Duration timeout) {
  RETURN_IF_ERROR(check_gather_size(bytes, size()));
  const Deadline deadline(timeout);
  mine_.bytes = bytes;
  mine_.bits = 0;
  return guard(deadline, [&] { return gather(in, out, deadline); });
}

absl::StatusOr<uint64_t> GlooCommunicator::all_reduce_or(
    uint64_t bits, absl::Duration timeout) {
  const Deadline deadline(timeout);
  mine_.bytes = 0;
  mine_.bits = bits;
  RETURN_IF_ERROR(guard(deadline, [&] {
    send_headers();
    return await_headers(deadline);
  }));
  return bits_;
}

template <typename Call>
absl::Status GlooCommunicator::guard(const Deadline& deadline,
                                     const Call& call) {
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(error_);
    deadline_ = deadline;
  }
  ++mine_.number;
  has_headers_ = false;
  absl::Status result;
  try {
    result = call();
  } catch (const std::exception& error) {
    result = explain(deadline, error.what());
  }
  if (!result.ok()) result = fail(result);
  // They wait for Gloo's thread to let go of them.
  std::unique_ptr<UnboundBuffer> data_out;
  std::unique_ptr<UnboundBuffer> data_in;
  MutexLock lock(&mutex_);
  deadline_.reset();
  data_out.swap(data_out_);
  data_in.swap(data_in_);
  return result;
}

absl::Status GlooCommunicator::gather(const void* in, void* out,
                                      const Deadline& deadline) {
  const auto bytes = static_cast<size_t>(mine_.bytes);
  UnboundBuffer* data_out = nullptr;
  UnboundBuffer* data_in = nullptr;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(error_);
    data_out_ = context_->createUnboundBuffer(const_cast<void*>(in), bytes);
    data_in_ = context_->createUnboundBuffer(out, headers_.size() * bytes);
    data_out = data_out_.get();
    data_in = data_in_.get();
  }
  const uint64_t slot = data_slot(mine_.bytes);
  for_each_peer([&](int peer) {
    data_in->recv(peer, slot, static_cast<size_t>(peer) * bytes, bytes);
  });
  send_headers();
  for_each_peer([&](int peer) { data_out->send(peer, slot, 0, bytes); });
  std::memcpy(static_cast<char*>(out) + static_cast<size_t>(rank()) * bytes, in,
              bytes);
  RETURN_IF_ERROR(await_headers(deadline));
  RETURN_IF_ERROR(await_receives(*data_in, deadline));
  return await_sends(*data_out, deadline);
}

void GlooCommunicator::receive_headers() {
  for_each_peer([&](int peer) {
    headers_in_->recv(peer, kHeaderSlot,
                      static_cast<size_t>(peer) * sizeof(Header),
                      sizeof(Header));
  });
}

void GlooCommunicator::send_headers() {
  for_each_peer([&](int peer) {
    header_out_->send(peer, kHeaderSlot, 0, sizeof(Header));
  });
}

absl::Status GlooCommunicator::await_headers(const Deadline& deadline) {
  RETURN_IF_ERROR(await_receives(*headers_in_, deadline));
  // So that every rank can compare.
  RETURN_IF_ERROR(await_sends(*header_out_, deadline));
  has_headers_ = true;
  headers_[static_cast<size_t>(rank())] = mine_;
  const Header& first = headers_.front();
  for (size_t i = 1; i < headers_.size(); ++i) {
    const Header& other = headers_[i];
    if (other.number == first.number && other.bytes == first.bytes) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "ranks disagree about call ", mine_.number, ": rank 0 calls ",
        describe(first), " (its call ", first.number, "), rank ", i, " ",
        describe(other), " (its call ", other.number, ")"));
  }
  bits_ = 0;
  for (const Header& header : headers_) bits_ |= header.bits;
  // If a rank has left already, this call has ended well all the same; the next
  // one will say what is wrong.
  (void)succeeds([this] { receive_headers(); });
  return absl::OkStatus();
}

absl::Status GlooCommunicator::await_receives(UnboundBuffer& buffer,
                                              const Deadline& deadline) {
  for (int i = 1; i < size(); ++i) {
    if (!buffer.waitRecv(milliseconds_of(deadline.left()))) return status();
  }
  return absl::OkStatus();
}

absl::Status GlooCommunicator::await_sends(UnboundBuffer& buffer,
                                           const Deadline& deadline) {
  for (int i = 1; i < size(); ++i) {
    if (!buffer.waitSend(milliseconds_of(deadline.left()))) return status();
  }
  return absl::OkStatus();
}

absl::Status GlooCommunicator::explain(const Deadline& deadline,
                                       const char* error) {
  const std::string call =
      absl::StrCat("call ", mine_.number, ", ", describe(mine_));
  if (!deadline.has_passed()) {
    // Where one rank fails and another one goes for it, the cause counts.
    RETURN_IF_ERROR(find_failure());
    return absl::UnavailableError(
        absl::StrCat(describe_loss(), " in ", call, ": ", error));
  }
  const std::string late =
      has_headers_ ? absl::StrCat("not all bytes came in ", call)
                   : absl::StrCat(ranks_that_did_not_come(), " to ", call);
  return absl::DeadlineExceededError(absl::StrCat(
      late, ", within ", absl::FormatDuration(deadline.timeout())));
}

std::string GlooCommunicator::describe_loss() {
  std::string ranks;
  for_each_peer([&](int peer) {
    // Fails where there is no connection; nobody receives it elsewhere.
    const bool is_there =
        succeeds([this, peer] { farewell_out_->send(peer, kProbeSlot, 0, 1); });
    if (!is_there) {
      absl::StrAppend(&ranks, ranks.empty() ? "rank " : ", rank ", peer);
    }
  });
  return absl::StrCat("lost ", ranks.empty() ? "a rank" : ranks);
}

std::string GlooCommunicator::ranks_that_did_not_come() const {
  std::string ranks;
  for (int i = 0; i < size(); ++i) {
    const bool has_come =
        headers_[static_cast<size_t>(i)].number == mine_.number;
    if (i == rank() || has_come) continue;
    absl::StrAppend(&ranks, ranks.empty() ? "rank " : ", rank ", i);
  }
  return absl::StrCat(ranks, " did not come");
}

void GlooCommunicator::watch() {
  try {
    // As many as there are other ranks, or until this one leaves.
    for (int i = 1; i < size(); ++i) {
      if (!farewells_in_->waitRecv(kNeverTimeout)) return;
      const absl::Status failure = find_failure();
      if (!failure.ok()) {
        (void)fail(failure);
        return;
      }
    }
  } catch (const std::exception& error) {
    {
      // When its time is over, a call closes all connections, and tells why.
      MutexLock lock(&mutex_);
      if (deadline_ && deadline_->has_passed()) return;
    }
    const absl::Status failure = find_failure();
    (void)fail(failure.ok() ? absl::UnavailableError(absl::StrCat(
                                  describe_loss(), ": ", error.what()))
                            : failure);
  }
}

absl::Status GlooCommunicator::find_failure() const {
  for (const Farewell& farewell : farewells_) {
    if (farewell.code <= 0) continue;
    return absl::Status(static_cast<absl::StatusCode>(farewell.code),
                        absl::string_view(farewell.reason.data(),
                                          ::strnlen(farewell.reason.data(),
                                                    farewell.reason.size())));
  }
  return absl::OkStatus();
}

void GlooCommunicator::leave() {
  {
    // The watcher has nothing to tell from now on.
    MutexLock lock(&mutex_);
    if (!error_.ok()) return;
    error_ = absl::UnavailableError("this rank has left");
  }
  const int told = say_farewell(absl::OkStatus());
  // If not, somebody has left before.
  (void)succeeds([this, told] {
    for (int i = 0; i < told; ++i) {
      (void)farewell_out_->waitSend(milliseconds_of(kFarewellTimeout));
    }
  });
}

int GlooCommunicator::say_farewell(const absl::Status& status) {
  const absl::string_view reason =
      status.message().substr(0, my_farewell_.reason.size());
  std::copy(reason.begin(), reason.end(), my_farewell_.reason.begin());
  my_farewell_.code = status.ok() ? kInOrder : static_cast<int>(status.code());
  int told = 0;
  for_each_peer([&](int peer) {
    // It has gone before.
    if (farewells_[static_cast<size_t>(peer)].code != 0) return;
    const bool is_told = succeeds([this, peer] {
      farewell_out_->send(peer, kFarewellSlot, 0, sizeof(Farewell));
    });
    if (is_told) ++told;
  });
  return told;
}

absl::Status GlooCommunicator::fail(const absl::Status& error) {
  {
    MutexLock lock(&mutex_);
    if (!error_.ok()) return error_;
    error_ = error;
    for (UnboundBuffer* const buffer : {header_out_.get(), headers_in_.get(),
                                        data_out_.get(), data_in_.get()}) {
      if (buffer == nullptr) continue;
      buffer->abortWaitSend();
      buffer->abortWaitRecv();
    }
  }
  (void)say_farewell(error);
  for_each_peer([&](int peer) {
    try {
      context_->getPair(peer)->close();
    } catch (const std::exception& closing) {
      log_warning("a connection was not closed",
                  {{"rank", peer}, {"error", closing.what()}});
    }
  });
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostCommunicator>> join_gloo_group(
    Store& store, int rank, int size, const GlooOptions& options) {
  FERRY_CHECK_LE(0, rank);
  FERRY_CHECK_LT(rank, size);
  ASSIGN_OR_RETURN(std::shared_ptr<gloo::rendezvous::Context> context,
                   connect_gloo(store, rank, size, options));
  try {
    return std::make_unique<GlooCommunicator>(std::move(context));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("Gloo: ", error.what()));
  }
}

}  // namespace ferry
