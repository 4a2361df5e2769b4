#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <string>

#include "tests/offload/stream_case.h"

namespace ferry {

// Columns of what passes through the blocks.
inline constexpr int kStreamWidth = 8;

// A root module that is like the case says, with the method
//   denoise(x, level: float, fail: bool) -> Tensor
// x and the result: [2, kStreamWidth]. Levels below 500 run the second DiT
// instead, if there is one. Failing raises in the middle of a pass.
torch::jit::Module make_stream_model(const StreamCase& wanted);

// The dotted path of the DiT that levels from 500 on run.
inline constexpr char kStreamDit[] = "transformer";

}  // namespace ferry
