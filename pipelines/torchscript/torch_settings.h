#pragma once

#include <c10/core/GradMode.h>

namespace ferry {

// Sets LibTorch's process-wide switches so that equal requests give equal
// bytes: no fusers, no profiling executor (whose second and third run would
// execute other graphs than the first), deterministic algorithms where the
// libraries offer a choice, one inter-op thread. The precision of float32 on a
// GPU is PyTorch's, and so diffusers': TF32 for convolutions, and not for
// matrix products. Can be called again, and undoes what others have set
// meanwhile.
void set_deterministic_mode();

// Runs what is in its scope without gradients and with `intra_op_threads`
// threads in an operator. Needed on every thread that calls modules: OpenMP
// keeps the count for each thread.
class TorchScope {
 public:
  explicit TorchScope(int intra_op_threads);

 private:
  c10::AutoGradMode no_grad_{false};
};

}  // namespace ferry
