#include "offload/distributed/choose_transfer.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace ferry {
namespace {

// Of the time that a pass of ranks for themselves takes, what one of ranks that
// gather may take at most.
constexpr double kWorthIt = 0.9;

double seconds(int64_t bytes, double rate) {
  return static_cast<double>(bytes) / rate;
}

}  // namespace

TransferChoice choose_transfer(const TransferNeeds& needs,
                               const TransferRates& rates) {
  const double local = seconds(needs.local_bytes, rates.h2d_together);
  const double gathered =
      std::max(seconds(needs.gathered_bytes / needs.ranks, rates.h2d_together),
               seconds(needs.gathered_bytes, rates.gather_beside_copies));
  TransferChoice choice;
  const double compute = absl::ToDoubleSeconds(needs.compute);
  choice.gathers =
      std::max(compute, gathered) < kWorthIt * std::max(compute, local);
  choice.reason = absl::StrFormat(
      "%s: for a pass, to gather %d bytes over %d ranks takes %.3f ms, and to "
      "copy %d bytes on each rank %.3f ms (measured: copies %.3f GB/s alone, "
      "%.3f GB/s on all ranks at once, gathers %.3f GB/s alone, %.3f GB/s "
      "beside copies)",
      choice.gathers ? "ranks gather" : "each rank copies for itself",
      needs.gathered_bytes, needs.ranks, gathered * 1e3, needs.local_bytes,
      local * 1e3, rates.h2d_alone / 1e9, rates.h2d_together / 1e9,
      rates.gather_alone / 1e9, rates.gather_beside_copies / 1e9);
  if (needs.compute > absl::ZeroDuration()) {
    absl::StrAppendFormat(
        &choice.reason,
        "; to run its %d blocks takes %.3f ms at the smallest request, %.3f ms "
        "a block",
        needs.blocks, compute * 1e3,
        compute * 1e3 / static_cast<double>(needs.blocks));
  }
  return choice;
}

TransferChoice explain_failed_trial(const TransferNeeds& needs,
                                    const absl::Status& failure) {
  TransferChoice choice;
  choice.reason = absl::StrFormat(
      "each rank copies for itself: to gather the %d bytes of %d blocks over "
      "%d ranks was tried with the smallest request, and failed: %s",
      needs.gathered_bytes, needs.blocks, needs.ranks, failure.message());
  return choice;
}

}  // namespace ferry
