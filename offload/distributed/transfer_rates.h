#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "offload/distributed/rank_group.h"
#include "platform/device/device.h"

namespace ferry {

// How fast weights come to the devices of a group, in bytes a second; each is
// the slowest rank's.
struct TransferRates {
  // From the host, while no other rank copies, and while all do.
  double h2d_alone = 0;
  double h2d_together = 0;
  // Of a gather, what arrives on each device: while nothing else is moved, and
  // while each rank copies its next share, as it does in a pass, until both are
  // there. The two may share a link or an engine.
  double gather_alone = 0;
  double gather_beside_copies = 0;
};

// Measures them with copies and gathers of some megabytes, less where a device
// has no more than `free_bytes`: some tenths of a second. All ranks call it,
// with equal `free_bytes`, before anything else uses their devices, and get the
// same. Errors: of all ranks alike, that one of them has no memory for it, that
// a copy of its has failed, or that the group has.
absl::StatusOr<TransferRates> measure_transfer_rates(Device& device,
                                                     RankGroup& group,
                                                     int64_t free_bytes);

}  // namespace ferry
