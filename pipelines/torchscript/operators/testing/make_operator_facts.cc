// Writes operator_facts.txt anew, in some minutes:
//   bazel run //pipelines/torchscript/operators/testing:make_operator_facts \
//     $PWD/pipelines/torchscript/operators/operator_facts.txt
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/torchscript/operators/operator_facts.h"
#include "pipelines/torchscript/operators/testing/forked_trials.h"
#include "pipelines/torchscript/operators/testing/operator_trials.h"

namespace ferry {
namespace {

constexpr size_t kChildren = 8;

constexpr TrialOptions kManyTrials = {/*enough=*/100, /*patience=*/500,
                                      /*limit=*/800, /*seed=*/0};

constexpr char kHeader[] =
    R"(# What LibTorch's operators do with the memory of their arguments, beyond what
# their schemas declare. Made by a program, see testing/make_operator_facts.cc;
# operator_facts_test checks it against the operators themselves. A line is an
# operator, with its overload, and
#   returns=A,B   a result may share memory with the arguments A and B
#   writes=A      the argument A may be written
#   unknown:WHY   nothing is known of it; every argument may be both:
#                   not_called  no arguments were found that it takes
#                   few_calls   it took too few of them
#                   object      a result's memory cannot be looked at
#                   kept        it holds on to an argument
#                   not_tried   works on the world, or on autograd's state
# Nothing: calls gave only fresh memory, and left the arguments alone.
)";

void append_names(const char* word, const std::vector<std::string>& names,
                  std::string* line) {
  if (!names.empty()) absl::StrAppend(line, word, absl::StrJoin(names, ","));
}

void add(const TrialRecord& more, TrialRecord* sum) {
  sum->successes += more.successes;
  sum->returned |= more.returned;
  sum->written |= more.written;
  sum->kept |= more.kept;
  sum->opaque |= more.opaque;
}

std::string facts_line(const torch::jit::Operator& op,
                       const TrialRecord& record) {
  const std::string key = operator_key(op.schema());
  if (const char* const reason = why_unknown(op, record)) {
    return absl::StrCat(key, " unknown:", reason, "\n");
  }
  const c10::FunctionSchema& schema = op.schema();
  std::string line = key;
  append_names(" returns=", undeclared_returns(schema, record), &line);
  append_names(" writes=", undeclared_writes(schema, record), &line);
  return line + "\n";
}

int run(const std::string& path) {
  const auto operators = all_operators();
  std::vector<TrialRecord> records(operators.size());
  for (const TrialOptions& options : {kManyTrials, kFewTrials}) {
    const absl::StatusOr<std::vector<TrialRecord>> more =
        run_forked_trials(operators, options, kChildren);
    if (!more.ok()) {
      std::cerr << more.status() << "\n";
      return 1;
    }
    for (size_t i = 0; i < records.size(); ++i) add((*more)[i], &records[i]);
  }
  std::string text = kHeader;
  for (size_t i = 0; i < operators.size(); ++i) {
    text += facts_line(*operators[i], records[i]);
  }
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? 0 : 1;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_operator_facts FILE\n";
    return 2;
  }
  return ferry::run(argv[1]);
}
