#include "tests/offload/program_package.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <stdlib.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cerrno>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "offload/torch_status.h"
#include "pipelines/safetensors/mapped_tensor.h"
#include "pipelines/safetensors/testing/safetensors_writer.h"
#include "pipelines/torchscript/attach_weights.h"
#include "platform/base/status_macros.h"
#include "tests/offload/load_program.h"
#include "tests/offload/trace_program.h"

namespace ferry {
namespace {

using Holder = ProgramAttribute::Holder;

constexpr char kWeightFile[] = "model.safetensors";

// All tensors that files may hold are parameters: dense ones, each by itself.
RandomProgram with_parameters(RandomProgram program) {
  for (ProgramClass& made : program.classes) {
    for (ProgramAttribute& attribute : made.attributes) {
      if (attribute.holder != Holder::kBuffer) continue;
      attribute.holder = Holder::kParameter;
      attribute.layout = ProgramAttribute::Layout::kContiguous;
    }
  }
  return program;
}

// Writes the parameters of a module into a file, and leaves placeholders.
absl::Status move_to_file(const torch::jit::Module& root,
                          const std::filesystem::path& file,
                          std::vector<std::vector<std::string>>* ties) {
  std::vector<TensorToWrite> tensors;
  // Names of each parameter.
  std::map<const void*, std::vector<std::string>> names;
  for (const auto& [name, tensor] : root.named_parameters()) {
    std::vector<std::string>& known = names[tensor.unsafeGetTensorImpl()];
    known.push_back(name);
    if (known.size() > 1) continue;
    tensors.push_back(
        {name,
         safetensors_name(tensor.scalar_type()),
         tensor.sizes().vec(),
         {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  RETURN_IF_ERROR(write_safetensors(file, tensors));
  for (const at::Tensor& parameter : root.parameters()) {
    parameter.set_data(
        at::zeros({1}, parameter.options()).expand(parameter.sizes()));
  }
  for (auto& [tensor, paths] : names) {
    if (paths.size() > 1) ties->push_back(std::move(paths));
  }
  return absl::OkStatus();
}

std::string archive_of(const torch::jit::Module& root) {
  std::ostringstream archive;
  root.save(archive);
  return archive.str();
}

}  // namespace

const char* to_string(ProgramForm form) {
  static constexpr const char* kNames[] = {"scripted", "traced", "code-only"};
  return kNames[static_cast<size_t>(form)];
}

absl::StatusOr<std::unique_ptr<ProgramPackage>> ProgramPackage::create(
    const RandomProgram& program, ProgramForm form) {
  std::unique_ptr<ProgramPackage> package(new ProgramPackage(
      form == ProgramForm::kCodeOnly ? with_parameters(program) : program,
      form));
  absl::Status packed;
  RETURN_IF_ERROR(call_torch("pack", [&] { packed = package->pack(); }));
  RETURN_IF_ERROR(packed);
  return package;
}

ProgramPackage::~ProgramPackage() {
  if (!directory_.empty()) std::filesystem::remove_all(directory_);
}

absl::Status ProgramPackage::pack() {
  switch (form_) {
    case ProgramForm::kScripted:
      break;
    case ProgramForm::kTraced:
      archive_ = trace_program(program_);
      break;
    case ProgramForm::kCodeOnly: {
      std::string name =
          (std::filesystem::temp_directory_path() / "program.XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) {
        return absl::ErrnoToStatus(errno, name);
      }
      directory_ = name;
      const torch::jit::Module root = load_program(program_);
      RETURN_IF_ERROR(
          move_to_file(root, directory_ / kWeightFile, &sources_.ties));
      sources_.components = {{"", kWeightFile}};
      archive_ = archive_of(root);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<torch::jit::Module> ProgramPackage::load() const {
  torch::jit::Module root;
  if (form_ == ProgramForm::kScripted) {
    RETURN_IF_ERROR(call_torch("load", [&] { root = load_program(program_); }));
    return root;
  }
  absl::Status attached;
  RETURN_IF_ERROR(call_torch("load", [&] {
    std::istringstream archive(archive_);
    root = torch::jit::load(archive);
    if (directory_.empty()) return;
    attached =
        attach_weights(directory_, sources_, std::nullopt, "program.pt", root);
  }));
  RETURN_IF_ERROR(attached);
  return root;
}

absl::StatusOr<std::vector<torch::jit::Module>> ProgramPackage::load_resident(
    int count) const {
  std::vector<torch::jit::Module> modules;
  if (form_ == ProgramForm::kTraced) {
    while (modules.size() < static_cast<size_t>(count)) {
      ASSIGN_OR_RETURN(torch::jit::Module root, load());
      modules.push_back(std::move(root));
    }
    return modules;
  }
  RETURN_IF_ERROR(call_torch("load", [&] {
    const CompiledProgram compiled(program_);
    while (modules.size() < static_cast<size_t>(count)) {
      modules.push_back(compiled.make_root());
    }
  }));
  return modules;
}

}  // namespace ferry
