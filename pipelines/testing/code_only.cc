#include "pipelines/testing/code_only.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipelines/safetensors/mapped_tensor.h"
#include "pipelines/safetensors/testing/safetensors_writer.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

TensorToWrite to_write(const std::string& name, const at::Tensor& tensor) {
  return {name,
          safetensors_name(tensor.scalar_type()),
          tensor.sizes().vec(),
          {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

// Writes one file, or two and their index; returns the file to name.
absl::StatusOr<std::string> write_component(
    const std::filesystem::path& directory, const std::string& stem,
    const std::vector<TensorToWrite>& tensors,
    const TinyPipelineOptions& options) {
  if (!options.sharded) {
    const std::string file = absl::StrCat(stem, ".safetensors");
    RETURN_IF_ERROR(
        write_safetensors(directory / file, tensors, options.odd_bytes));
    return file;
  }
  nlohmann::json map;
  const auto half = static_cast<std::ptrdiff_t>((tensors.size() + 1) / 2);
  const std::vector<TensorToWrite> halves[2] = {
      {tensors.begin(), tensors.begin() + half},
      {tensors.begin() + half, tensors.end()}};
  for (int i = 0; i < 2; ++i) {
    if (halves[i].empty()) continue;
    const std::string file =
        absl::StrCat(stem, "-0000", i + 1, "-of-00002.safetensors");
    RETURN_IF_ERROR(
        write_safetensors(directory / file, halves[i], options.odd_bytes));
    for (const TensorToWrite& tensor : halves[i]) {
      map[tensor.name] = std::filesystem::path(file).filename().string();
    }
  }
  const std::string index = absl::StrCat(stem, ".safetensors.index.json");
  std::ofstream stream(directory / index);
  stream << nlohmann::json{{"metadata", {{"total_size", 1}}},
                           {"weight_map", map}};
  return index;
}

}  // namespace

absl::StatusOr<std::string> move_weights_to_files(
    const std::filesystem::path& directory, const TinyPipelineOptions& options,
    const torch::jit::Module& root) {
  std::string manifest;
  // Names of each parameter, from the root.
  std::map<const void*, std::vector<std::string>> names;
  std::vector<std::pair<std::string, std::string>> components = {
      {"text_encoder", "text_encoder/model"},
      {"vae", "vae/diffusion_pytorch_model"},
      {"transformer", "transformer/diffusion_pytorch_model"}};
  if (options.dits == 2) {
    components.emplace_back("transformer_2",
                            "transformer_2/diffusion_pytorch_model");
  }
  for (const auto& [component, stem] : components) {
    const torch::jit::Module module = root.attr(component).toModule();
    std::vector<TensorToWrite> tensors;
    for (const auto& item : module.named_parameters()) {
      auto& known = names[item.value.unsafeGetTensorImpl()];
      if (known.empty()) tensors.push_back(to_write(item.name, item.value));
      known.push_back(absl::StrCat(component, ".", item.name));
    }
    ASSIGN_OR_RETURN(const std::string file,
                     write_component(directory, stem, tensors, options));
    absl::StrAppend(&manifest, "weights { component: \"", component,
                    "\" file: \"", file, "\" }\n");
  }
  for (const at::Tensor& parameter : root.parameters()) {
    parameter.set_data(
        at::zeros({1}, parameter.options()).expand(parameter.sizes()));
  }
  for (const auto& [tensor, paths] : names) {
    if (paths.size() < 2) continue;
    absl::StrAppend(&manifest, "tied_parameters {");
    for (const std::string& path : paths) {
      absl::StrAppend(&manifest, " names: \"", path, "\"");
    }
    absl::StrAppend(&manifest, " }\n");
  }
  return manifest;
}

}  // namespace ferry
