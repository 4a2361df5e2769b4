#pragma once

namespace ferry {

// From now on a crash (SIGSEGV, SIGABRT and their like) writes its stack to
// standard error before the process ends by it. SIGTERM is none: who is asked
// to end ends as before. Call first in main(); `program` is its argv[0].
void report_crashes(const char* program);

}  // namespace ferry
