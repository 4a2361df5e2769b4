#pragma once

#include <cstddef>
#include <string>

namespace ferry::dry {

// What the machine that is stood in for is like. Each has an environment
// variable, named here.
struct Options {
  // FERRY_DRY_CUDA_DEVICES, 0 to 16.
  int devices = 1;
  // FERRY_DRY_CUDA_MEMORY: bytes of each device.
  size_t memory_bytes = size_t{4} << 30;
  // FERRY_DRY_CUDA_CONTEXT: bytes of a device that a context takes.
  size_t context_bytes = size_t{256} << 20;
  // FERRY_DRY_CUDA_MAX_CONTEXTS: on how many devices a process may make a
  // context; more break the rule "foreign_context". 0 is no limit.
  int max_contexts = 0;
  // FERRY_DRY_CUDA_READ_ONLY=0: the device registers no read-only memory.
  bool registers_read_only = true;
  // FERRY_DRY_CUDA_KERNEL_US: how long a kernel takes, in microseconds.
  int kernel_us = 0;
  // FERRY_DRY_CUDA_NCCL_US: how long NCCL's job of a group call takes before
  // its kernels stand in their streams, in microseconds.
  int nccl_job_us = 200;
  // FERRY_DRY_CUDA_LOG: a file that JSON lines are added to; empty for none.
  std::string log;
  // FERRY_DRY_CUDA_FAULTS: see FaultPlan.
  std::string faults;
};

// Options of this process's environment. A value that is no number ends the
// process: a test that runs with other options than it says proves nothing.
Options read_options();

}  // namespace ferry::dry
