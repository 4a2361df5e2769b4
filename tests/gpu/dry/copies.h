#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "tests/gpu/dry/streams.h"

namespace ferry::dry {

// Gives a copy to a stream, as `call`. Refuses what CUDA would: a device's side
// that is no device memory or reaches over its allocation's end, a host's side
// that reaches over a registration's end, a direction that is not that of the
// sides.
//
// Host memory that is not page-locked is read before it returns, and written
// before it returns. `waits`: returns only when the copy is done.
cudaError_t copy(const char* call, void* to, const void* from, size_t bytes,
                 cudaMemcpyKind kind, cudaStream_t stream, bool waits);

cudaError_t fill(const char* call, void* to, int value, size_t bytes,
                 cudaStream_t stream, bool waits);

// Of the copies under way that read or write these bytes of host memory.
std::vector<CompletionPtr> copies_of(const void* data, size_t bytes);

}  // namespace ferry::dry
