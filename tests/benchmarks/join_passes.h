#pragma once

namespace ferry {

// join_passes: for how many passes of a busy group a new request waits until
// its first block is there, the most of many that come at different moments of
// a pass. In the group of 4 ranks, on simulated devices, the others never
// pause.
void measure_join_passes();

}  // namespace ferry
