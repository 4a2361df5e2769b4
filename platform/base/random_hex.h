#pragma once

#include <string>

namespace ferry {

// `words` × 8 hexadecimal digits from the system's entropy: a name that nobody
// else draws or guesses. Thread-safe.
std::string random_hex(int words);

}  // namespace ferry
