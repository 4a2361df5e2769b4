// A libFuzzer program of the target FERRY_FUZZ_TARGET.

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ferry::FERRY_FUZZ_TARGET(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
