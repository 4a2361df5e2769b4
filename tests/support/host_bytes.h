#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ferry/v1/pipeline.pb.h"

namespace ferry {

// Host memory of a process, in bytes, as far as it may hold weights.
struct HostBytes {
  // Its share of host arenas, and of the weight files that it has mapped.
  int64_t arenas = 0;
  int64_t files = 0;
  // Anonymous memory, in RAM.
  int64_t anonymous = 0;

  int64_t sum() const { return arenas + files + anonymous; }
  // Of several processes together.
  HostBytes& operator+=(const HostBytes& other);
};

// What a line about a measurement says of them, in MB.
std::string describe(const HostBytes& bytes);

// Of the pipeline's weights, as its report says.
int64_t weight_bytes(const v1::Pipeline& pipeline);

// From /proc/PID/smaps; zero when the process is gone. `weights` is the
// directory of its package. Walks the process's page tables: about 25 ms for
// half a gigabyte.
HostBytes read_host_bytes(pid_t pid, const std::string& weights);

// The same in less than a millisecond, for differences: `files` are all mapped
// files, libraries too, and `arenas` what the files of host arenas hold, which
// is their pages once, however often they are mapped. Nothing when the process
// is gone, or when this one may not look at the files that another one has
// mapped (CAP_CHECKPOINT_RESTORE).
std::optional<HostBytes> sample_host_bytes(pid_t pid);

}  // namespace ferry
