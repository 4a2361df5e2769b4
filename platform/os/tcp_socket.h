#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/os/host_port.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// TCP sockets that do not block and are closed by exec.
//
// Connections send at once, and find out within about 20 s that the other host
// has gone without a word. They may be made and used while SIGPIPE is ignored.
// Threads: free functions without state.

// Has the address for itself and does not listen yet: whoever inherits it may,
// and others can be told the address before that. It blocks, unlike all others.
// Port 0 takes a free one. INVALID_ARGUMENT: no such address on this host;
// UNAVAILABLE: the port is taken.
absl::StatusOr<UniqueFd> bind_tcp(const HostPort& address);
// The same, and listens.
absl::StatusOr<UniqueFd> listen_tcp(const HostPort& address);

// Takes the next connection. UNAVAILABLE: there is none; RESOURCE_EXHAUSTED: no
// descriptor is left, so that the next try would fail too.
absl::StatusOr<UniqueFd> accept_tcp(const UniqueFd& listener);

// Connects, from this host's address `from` where that is not empty. Blocks for
// `timeout` at most, besides the lookup of a name. UNAVAILABLE or
// DEADLINE_EXCEEDED: nobody answers there; INVALID_ARGUMENT: `from` is none of
// this host's addresses.
absl::StatusOr<UniqueFd> connect_tcp(const HostPort& address,
                                     const std::string& from,
                                     absl::Duration timeout);

// The socket's own address, in numbers, and that of the other end.
absl::StatusOr<HostPort> local_address(const UniqueFd& socket);
absl::StatusOr<HostPort> peer_address(const UniqueFd& socket);

// Blocks until there is something to read, the connection's end too, or
// `timeout` has passed.
void wait_for_bytes_of(const UniqueFd& connection, absl::Duration timeout);
// Blocks until the connection has ended, whoever ended it, or `timeout` has
// passed. What has arrived stays to be read.
bool wait_for_end_of(const UniqueFd& connection, absl::Duration timeout);

}  // namespace ferry
