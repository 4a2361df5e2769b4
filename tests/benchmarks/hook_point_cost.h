#pragma once

namespace ferry {

// hook_point_ns: what a hook point without hooks adds to a call of a block;
// each block has two, before and after.
void measure_hook_point();

}  // namespace ferry
