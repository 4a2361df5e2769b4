#pragma once

#include <string>

#include "absl/time/time.h"

namespace ferry {

// How a rank joins a group over Gloo.
struct GlooOptions {
  // Where this rank listens: an address of this host, or a name that resolves
  // to one. The other ranks must reach it.
  std::string address = "127.0.0.1";
  // Not empty: the address of this interface instead, as "eth0".
  std::string interface;
  // Until all ranks are connected.
  absl::Duration timeout = absl::Seconds(60);
};

}  // namespace ferry
