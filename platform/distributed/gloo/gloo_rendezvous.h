#pragma once

#include <gloo/rendezvous/context.h>

#include <memory>

#include "absl/status/statusor.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/store.h"

namespace ferry {

// Connects a rank with every other one: what join_gloo_group() does first.
absl::StatusOr<std::shared_ptr<gloo::rendezvous::Context>> connect_gloo(
    Store& store, int rank, int size, const GlooOptions& options);

}  // namespace ferry
