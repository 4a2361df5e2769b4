#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/job_event.pb.h"

namespace ferry {

// An output whose bytes are complete and are what the server says.
struct FinishedOutput {
  v1::OutputInfo info;
  std::string data;
};

// Puts outputs together from their chunks and checks them: offsets without
// gaps, size and SHA-256.
//
// Errors: DATA_LOSS names the output and what differs.
// Threads: not thread-safe.
class OutputCollector {
 public:
  // Returns the output that this chunk completes, or nothing.
  absl::StatusOr<std::optional<FinishedOutput>> add(
      const v1::OutputChunk& chunk);

 private:
  std::map<int32_t, std::string> partial_;
};

// Hexadecimal, as OutputInfo.sha256.
std::string sha256_hex(const std::string& data);

// Where output `index` of `count` goes: `path` itself when there is one, else
// with the index before the extension, `fox.png` → `fox-0.png`.
std::string output_path(const std::string& path, int index, int count);

}  // namespace ferry
