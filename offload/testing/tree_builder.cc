#include "offload/testing/tree_builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ferry {

TreeBuilder::TreeBuilder() { tree.nodes.emplace_back(); }

size_t TreeBuilder::index(const std::string& path) {
  size_t at = 0;
  if (path.empty()) return at;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    const auto& children = tree.nodes[at].children;
    const auto child =
        std::find_if(children.begin(), children.end(),
                     [&](const auto& entry) { return entry.first == part; });
    if (child != children.end()) {
      at = child->second;
      continue;
    }
    tree.nodes[at].children.emplace_back(part, tree.nodes.size());
    at = tree.nodes.size();
    tree.nodes.emplace_back();
  }
  return at;
}

ModuleNode& TreeBuilder::module(const std::string& path) {
  return tree.nodes[index(path)];
}

void TreeBuilder::blocks(const std::string& path, int count, int64_t bytes) {
  module(path).is_list = true;
  for (int i = 0; i < count; ++i) parameter(absl::StrCat(path, ".", i), bytes);
}

void TreeBuilder::alias(const std::string& path, const std::string& target) {
  const size_t module_index = index(target);
  const size_t dot = path.rfind('.');
  const std::string parent =
      dot == std::string::npos ? "" : path.substr(0, dot);
  const std::string name =
      dot == std::string::npos ? path : path.substr(dot + 1);
  module(parent).children.emplace_back(name, module_index);
}

int64_t TreeBuilder::parameter(const std::string& path, int64_t bytes) {
  storages_.push_back(bytes);
  const auto storage = static_cast<int64_t>(storages_.size()) - 1;
  view(path, storage, bytes);
  module(path).tensors.back().is_parameter = true;
  return storage;
}

void TreeBuilder::view(const std::string& path, int64_t storage,
                       int64_t bytes) {
  ModuleTensor tensor;
  tensor.identity = tensors_++;
  tensor.name = absl::StrCat("t", tensor.identity);
  tensor.storage = storage;
  tensor.storage_bytes = storages_[static_cast<size_t>(storage)];
  tensor.bytes = bytes;
  module(path).tensors.push_back(tensor);
}

void TreeBuilder::meta_parameter(const std::string& path, int64_t bytes) {
  ModuleTensor tensor;
  tensor.identity = tensors_++;
  tensor.name = absl::StrCat("t", tensor.identity);
  tensor.bytes = bytes;
  tensor.is_parameter = true;
  module(path).tensors.push_back(tensor);
}

}  // namespace ferry
