#include "offload/distributed/transfer_rates.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "offload/distributed/start_vote.h"
#include "offload/resolved_plan.h"
#include "platform/base/status_macros.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

constexpr int64_t kMostBytes = int64_t{32} << 20;
// What is left to others.
constexpr int64_t kFreeDivisor = 4;
// Transfers that are timed together.
constexpr int kInFlight = 3;

class Measurement {
 public:
  Measurement(Device& device, RankGroup& group)
      : device_(device), group_(group) {}
  // What is still under way uses the arenas.
  ~Measurement() { (void)device_.synchronize(); }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  absl::Status reserve(int64_t free_bytes) {
    const int64_t unit = kImageAlignment * group_.size();
    share_ = std::min(kMostBytes, free_bytes / kFreeDivisor) / unit *
             kImageAlignment;
    if (share_ == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "measuring takes more device memory than ", free_bytes, " bytes"));
    }
    ASSIGN_OR_RETURN(host_, device_.allocate_host(bytes(), "measuring"));
    ASSIGN_OR_RETURN(whole_, device_.allocate(bytes(), "measuring"));
    ASSIGN_OR_RETURN(part_, device_.allocate(share_, "measuring"));
    ASSIGN_OR_RETURN(next_part_, device_.allocate(share_, "measuring"));
    ASSIGN_OR_RETURN(
        stream_, device_.acquire_stream(StreamKind::kTransfer, "measuring"));
    ASSIGN_OR_RETURN(copy_stream_, device_.acquire_stream(StreamKind::kTransfer,
                                                          "measuring"));
    ASSIGN_OR_RETURN(start_, device_.create_event(/*timed=*/true));
    ASSIGN_OR_RETURN(end_, device_.create_event(/*timed=*/true));
    ASSIGN_OR_RETURN(copied_, device_.create_event(/*timed=*/false));
    return absl::OkStatus();
  }

  absl::StatusOr<TransferRates> run() {
    TransferRates rates;
    // The first error of this rank, which makes the group's calls all the same.
    absl::Status mine;
    for (int rank = 0; rank < group_.size(); ++rank) {
      RETURN_IF_ERROR(begin());
      if (rank == group_.rank()) mine = copy_at(&rates.h2d_alone);
    }
    RETURN_IF_ERROR(begin());
    mine.Update(copy_at(&rates.h2d_together));
    mine.Update(fill_share());
    RETURN_IF_ERROR(vote_on_start(group_, mine, "copied"));
    mine = gather_at(&rates.gather_alone);
    RETURN_IF_ERROR(vote_on_start(group_, mine, "gathered"));
    mine = gather_beside_copies_at(&rates.gather_beside_copies);
    RETURN_IF_ERROR(vote_on_start(group_, mine, "gathered beside copies"));
    return slowest(rates);
  }

 private:
  int64_t bytes() const { return share_ * group_.size(); }

  // No rank begins before all others have.
  absl::Status begin() {
    return barrier(*group_.control, group_.start_timeout);
  }

  absl::Status copy_at(double* rate) {
    return measure(rate, [this] {
      return device_.copy_async(
          stream_.get(),
          {CopyKind::kHostToDevice, whole_.data(), host_.data(), bytes()});
    });
  }

  // A gather reads what was written.
  absl::Status fill_share() {
    RETURN_IF_ERROR(device_.copy_async(
        stream_.get(),
        {CopyKind::kHostToDevice, part_.data(), host_.data(), share_}));
    return device_.synchronize(stream_.get());
  }

  absl::Status gather() {
    return group_.weights->all_gather(stream_.get(), part_.data(),
                                      whole_.data(), share_);
  }

  absl::Status gather_at(double* rate) {
    return measure(rate, [this] { return gather(); });
  }

  // A gather does not wait for the copy beside it, but what comes after it
  // does.
  absl::Status gather_beside_copies_at(double* rate) {
    return measure(rate, [this] {
      const Stream copies = copy_stream_.get();
      absl::Status status = device_.copy_async(
          copies,
          {CopyKind::kHostToDevice, next_part_.data(), host_.data(), share_});
      status.Update(device_.record(copied_, copies));
      status.Update(gather());
      if (status.ok()) status = device_.wait(stream_.get(), copied_);
      return status;
    });
  }

  // As in a pass, some transfers are under way at once, and the device tells
  // what they took: what it costs the host to give them does not count. The
  // first one may wake something up, and keeps the stream busy while the host
  // gives the others, which are timed. After an error they come all the same,
  // since other ranks take part in them.
  absl::Status measure(double* rate, absl::FunctionRef<absl::Status()> work) {
    const Stream stream = stream_.get();
    absl::Status status = work();
    status.Update(device_.record(start_, stream));
    if (status.ok()) status = device_.wait(copy_stream_.get(), start_);
    for (int i = 0; i < kInFlight; ++i) status.Update(work());
    status.Update(device_.record(end_, stream));
    status.Update(device_.synchronize(stream));
    status.Update(group_.weights->status());
    status.Update(device_.status());
    RETURN_IF_ERROR(status);
    ASSIGN_OR_RETURN(const std::optional<absl::Duration> took,
                     device_.elapsed(start_, end_));
    if (!took) {
      return absl::InternalError("measuring: the device tells no time");
    }
    *rate = static_cast<double>(kInFlight * bytes()) /
            absl::ToDoubleSeconds(std::max(*took, absl::Nanoseconds(1)));
    return absl::OkStatus();
  }

  absl::StatusOr<TransferRates> slowest(const TransferRates& rates) {
    using Rates = std::array<double, 4>;
    const Rates mine = {rates.h2d_alone, rates.h2d_together, rates.gather_alone,
                        rates.gather_beside_copies};
    std::vector<Rates> all(static_cast<size_t>(group_.size()));
    RETURN_IF_ERROR(group_.control->all_gather(
        mine.data(), all.data(), sizeof(mine), group_.start_timeout));
    Rates least = mine;
    for (const Rates& other : all) {
      for (size_t i = 0; i < least.size(); ++i) {
        least[i] = std::min(least[i], other[i]);
      }
    }
    return TransferRates{least[0], least[1], least[2], least[3]};
  }

  Device& device_;
  RankGroup& group_;
  // Bytes of a gather that come from each rank.
  int64_t share_ = 0;
  HostArena host_;
  DeviceArena whole_;
  DeviceArena part_;
  DeviceArena next_part_;
  StreamLease stream_;
  StreamLease copy_stream_;
  Event start_;
  Event end_;
  Event copied_;
};

}  // namespace

absl::StatusOr<TransferRates> measure_transfer_rates(Device& device,
                                                     RankGroup& group,
                                                     int64_t free_bytes) {
  Measurement measurement(device, group);
  RETURN_IF_ERROR(
      vote_on_start(group, measurement.reserve(free_bytes), "measuring"));
  return measurement.run();
}

}  // namespace ferry
