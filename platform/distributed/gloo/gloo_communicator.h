#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/store.h"

namespace ferry {

// Joins a group over TCP, by Gloo: each rank is connected with every other one.
// Blocks until all ranks are. Ranks find each other through the store, under
// the key "gloo/RANK": a group needs a prefix of its own.
//
// The communicator is as HostCommunicator says. Calls that do not match are
// told on all ranks. A rank that dies ends the group at once, also between
// calls; one that aborts or fails tells the others why. Who destroys its
// communicator leaves in order: calls that all ranks have come to still end
// well. Ranks trust each other, and the network: nothing is encrypted.
//
// REQUIRES: 0 ≤ rank < size.
// Errors: DEADLINE_EXCEEDED names the rank that did not come; UNAVAILABLE, the
// store or a rank cannot be reached; INVALID_ARGUMENT, the address or the
// interface is none of this host's; FAILED_PRECONDITION, the process does
// not ignore SIGPIPE, as SignalWatcher makes it do.
absl::StatusOr<std::unique_ptr<HostCommunicator>> join_gloo_group(
    Store& store, int rank, int size, const GlooOptions& options);

}  // namespace ferry
