// cuBLAS and cuBLASLt, as LibTorch calls them: products are kernels that do
// nothing. Without their headers, which the build does not have: the symbols
// and the parameters that are read are written out here, and enumerations are
// ints.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tests/gpu/dry/library_handle.h"

using namespace ferry::dry;  // NOLINT: what follows is cuBLAS's interface.

namespace {

constexpr int kSuccess = 0;
constexpr int kExecutionFailed = 13;

int status_of(bool works) { return works ? kSuccess : kExecutionFailed; }

// cublasLtMatmulHeuristicResult_t.
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

// A descriptor of cuBLASLt that nobody reads.
int make_descriptor(void** descriptor) {
  *descriptor = new int(0);
  return kSuccess;
}

int free_descriptor(void* descriptor) {
  delete static_cast<int*>(descriptor);
  return kSuccess;
}

}  // namespace

extern "C" {

int cublasCreate_v2(LibraryHandle** handle) {
  return status_of(create_handle("cublasCreate", handle));
}
int cublasDestroy_v2(LibraryHandle* handle) {
  return status_of(destroy_handle("cublasDestroy", handle));
}
int cublasSetStream_v2(LibraryHandle* handle, cudaStream_t stream) {
  return status_of(set_stream("cublasSetStream", handle, stream));
}
int cublasSetWorkspace_v2(LibraryHandle*, void*, size_t) { return kSuccess; }
int cublasSetMathMode(LibraryHandle*, int) { return kSuccess; }
int cublasGetMathMode(LibraryHandle*, int* mode) {
  *mode = 0;
  return kSuccess;
}
int cublasSetPointerMode_v2(LibraryHandle*, int) { return kSuccess; }
int cublasGetPointerMode_v2(LibraryHandle*, int* mode) {
  *mode = 0;
  return kSuccess;
}

// Products of which only the handle counts.
#define FERRY_PRODUCT(name)                       \
  int name(LibraryHandle* handle) {               \
    return status_of(run_library(#name, handle)); \
  }
FERRY_PRODUCT(cublasCgemm_v2)
FERRY_PRODUCT(cublasCgemmStridedBatched)
FERRY_PRODUCT(cublasCgemv_v2)
FERRY_PRODUCT(cublasDdot_v2)
FERRY_PRODUCT(cublasDgemm_v2)
FERRY_PRODUCT(cublasDgemmStridedBatched)
FERRY_PRODUCT(cublasDgemv_v2)
FERRY_PRODUCT(cublasDotEx)
FERRY_PRODUCT(cublasGemmEx)
FERRY_PRODUCT(cublasGemmStridedBatchedEx)
FERRY_PRODUCT(cublasSdot_v2)
FERRY_PRODUCT(cublasSgemm_v2)
FERRY_PRODUCT(cublasSgemmEx)
FERRY_PRODUCT(cublasSgemmStridedBatched)
FERRY_PRODUCT(cublasSgemv_v2)
FERRY_PRODUCT(cublasZgemm_v2)
FERRY_PRODUCT(cublasZgemmStridedBatched)
FERRY_PRODUCT(cublasZgemv_v2)

size_t cublasLtGetVersion() { return 130100; }

int cublasLtMatmulDescCreate(void** descriptor, int, int) {
  return make_descriptor(descriptor);
}
int cublasLtMatmulDescDestroy(void* descriptor) {
  return free_descriptor(descriptor);
}
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) {
  return kSuccess;
}
int cublasLtMatmulPreferenceCreate(void** descriptor) {
  return make_descriptor(descriptor);
}
int cublasLtMatmulPreferenceDestroy(void* descriptor) {
  return free_descriptor(descriptor);
}
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) {
  return kSuccess;
}
int cublasLtMatrixLayoutCreate(void** descriptor, int, uint64_t, uint64_t,
                               int64_t) {
  return make_descriptor(descriptor);
}
int cublasLtMatrixLayoutDestroy(void* descriptor) {
  return free_descriptor(descriptor);
}
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t) {
  return kSuccess;
}

int cublasLtMatmulAlgoGetHeuristic(LibraryHandle*, void*, void*, void*, void*,
                                   void*, void*, int wanted, Heuristic* results,
                                   int* count) {
  *count = wanted > 0 ? 1 : 0;
  if (wanted > 0) results[0] = {};
  return kSuccess;
}

// cuBLASLt is told the stream; the handle's is of no account.
int cublasLtMatmul(LibraryHandle* handle, void*, const void*, const void*,
                   void*, const void*, void*, const void*, const void*, void*,
                   void*, void*, const void*, void*, size_t,
                   cudaStream_t stream) {
  LibraryHandle on{handle->device, stream};
  return status_of(run_library("cublasLtMatmul", &on));
}

}  // extern "C"
