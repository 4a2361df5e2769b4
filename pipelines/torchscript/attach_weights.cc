#include "pipelines/torchscript/attach_weights.h"

#include <ATen/core/ivalue.h>

#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "pipelines/safetensors/mapped_tensor.h"
#include "pipelines/safetensors/problems.h"
#include "pipelines/safetensors/weight_files.h"

namespace ferry {
namespace {

using Object = c10::ivalue::Object;
using ObjectPtr = c10::intrusive_ptr<Object>;

std::string join_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : absl::StrCat(path, ".", name);
}

std::string shape_text(at::IntArrayRef shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// An attribute of an object.
struct Place {
  ObjectPtr object;
  size_t slot = 0;

  c10::IValue value() const { return object->getSlot(slot); }
};

// Follows a dotted path; nothing when it leads nowhere.
std::optional<Place> find_place(ObjectPtr object, absl::string_view path) {
  Place place{std::move(object), 0};
  bool is_first = true;
  for (absl::string_view name : absl::StrSplit(path, '.')) {
    if (!is_first) {
      const c10::IValue value = place.value();
      if (!value.isObject()) return std::nullopt;
      place.object = value.toObject();
    }
    const auto slot =
        place.object->type()->findAttributeSlot(std::string(name));
    if (!slot) return std::nullopt;
    place.slot = *slot;
    is_first = false;
  }
  return place;
}

// A parameter of the module, once for all of its names.
struct Parameter {
  std::string path;
  Place place;
  at::Tensor tensor;
  // What it gets; null: nothing yet.
  const StoredTensor* source = nullptr;
};

// Does the work of attach_weights().
class Attacher {
 public:
  Attacher(const torch::jit::Module& root, std::string archive,
           std::optional<c10::ScalarType> compute_dtype)
      : root_(root._ivalue()),
        archive_(std::move(archive)),
        compute_dtype_(compute_dtype) {
    collect(root, "");
  }

  absl::Status run(const std::filesystem::path& package,
                   const WeightSources& sources) {
    std::vector<std::vector<StoredTensor>> files;
    for (const WeightSources::Component& component : sources.components) {
      auto tensors = read_weight_files(package, component.file);
      if (!tensors.ok()) {
        problems_.add(tensors.status());
        is_incomplete_ = true;
        continue;
      }
      files.push_back(*std::move(tensors));
      deal(component, files.back());
    }
    for (const std::vector<std::string>& names : sources.ties) tie(names);
    // What a file that cannot be read holds, nobody knows.
    if (!is_incomplete_) find_missing(sources.components.empty());
    if (problems_.empty()) attach(sources.alignment);
    return problems_.status();
  }

 private:
  void collect(const torch::jit::Module& module, const std::string& path) {
    const ObjectPtr object = module._ivalue();
    if (!modules_.insert(object.get()).second) return;
    const auto type = module.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const c10::IValue& value = object->getSlot(slot);
      const std::string name = join_path(path, type->getAttributeName(slot));
      if (value.isModule()) {
        collect(value.toModule(), name);
      } else if (type->is_parameter(slot) && value.isTensor() &&
                 value.toTensor().defined()) {
        numbers_[{object.get(), slot}] = parameters_.size();
        parameters_.push_back({name, {object, slot}, value.toTensor()});
      }
    }
  }

  // Null when there is none.
  Parameter* parameter_at(const Place& place) {
    const auto number = numbers_.find({place.object.get(), place.slot});
    return number == numbers_.end() ? nullptr : &parameters_[number->second];
  }

  // Hands the tensors of a component's files to the parameters.
  void deal(const WeightSources::Component& component,
            const std::vector<StoredTensor>& tensors) {
    if (!component.path.empty()) {
      const auto place = find_place(root_, component.path);
      if (!place || !place->value().isModule()) {
        problems_.add(absl::StrCat(component.file, ": ", archive_,
                                   " has no module ",
                                   quote_name(component.path), " for it"));
        is_incomplete_ = true;
        return;
      }
    }
    for (const StoredTensor& tensor : tensors) {
      give(join_path(component.path, tensor.entry.name), tensor);
    }
  }

  template <typename... Parts>
  void refuse(const StoredTensor& tensor, const Parts&... parts) {
    problems_.add(absl::StrCat(tensor.file->name(), ": tensor ",
                               quote_name(tensor.entry.name), ": ", parts...));
  }

  void give(const std::string& path, const StoredTensor& tensor) {
    const auto place = find_place(root_, path);
    const c10::IValue value = place ? place->value() : c10::IValue();
    if (!value.isTensor() || !value.toTensor().defined()) {
      refuse(tensor, archive_, " has no parameter ", quote_name(path));
      return;
    }
    Parameter* const parameter = parameter_at(*place);
    if (parameter == nullptr) {
      // A buffer: the module has its values.
      if (value.toTensor().sizes() != tensor.entry.shape) {
        refuse(tensor, "has the shape ", shape_text(tensor.entry.shape),
               ", and the buffer of ", archive_, " has ",
               shape_text(value.toTensor().sizes()));
      }
      return;
    }
    // By another name of the module that holds it.
    if (parameter->source != nullptr) {
      check_same(*parameter->source, tensor, "which is the same parameter");
      return;
    }
    parameter->source = &tensor;
    check(*parameter, tensor);
  }

  void check(const Parameter& parameter, const StoredTensor& stored) {
    const at::Tensor& tensor = parameter.tensor;
    if (!is_placeholder(tensor) && tensor.numel() > 1) {
      refuse(stored, archive_, " holds the values of ", parameter.path,
             "; it must be a placeholder, or not be in the file");
      return;
    }
    const c10::ScalarType type = to_scalar_type(stored.entry.dtype);
    const bool is_converted = compute_dtype_ && c10::isFloatingType(type) &&
                              tensor.is_floating_point();
    if (tensor.sizes() == stored.entry.shape &&
        (tensor.scalar_type() == type || is_converted)) {
      return;
    }
    refuse(stored, "is ", to_string(stored.entry.dtype), " ",
           shape_text(stored.entry.shape), ", and ", archive_, " expects ",
           safetensors_name(tensor.scalar_type()), " ",
           shape_text(tensor.sizes()), " for ", parameter.path);
  }

  // Gives all parameters of a set what one of them has.
  void tie(const std::vector<std::string>& names) {
    std::vector<Parameter*> members;
    for (const std::string& name : names) {
      const auto place = find_place(root_, name);
      Parameter* const member = place ? parameter_at(*place) : nullptr;
      if (member == nullptr) {
        problems_.add(absl::StrCat("tied_parameters: ", archive_,
                                   " has no parameter ", quote_name(name)));
        return;
      }
      members.push_back(member);
    }
    const StoredTensor* source = nullptr;
    for (const Parameter* member : members) {
      if (member->source == nullptr) continue;
      if (source == nullptr) source = member->source;
      check_same(*source, *member->source, "to which it is tied");
    }
    if (source == nullptr) return;
    for (Parameter* member : members) {
      if (member->source == nullptr) check(*member, *source);
      member->source = source;
    }
  }

  // Of two tensors that are one.
  void check_same(const StoredTensor& a, const StoredTensor& b,
                  const char* why) {
    if (&a == &b) return;
    if (a.entry.dtype == b.entry.dtype && a.entry.shape == b.entry.shape &&
        std::memcmp(a.data(), b.data(), static_cast<size_t>(a.entry.bytes)) ==
            0) {
      return;
    }
    refuse(b, "differs from tensor ", quote_name(a.entry.name), " of ",
           a.file->name(), ", ", why);
  }

  void find_missing(bool no_files) {
    for (const Parameter& parameter : parameters_) {
      if (parameter.source != nullptr || !is_placeholder(parameter.tensor)) {
        continue;
      }
      problems_.add(absl::StrCat(
          archive_, ": parameter ", parameter.path, " has no values, and ",
          no_files ? "the manifest names no weights"
                   : "no file of the manifest's weights holds it"));
    }
  }

  void attach(int64_t alignment) {
    std::map<const StoredTensor*, at::Tensor> tensors;
    for (const Parameter& parameter : parameters_) {
      if (parameter.source == nullptr) continue;
      at::Tensor& tensor = tensors[parameter.source];
      if (tensor.defined()) continue;
      const c10::ScalarType type =
          to_scalar_type(parameter.source->entry.dtype);
      // What is converted gets other memory anyway.
      const bool is_final = !compute_dtype_ || !c10::isFloatingType(type) ||
                            type == *compute_dtype_;
      tensor = make_mapped_tensor(*parameter.source, is_final ? alignment : 1);
    }
    for (const Parameter& parameter : parameters_) {
      if (parameter.source == nullptr) continue;
      parameter.place.object->setSlot(parameter.place.slot,
                                      tensors[parameter.source]);
    }
  }

  const ObjectPtr root_;
  const std::string archive_;
  const std::optional<c10::ScalarType> compute_dtype_;
  std::set<const Object*> modules_;
  std::vector<Parameter> parameters_;
  // Object and slot → place in parameters_.
  std::map<std::pair<const Object*, size_t>, size_t> numbers_;
  // Some files are not known.
  bool is_incomplete_ = false;
  Problems problems_;
};

}  // namespace

bool is_placeholder(const at::Tensor& parameter) {
  if (parameter.is_meta()) return true;
  if (parameter.layout() != c10::kStrided || parameter.is_nested() ||
      parameter.is_quantized() || parameter.numel() <= 1) {
    return false;
  }
  for (int64_t d = 0; d < parameter.dim(); ++d) {
    if (parameter.size(d) > 1 && parameter.stride(d) != 0) return false;
  }
  return true;
}

absl::Status attach_weights(const std::filesystem::path& package,
                            const WeightSources& sources,
                            std::optional<c10::ScalarType> compute_dtype,
                            const std::string& archive,
                            const torch::jit::Module& root) {
  return Attacher(root, archive, compute_dtype).run(package, sources);
}

}  // namespace ferry
