#pragma once

#include <string>

namespace ferry {

// What the daemon adds to a generation (generate_overhead): the time from
// sending Generate to the end of its stream, divided by the time that the
// one-process runner takes for the same work (encode_prompt, loop, decode,
// PNG). Both are warm and use one thread. The pictures must be equal byte for
// byte.
void measure_generate_overhead(const std::string& package);

}  // namespace ferry
