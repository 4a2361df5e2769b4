#include "offload/module_tree.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "platform/base/saturating_math.h"

namespace ferry {

ModuleLookup ModuleTree::find(size_t from, absl::string_view path) const {
  using Kind = ModuleLookup::Kind;
  ModuleLookup found{Kind::kModule, from};
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    if (found.kind != Kind::kModule) return {Kind::kMissing, 0};
    const ModuleNode& node = nodes[found.module];
    const auto child =
        std::find_if(node.children.begin(), node.children.end(),
                     [&](const auto& entry) { return entry.first == part; });
    if (child != node.children.end()) {
      found.module = child->second;
    } else if (node.other_attributes.count(std::string(part)) > 0) {
      found = {Kind::kNoModule, 0};
    } else {
      return {Kind::kMissing, 0};
    }
  }
  return found;
}

void ModuleTree::for_each_node(
    absl::FunctionRef<void(const ModuleNode&, const std::string&)> function)
    const {
  std::set<size_t> seen;
  std::vector<std::pair<size_t, std::string>> pending = {{0, ""}};
  while (!pending.empty()) {
    const auto [index, prefix] = std::move(pending.back());
    pending.pop_back();
    if (!seen.insert(index).second) continue;
    const ModuleNode& node = nodes[index];
    function(node, prefix);
    for (auto child = node.children.rbegin(); child != node.children.rend();
         ++child) {
      pending.emplace_back(child->second,
                           absl::StrCat(prefix, child->first, "."));
    }
  }
}

void ModuleTree::for_each_tensor(
    absl::FunctionRef<void(const ModuleTensor&, const std::string&)> function)
    const {
  std::set<int64_t> seen;
  for_each_node([&](const ModuleNode& node, const std::string& prefix) {
    for (const ModuleTensor& tensor : node.tensors) {
      if (!seen.insert(tensor.identity).second) continue;
      function(tensor, absl::StrCat(prefix, tensor.name));
    }
  });
}

std::vector<size_t> ModuleTree::subtree(size_t module) const {
  std::vector<size_t> found = {module};
  std::set<size_t> seen = {module};
  for (size_t next = 0; next < found.size(); ++next) {
    for (const auto& [name, child] : nodes[found[next]].children) {
      if (seen.insert(child).second) found.push_back(child);
    }
  }
  return found;
}

int64_t ModuleTree::parameter_bytes(size_t module) const {
  int64_t bytes = 0;
  std::set<int64_t> seen;
  for (size_t index : subtree(module)) {
    for (const ModuleTensor& tensor : nodes[index].tensors) {
      if (tensor.is_parameter && seen.insert(tensor.identity).second) {
        bytes = saturating_add(bytes, tensor.bytes);
      }
    }
  }
  return bytes;
}

int64_t ModuleTree::storage_bytes(size_t module) const {
  int64_t bytes = 0;
  std::set<int64_t> seen;
  for (size_t index : subtree(module)) {
    for (const ModuleTensor& tensor : nodes[index].tensors) {
      if (tensor.storage >= 0 && seen.insert(tensor.storage).second) {
        bytes = saturating_add(bytes, tensor.storage_bytes);
      }
    }
  }
  return bytes;
}

}  // namespace ferry
