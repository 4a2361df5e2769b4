#include "server/ipc/worker_exit.h"

namespace ferry {

std::string describe_worker_exit(const ExitStatus& status) {
  std::string how = status.to_string();
  if (status.code() == kWorkerDeviceFailed) how += ": its device failed";
  if (status.code() == kWorkerGroupFailed) how += ": its group failed";
  return how;
}

}  // namespace ferry
