#pragma once

#include <torch/csrc/jit/runtime/operator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ferry {

// Every operator of LibTorch that has a schema, sorted by key.
std::vector<std::shared_ptr<torch::jit::Operator>> all_operators();

// What calls of an operator have shown. Plain memory: it is shared between
// processes.
struct TrialRecord {
  // Calls so far, and those of them that returned something.
  uint32_t trials = 0;
  uint32_t successes = 0;
  // Calls that ended the process, or that ran for too long.
  uint32_t crashes = 0;
  // Bit i: argument i. A result shared memory with it, and it was changed.
  uint64_t returned = 0;
  uint64_t written = 0;
  // The memory of an argument was held on to after the call.
  bool kept = false;
  // A result was of a kind whose memory cannot be told, as an object.
  bool opaque = false;
  // The operator is being tried, and has been.
  bool calling = false;
  bool done = false;
};

struct TrialOptions {
  // Enough calls that returned (of operators that are made of others three
  // times as many), and the most calls: until one has returned, and altogether.
  uint32_t enough = 0;
  uint32_t patience = 0;
  uint32_t limit = 0;
  // Another seed gives other arguments.
  uint64_t seed = 0;
};

// False for operators that work on the world (processes, files, devices) or on
// autograd's state, which no comparison of memory shows. They are not called.
bool may_be_tried(const c10::FunctionSchema& schema);

// Calls the operator with many arguments and adds what it sees to the record,
// after `record->trials` calls that were made before. The call may write to
// memory that is not its own or end the process: see forked_trials.h.
// `before_each` runs before each call.
void try_operator(const torch::jit::Operator& op, const TrialOptions& options,
                  const std::function<void()>& before_each,
                  TrialRecord* record);

// Why the record is no evidence; nullptr: it is.
const char* why_unknown(const torch::jit::Operator& op,
                        const TrialRecord& record);

// The names of the arguments that the record says a result may share memory
// with, or that are written, where the schema does not.
std::vector<std::string> undeclared_returns(const c10::FunctionSchema& schema,
                                            const TrialRecord& record);
std::vector<std::string> undeclared_writes(const c10::FunctionSchema& schema,
                                           const TrialRecord& record);

}  // namespace ferry
