#include "pipelines/torchscript/operators/testing/operator_trials.h"

#include <ATen/ATen.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "pipelines/torchscript/operators/operator_facts.h"
#include "pipelines/torchscript/operators/testing/argument_maker.h"
#include "pipelines/torchscript/operators/testing/argument_seeds.h"

namespace ferry {
namespace {

// A tensor with a storage that is, or is a part of, a tensor of a value.
struct Part {
  size_t argument = 0;
  at::Tensor tensor;
};

enum class PartsOf { kArguments, kResults };

// Sparse tensors are taken apart. False where memory cannot be told.
bool add_parts(const at::Tensor& tensor, size_t argument, PartsOf of,
               std::vector<Part>* parts) {
  if (!tensor.defined()) return true;
  if (tensor.layout() == at::kSparse) {
    return add_parts(tensor._indices(), argument, of, parts) &&
           add_parts(tensor._values(), argument, of, parts);
  }
  if (at::sparse_csr::is_sparse_compressed(tensor)) {
    const bool rows =
        tensor.layout() == at::kSparseCsr || tensor.layout() == at::kSparseBsr;
    return add_parts(tensor.values(), argument, of, parts) &&
           add_parts(rows ? tensor.crow_indices() : tensor.ccol_indices(),
                     argument, of, parts) &&
           add_parts(rows ? tensor.col_indices() : tensor.row_indices(),
                     argument, of, parts);
  }
  if (!tensor.has_storage()) return false;
  parts->push_back({argument, tensor});
  // What a quantized tensor was made with belongs to no argument, but may have
  // been one.
  if (of == PartsOf::kResults && tensor.is_quantized() &&
      tensor.qscheme() != at::kPerTensorAffine) {
    return add_parts(tensor.q_per_channel_scales(), argument, of, parts) &&
           add_parts(tensor.q_per_channel_zero_points(), argument, of, parts);
  }
  return true;
}

bool add_parts(const c10::IValue& value, size_t argument, PartsOf of,
               std::vector<Part>* parts) {
  if (value.isTensor()) return add_parts(value.toTensor(), argument, of, parts);
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (!add_parts(element, argument, of, parts)) return false;
    }
    return true;
  }
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) {
      if (!add_parts(element, argument, of, parts)) return false;
    }
    return true;
  }
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      if (!add_parts(entry.key(), argument, of, parts) ||
          !add_parts(entry.value(), argument, of, parts)) {
        return false;
      }
    }
    return true;
  }
  return value.isNone() || value.isScalar() || value.isString() ||
         value.isDevice() || value.isSymInt() || value.isSymFloat() ||
         value.isSymBool();
}

// How an argument's tensor was before the call.
struct Before {
  explicit Before(const Part& part)
      : argument(part.argument),
        storage(part.tensor.storage()),
        sizes(part.tensor.sizes().vec()),
        strides(part.tensor.strides().vec()),
        offset(part.tensor.storage_offset()),
        dtype(part.tensor.scalar_type()),
        conjugated(part.tensor.is_conj()),
        negated(part.tensor.is_neg()),
        bytes(data(), data() + storage.nbytes()) {}

  const char* data() const { return static_cast<const char*>(storage.data()); }

  bool is_unchanged(const at::Tensor& tensor) const {
    return tensor.has_storage() && is_same(tensor.storage()) &&
           tensor.sizes() == sizes && tensor.strides() == strides &&
           tensor.storage_offset() == offset && tensor.scalar_type() == dtype &&
           tensor.is_conj() == conjugated && tensor.is_neg() == negated &&
           bytes_are_unchanged();
  }

  bool bytes_are_unchanged() const {
    return storage.nbytes() == bytes.size() &&
           (bytes.empty() ||
            std::memcmp(data(), bytes.data(), bytes.size()) == 0);
  }

  bool shares_memory(const at::Tensor& tensor) const {
    const c10::Storage& other = tensor.storage();
    if (is_same(other)) return true;
    const char* const begin = static_cast<const char*>(other.data());
    return begin != nullptr && other.nbytes() > 0 && storage.nbytes() > 0 &&
           begin < data() + storage.nbytes() && data() < begin + other.nbytes();
  }

  bool is_same(const c10::Storage& other) const {
    return storage.unsafeGetStorageImpl() == other.unsafeGetStorageImpl();
  }

  size_t argument;
  c10::Storage storage;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset;
  at::ScalarType dtype;
  bool conjugated;
  bool negated;
  std::vector<char> bytes;
};

uint64_t bit(size_t argument) { return uint64_t{1} << argument; }

// What one call has shown.
struct Seen {
  uint64_t returned = 0;
  uint64_t written = 0;
  bool kept = false;
  bool opaque = false;
  // All results are tensors without elements, which prove nothing.
  bool empty = false;
};

void compare(const std::vector<Part>& arguments,
             const std::vector<Before>& before, const torch::jit::Stack& after,
             const torch::jit::Stack& results, Seen* seen) {
  for (size_t i = 0; i < before.size(); ++i) {
    if (!before[i].is_unchanged(arguments[i].tensor)) {
      seen->written |= bit(before[i].argument);
    }
  }
  std::vector<Part> returned;
  for (const c10::IValue& result : results) {
    seen->opaque |= !add_parts(result, 0, PartsOf::kResults, &returned);
  }
  seen->empty =
      !returned.empty() &&
      std::all_of(returned.begin(), returned.end(), [](const Part& part) {
        return part.tensor.storage().nbytes() == 0;
      });
  for (const Part& part : returned) {
    for (const Before& old : before) {
      if (old.shares_memory(part.tensor)) seen->returned |= bit(old.argument);
    }
  }
  // What was put into another argument, as into a list.
  std::vector<Part> now;
  for (size_t i = 0; i < after.size(); ++i)
    add_parts(after[i], i, PartsOf::kResults, &now);
  for (const Part& part : now) {
    for (const Before& old : before) {
      if (old.argument != part.argument && old.shares_memory(part.tensor)) {
        seen->returned |= bit(old.argument);
      }
    }
  }
}

// nullopt: the operator does not take these arguments.
std::optional<Seen> call(torch::jit::Operation& operation,
                         torch::jit::Stack arguments, bool gradients) {
  const at::AutoGradMode mode(gradients);
  Seen seen;
  std::vector<Part> parts;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!add_parts(arguments[i], i, PartsOf::kArguments, &parts))
      return std::nullopt;
  }
  std::vector<Before> before;
  for (const Part& part : parts) before.emplace_back(part);
  torch::jit::Stack stack = arguments;
  try {
    operation(stack);
    compare(parts, before, arguments, stack, &seen);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  stack.clear();
  parts.clear();
  arguments.clear();
  for (const Before& old : before) {
    // Tensors of one storage, as a list that holds one twice.
    const auto same = std::count_if(
        before.begin(), before.end(),
        [&](const Before& other) { return old.is_same(other.storage); });
    // Autograd may make circles that nobody frees.
    seen.kept |=
        !gradients && old.storage.use_count() > static_cast<size_t>(same);
    if (!old.bytes_are_unchanged()) seen.written |= bit(old.argument);
  }
  return seen;
}

// Whether the operator is made of others, whatever the device: these return
// views without saying so, and are called more often.
bool is_composite(const c10::FunctionSchema& schema) {
  const auto handle = c10::Dispatcher::singleton().findOp(
      {schema.name(), schema.overload_name()});
  return handle && handle->hasKernelForDispatchKey(
                       c10::DispatchKey::CompositeImplicitAutograd);
}

uint64_t hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

// How often each sample is tried before others are made.
constexpr size_t kSamplePasses = 4;

// Fewer calls that returned are no evidence.
constexpr uint32_t kFewCalls = 20;

// The sets of an annotation, and of what is in it.
void add_sets(const c10::AliasInfo* info, std::set<c10::Symbol>* sets) {
  if (info == nullptr) return;
  sets->insert(info->beforeSets().begin(), info->beforeSets().end());
  sets->insert(info->afterSets().begin(), info->afterSets().end());
  for (const c10::AliasInfo& inner : info->containedTypes()) {
    add_sets(&inner, sets);
  }
}

// Whether the schema says that a result, or another argument, may share memory
// with the argument.
bool declares_return(const c10::FunctionSchema& schema,
                     const c10::Argument& argument) {
  std::set<c10::Symbol> results;
  for (const c10::Argument& result : schema.returns()) {
    add_sets(result.alias_info(), &results);
  }
  std::set<c10::Symbol> mine;
  add_sets(argument.alias_info(), &mine);
  const c10::Symbol anything = c10::AliasInfo::wildcardSet();
  return results.count(anything) > 0 || mine.count(anything) > 0 ||
         std::any_of(mine.begin(), mine.end(),
                     [&](c10::Symbol set) { return results.count(set) > 0; });
}

// Whether the schema says that tensors of the argument are written.
bool declares_write(const c10::Argument& argument) {
  const c10::AliasInfo* const info = argument.alias_info();
  if (info == nullptr || !info->isWrite()) return false;
  const auto kind = argument.type()->kind();
  const bool is_container =
      kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
  return !is_container || !info->containedTypes().empty();
}

}  // namespace

std::vector<std::shared_ptr<torch::jit::Operator>> all_operators() {
  std::vector<std::shared_ptr<torch::jit::Operator>> all;
  for (auto& op : torch::jit::getAllOperators()) {
    if (!op->schema().is_vararg()) all.push_back(op);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return operator_key(a->schema()) < operator_key(b->schema());
  });
  return all;
}

bool may_be_tried(const c10::FunctionSchema& schema) {
  static const auto* const kNamespaces = new std::set<std::string>{
      "c10d",     "_c10d_functional", "_c10d_functional_autograd",
      "cuda",     "_dtensor",         "profiler",
      "symm_mem", "static_runtime"};
  static const auto* const kNames = new std::set<std::string>{
      "aten::_backward",      "aten::_print",
      "aten::backward",       "aten::from_file",
      "aten::get_gradients",  "aten::grad",
      "aten::initial_seed",   "aten::load",
      "aten::manual_seed",    "aten::record_stream",
      "aten::requires_grad_", "aten::retain_grad",
      "aten::save",           "aten::seed",
      "aten::set_data",       "aten::set_grad_enabled",
      "aten::wait",           "aten::warn"};
  const std::string& name = schema.name();
  return kNamespaces->count(name.substr(0, name.find(':'))) == 0 &&
         kNames->count(name) == 0;
}

const char* why_unknown(const torch::jit::Operator& op,
                        const TrialRecord& record) {
  if (!may_be_tried(op.schema())) return "not_tried";
  if (record.successes == 0) return "not_called";
  if (record.opaque) return "object";
  if (record.kept) return "kept";
  if (record.successes < kFewCalls) return "few_calls";
  return nullptr;
}

std::vector<std::string> undeclared_returns(const c10::FunctionSchema& schema,
                                            const TrialRecord& record) {
  std::vector<std::string> names;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if ((record.returned & bit(i)) != 0 && !declares_return(schema, argument)) {
      names.push_back(argument.name());
    }
  }
  return names;
}

std::vector<std::string> undeclared_writes(const c10::FunctionSchema& schema,
                                           const TrialRecord& record) {
  std::vector<std::string> names;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if ((record.written & bit(i)) != 0 && !declares_write(argument)) {
      names.push_back(argument.name());
    }
  }
  return names;
}

void try_operator(const torch::jit::Operator& op, const TrialOptions& options,
                  const std::function<void()>& before_each,
                  TrialRecord* record) {
  const c10::FunctionSchema& schema = op.schema();
  torch::jit::Operation operation = op.getOperation();
  Draws draws(hash(operator_key(schema)) ^ options.seed ^ record->trials);
  // Seeds of calls that returned: others are varied from them.
  std::vector<ArgumentSeeds> accepted;
  // Data types that the first accepted arguments were tried with.
  size_t swept = 0;
  const uint32_t enough = options.enough * (is_composite(schema) ? 3 : 1);
  const std::vector<std::vector<std::string>> samples =
      argument_samples(operator_key(schema));
  while (record->trials <
             (record->successes > 0 ? options.limit : options.patience) &&
         (record->successes < enough ||
          record->trials < kSamplePasses * samples.size())) {
    // Each sample as it is first, and then with other data types.
    const size_t passes = record->trials / std::max<size_t>(samples.size(), 1);
    const bool is_sample = !samples.empty() && passes < kSamplePasses;
    const bool anew = is_sample || accepted.empty() || draws.percent(30);
    ArgumentSeeds seeds = anew ? draw_seeds(schema, &draws)
                               : vary_seeds(draws.one_of(accepted), &draws);
    if (is_sample || (anew && !samples.empty() && draws.percent(50))) {
      seeds.given = samples[record->trials % samples.size()];
    }
    if (is_sample && passes < 2) seeds.types = kRandomFloats;
    if (!accepted.empty() && swept < dtypes_of_tensors().size()) {
      seeds = accepted.front();
      seeds.dtype = dtypes_of_tensors()[swept++];
    }
    ++record->trials;
    before_each();
    std::optional<Seen> seen;
    try {
      auto arguments = make_arguments(schema, seeds);
      if (!arguments) continue;
      seen = call(operation, *std::move(arguments), seeds.gradients);
    } catch (const std::exception&) {
      // Arguments that LibTorch does not make.
      continue;
    }
    if (!seen) continue;
    if (!seen->empty) ++record->successes;
    record->returned |= seen->returned;
    record->written |= seen->written;
    record->kept |= seen->kept;
    record->opaque |= seen->opaque;
    if (!seen->empty && accepted.size() < 64) accepted.push_back(seeds);
  }
}

}  // namespace ferry
