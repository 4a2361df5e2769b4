#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/distributed/transfer_rates.h"

namespace ferry {

// What one pass needs.
struct TransferNeeds {
  int ranks = 1;
  // To each device, when each rank copies for itself: blocks that do not stay.
  int64_t local_bytes = 0;
  // Together, when they gather: all blocks.
  int64_t gathered_bytes = 0;
  // How many these are.
  int64_t blocks = 1;
  // What they take to run for the smallest request, in either way: no pass
  // takes less. Zero while that is unknown.
  absl::Duration compute;
};

struct TransferChoice {
  bool gathers = false;
  // Why, with the numbers; a sentence without its end.
  std::string reason;
};

// Whether ranks gather blocks or copy them for themselves. A pass takes the
// longest of its compute, its copies and its gathers. Ranks that gather wait
// for each other, which has to be worth it: a tenth of the pass.
//
// The less compute, the more is gathering worth. So what is not worth it by the
// transfers alone never is, nor what is not at the smallest request; what is
// worth it there helps some requests, and costs the others little.
TransferChoice choose_transfer(const TransferNeeds& needs,
                               const TransferRates& rates);

// The choice of ranks that cannot gather: they tried to, and `failure` came of
// it.
TransferChoice explain_failed_trial(const TransferNeeds& needs,
                                    const absl::Status& failure);

}  // namespace ferry
