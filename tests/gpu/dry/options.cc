#include "tests/gpu/dry/options.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ferry::dry {
namespace {

template <typename Number>
void read(const char* name, Number* value) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, *value);
  if (error == std::errc() && stop == end && *value >= 0) return;
  std::fprintf(stderr, "dry CUDA: %s must be a number from 0, is \"%s\"\n",
               name, text);
  std::abort();
}

void read(const char* name, std::string* value) {
  const char* const text = std::getenv(name);
  if (text != nullptr) *value = text;
}

}  // namespace

Options read_options() {
  Options options;
  read("FERRY_DRY_CUDA_DEVICES", &options.devices);
  read("FERRY_DRY_CUDA_MEMORY", &options.memory_bytes);
  read("FERRY_DRY_CUDA_CONTEXT", &options.context_bytes);
  read("FERRY_DRY_CUDA_MAX_CONTEXTS", &options.max_contexts);
  int read_only = 1;
  read("FERRY_DRY_CUDA_READ_ONLY", &read_only);
  options.registers_read_only = read_only != 0;
  read("FERRY_DRY_CUDA_KERNEL_US", &options.kernel_us);
  read("FERRY_DRY_CUDA_NCCL_US", &options.nccl_job_us);
  read("FERRY_DRY_CUDA_LOG", &options.log);
  read("FERRY_DRY_CUDA_FAULTS", &options.faults);
  return options;
}

}  // namespace ferry::dry
