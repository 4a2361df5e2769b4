#pragma once

#include <cstdint>
#include <string>

#include "offload/distributed/transfer_rates.h"

namespace ferry {

// What one pass moves in either way.
struct TransferNeeds {
  int ranks = 1;
  // To each device, when each rank copies for itself: blocks that do not stay.
  int64_t local_bytes = 0;
  // Together, when they gather: all blocks.
  int64_t gathered_bytes = 0;
};

struct TransferChoice {
  bool gathers = false;
  // Why, with the numbers; a sentence without its end.
  std::string reason;
};

// Whether ranks gather blocks or copy them for themselves: whichever lets a
// pass wait less for its weights. A pass takes the longest of its compute, its
// copies and its gathers, so that the compute, which is the same in either way,
// changes nothing about which one is shorter. Ranks that gather wait for each
// other, which has to be worth it: a tenth.
TransferChoice choose_transfer(const TransferNeeds& needs,
                               const TransferRates& rates);

}  // namespace ferry
