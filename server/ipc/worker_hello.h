#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// How a worker that ferryd has not started comes in. It dials ferryd and sends
// one line, which says who it is; ferryd answers with one line. Once it is
// accepted, both speak what ferryd speaks with its own workers over a socket
// pair (fd_channel.h), ferryd as the client.
//
//   worker → ferryd  ferry-worker 0.1.0 token=… pipeline=pipelines/demo rank=1…
//   ferryd → worker  accepted
//               or   wait WHY: another try may end otherwise
//               or   refused WHY
//
// Versions must be equal, since that protocol changes with ferryd.
// Threads: free functions without state.
struct WorkerHello {
  std::string token;
  // `pipelines/{pipeline}`.
  std::string pipeline;
  int rank = 0;
  int world_size = 0;
  // Which of its host's devices it uses, from 0.
  int device_index = 0;
  // Of its process, on its host.
  int64_t pid = 0;
  std::string host;
  // Address of its host, in numbers, where it listens for other ranks.
  std::string listen_host;
};

// Longest line of either, without its end.
inline constexpr size_t kMaxHelloBytes = 2048;

// The port of ferryd for workers when nobody says another.
inline constexpr int kDefaultWorkerPort = 8005;

// With the line's end. REQUIRES: no text is empty, or holds a space or what
// cannot be printed.
std::string format_hello(const WorkerHello& hello);
// Reads a line without its end. INVALID_ARGUMENT says what is wrong, and tells
// nothing of what the line holds but its version.
absl::StatusOr<WorkerHello> parse_hello(absl::string_view line);

// The answer, with the line's end: accepted, or why not. ALREADY_EXISTS,
// RESOURCE_EXHAUSTED and UNAVAILABLE are what may pass.
std::string format_answer(const absl::Status& status);
// OK; UNAVAILABLE, why not yet; PERMISSION_DENIED, why not; INVALID_ARGUMENT,
// the line is no answer.
absl::Status parse_answer(absl::string_view line);

}  // namespace ferry
