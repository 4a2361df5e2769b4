// cuDNN, as far as LibTorch's convolutions call it with
// TORCH_CUDNN_V8_API_DISABLED=1: kernels that do nothing, one algorithm. As in
// blas.cc, without its headers.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tests/gpu/dry/library_handle.h"

using namespace ferry::dry;  // NOLINT: what follows is cuDNN's interface.

namespace {

constexpr int kSuccess = 0;
constexpr int kExecutionFailed = 5000;

int status_of(bool works) { return works ? kSuccess : kExecutionFailed; }

// cudnnConvolutionFwdAlgoPerf_t; those of the other directions are alike.
struct AlgorithmResult {
  int algorithm;
  int status;
  float milliseconds;
  size_t workspace_bytes;
  int determinism;
  int math_type;
  int reserved[3];
};

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91900; }
size_t cudnnGetCudartVersion() { return 13000; }
const char* cudnnGetErrorString(int status) {
  return status == kSuccess ? "CUDNN_STATUS_SUCCESS"
                            : "CUDNN_STATUS_EXECUTION_FAILED";
}
void cudnnGetLastErrorString(char* text, size_t bytes) {
  if (bytes > 0) *text = '\0';
}

int cudnnCreate(LibraryHandle** handle) {
  return status_of(create_handle("cudnnCreate", handle));
}
int cudnnSetStream(LibraryHandle* handle, cudaStream_t stream) {
  return status_of(set_stream("cudnnSetStream", handle, stream));
}
int cudnnGetStream(LibraryHandle* handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return kSuccess;
}

// Descriptors that nobody reads.
#define FERRY_DESCRIPTOR(kind)                           \
  int cudnnCreate##kind##Descriptor(void** descriptor) { \
    *descriptor = new int(0);                            \
    return kSuccess;                                     \
  }                                                      \
  int cudnnDestroy##kind##Descriptor(void* descriptor) { \
    delete static_cast<int*>(descriptor);                \
    return kSuccess;                                     \
  }
FERRY_DESCRIPTOR(Activation)
FERRY_DESCRIPTOR(Convolution)
FERRY_DESCRIPTOR(Filter)
FERRY_DESCRIPTOR(Tensor)

#define FERRY_SETTER(name) \
  int name() { return kSuccess; }
FERRY_SETTER(cudnnSetActivationDescriptor)
FERRY_SETTER(cudnnSetConvolutionGroupCount)
FERRY_SETTER(cudnnSetConvolutionMathType)
FERRY_SETTER(cudnnSetConvolutionNdDescriptor)
FERRY_SETTER(cudnnSetFilterNdDescriptor)
FERRY_SETTER(cudnnSetTensorNdDescriptor)

int cudnnGetConvolutionForwardAlgorithm_v7(LibraryHandle*, void*, void*, void*,
                                           void*, int wanted, int* count,
                                           AlgorithmResult* results) {
  *count = wanted > 0 ? 1 : 0;
  if (wanted > 0) {
    results[0] = {};
    results[0].algorithm = 1;
    results[0].determinism = 1;
  }
  return kSuccess;
}

int cudnnGetConvolutionForwardWorkspaceSize(LibraryHandle*, void*, void*, void*,
                                            void*, int, size_t* bytes) {
  *bytes = 0;
  return kSuccess;
}

#define FERRY_CONVOLUTION(name)                   \
  int name(LibraryHandle* handle) {               \
    return status_of(run_library(#name, handle)); \
  }
FERRY_CONVOLUTION(cudnnConvolutionForward)
FERRY_CONVOLUTION(cudnnConvolutionBiasActivationForward)

}  // extern "C"
