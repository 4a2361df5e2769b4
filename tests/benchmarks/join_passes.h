#pragma once

namespace ferry {

// join_passes: how many passes a busy group makes before the first block of a
// new request has run, the most of many requests that come at different moments
// of a pass. In the group of 4 ranks, on simulated devices, the others never
// pause.
void measure_join_passes();

}  // namespace ferry
