#pragma once

namespace ferry {

// How ferryctl ends. An error that the server reports gives kServerError plus
// the gRPC status code: 67 INVALID_ARGUMENT, 69 NOT_FOUND, 72
// RESOURCE_EXHAUSTED, 78 UNAVAILABLE (also: no server there), as grpcurl does.
enum ExitCode : int {
  kSuccess = 0,
  // Unknown command or flag, or a wrong value.
  kUsage = 1,
  // A file or standard output could not be written, or what the server sent is
  // not what it says.
  kLocalError = 2,
  // `health`: the server answers, and readiness is not SERVING.
  kNotServing = 3,
  kServerError = 64,
  // Ctrl-C.
  kInterrupted = 130,
};

}  // namespace ferry
