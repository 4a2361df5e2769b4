#pragma once

#include <string>

#include "platform/os/exit_status.h"

namespace ferry {

// The code with which a worker ends itself when its device failed for good:
// nothing but another process can use the device again.
constexpr int kWorkerDeviceFailed = 5;
// The same when its group of ranks failed, by the loss of another one: only a
// new group can exchange weights again.
constexpr int kWorkerGroupFailed = 6;
// The same when the connection by which it had come in has ended: ferryd is
// gone, or has given up its group. Who started it starts it again, for the next
// group.
constexpr int kWorkerConnectionEnded = 7;
// The code of a worker that was not let in, or found no ferryd in time.
constexpr int kWorkerNotLetIn = 8;

// How a worker ended, as one clause about it: "exited with code 5: its device
// failed".
std::string describe_worker_exit(const ExitStatus& status);

}  // namespace ferry
