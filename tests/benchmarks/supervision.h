#pragma once

#include <functional>

namespace ferry {

// Runs `work` in a process of its own, with an empty directory as TEST_TMPDIR,
// and returns its exit code: 0, or 1 when `work` threw or a signal ended it.
// However it ends, and when this process gets SIGINT or SIGTERM: every process
// that it has started ends too, and the directory goes.
//
// REQUIRES: has_one_thread().
int run_supervised(const std::function<void()>& work);

}  // namespace ferry
