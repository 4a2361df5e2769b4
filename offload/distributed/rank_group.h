#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/distributed/communicator.h"
#include "platform/distributed/host_communicator.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// What joins the ranks that hold the weights of a pipeline together: a control
// group on the host, for votes, and the group of their devices, for weights.
// Both have the same ranks. Once one of them has failed, so has the group.
//
// Ranks that gather nothing may have one copy of the weights on their host all
// the same; they need no group of their devices.
struct RankGroup {
  std::unique_ptr<HostCommunicator> control;
  // Null where nothing is gathered, or not yet.
  std::unique_ptr<Communicator> weights;
  // Joins the devices of ranks that may gather, once one of them has something
  // to gather: it makes `weights` and `choice`, on all ranks or on none. All
  // call it, once. None: they are joined, or have no use for it.
  std::function<absl::Status()> join_devices;
  // For what ranks find out together while passes are made, which take the
  // other two, and only until what they chose is final and was tried. Null, and
  // it is final at once, and not tried.
  std::unique_ptr<HostCommunicator> choice;
  // Why they copy for themselves, though they gathered first, or tried to.
  // Empty: they have not.
  std::string not_worth_it;
  // A file in memory, without bytes, that all ranks have: for SharedImages,
  // until what they chose is final. None where each rank keeps what it needs
  // whole for itself.
  UniqueFd images;
  // How long a rank waits for the others: in a vote or a gather, longer than
  // any of them may take for a pass; and for them to load.
  absl::Duration timeout = absl::Minutes(2);
  absl::Duration start_timeout = absl::Minutes(30);

  int rank() const { return control->rank(); }
  int size() const { return control->size(); }
};

}  // namespace ferry
