#include "platform/os/host_name.h"

#include <unistd.h>

namespace ferry {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name[0] == '\0' ? "unknown" : name;
}

}  // namespace ferry
