#include "platform/base/random_hex.h"

#include <random>

#include "absl/strings/str_format.h"

namespace ferry {

std::string random_hex(int words) {
  // Safe to use from many threads as long as each has its own.
  std::random_device device;
  std::string result;
  for (int i = 0; i < words; ++i) {
    absl::StrAppendFormat(&result, "%08x", device());
  }
  return result;
}

}  // namespace ferry
