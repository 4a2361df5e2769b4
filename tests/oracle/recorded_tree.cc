#include "tests/oracle/recorded_tree.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/offload_plan.h"

namespace ferry {
namespace {

using json = nlohmann::ordered_json;

constexpr int64_t kMiB = 1 << 20;

template <typename T>
void read(const json& object, const char* key, T* out) {
  const auto found = object.find(key);
  if (found != object.end()) *out = found->get<T>();
}

// Builds the nodes; references are followed when all of them exist.
class TreeReader {
 public:
  absl::StatusOr<ModuleTree> run(const json& record) {
    add(record.at("pipeline"));
    for (const Reference& reference : references_) {
      const ModuleLookup found = tree_.find(0, reference.path);
      if (found.kind != ModuleLookup::Kind::kModule) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the reference to ", reference.path, " leads nowhere"));
      }
      tree_.nodes[reference.parent].children[reference.child].second =
          found.module;
    }
    if (!record.at("declared").is_null()) {
      read_declarations(record.at("declared"));
    }
    if (!record.at("plan").is_null()) read_plan(record.at("plan"));
    return std::move(tree_);
  }

 private:
  // A child that is the module at a path.
  struct Reference {
    size_t parent;
    size_t child;
    std::string path;
  };

  size_t add(const json& record) {
    const size_t index = tree_.nodes.size();
    tree_.nodes.emplace_back();
    ModuleNode node;
    if (record.at("kind") == "list") {
      node.is_list = true;
      size_t position = 0;
      for (const json& item : record.at("items")) {
        add_child(item, index, absl::StrCat(position++), &node);
      }
    } else {
      read_module(record, &node);
      for (const auto& [name, child] : record.at("children").items()) {
        add_child(child, index, name, &node);
      }
    }
    tree_.nodes[index] = std::move(node);
    return index;
  }

  void add_child(const json& record, size_t parent, const std::string& name,
                 ModuleNode* node) {
    if (record.at("kind") == "ref") {
      references_.push_back({parent, node->children.size(), record.at("path")});
      node->children.emplace_back(name, 0);
    } else {
      node->children.emplace_back(name, add(record));
    }
  }

  void read_module(const json& record, ModuleNode* node) {
    read(record, "lifecycle", &node->on_demand_lifecycle);
    read(record, "is_loaded", &node->is_loaded);
    add_parameter(record.value("params", int64_t{0}) * 4, true, node);
    add_parameter(record.value("meta_mib", int64_t{0}) * kMiB, false, node);
    const auto attributes = record.find("class_attrs");
    if (attributes == record.end()) return;
    if (attributes->contains("_layerwise_offload_blocks_attrs")) {
      read(*attributes, "_layerwise_offload_blocks_attrs",
           &node->blocks_attrs.emplace());
    }
    const auto deprecated = attributes->find("_layerwise_offload_blocks_attr");
    if (deprecated == attributes->end()) return;
    if (deprecated->is_string()) {
      node->deprecated_blocks_attr = {deprecated->get<std::string>()};
    } else {
      node->deprecated_blocks_attr =
          deprecated->get<std::vector<std::string>>();
    }
  }

  void add_parameter(int64_t bytes, bool loaded, ModuleNode* node) {
    if (bytes == 0) return;
    ModuleTensor tensor;
    tensor.name = loaded ? "weight" : "meta_weight";
    tensor.identity = tensors_++;
    tensor.bytes = bytes;
    tensor.is_parameter = true;
    if (loaded) {
      tensor.storage = tensor.identity;
      tensor.storage_bytes = bytes;
    }
    node->tensors.push_back(std::move(tensor));
  }

  void read_declarations(const json& record) {
    SupportsComponentDiscovery& declared = tree_.declarations.emplace();
    read(record, "_dit_modules", &declared.dit_modules);
    read(record, "_encoder_modules", &declared.encoder_modules);
    read(record, "_vae_modules", &declared.vae_modules);
    read(record, "_resident_modules", &declared.resident_modules);
  }

  void read_plan(const json& record) {
    OffloadPlan& plan = tree_.plan.emplace();
    read(record, "block_attrs", &plan.block_attrs);
    read(record, "offload_submodules", &plan.offload_submodules);
    read(record, "resident_dit_paths", &plan.resident_dit_paths);
    read(record, "encoder_component_types", &plan.encoder_component_types);
    read(record, "encoder_block_attrs", &plan.encoder_block_attrs);
    read(record, "encoder_dlo_weight_replication",
         &plan.encoder_dlo_weight_replication);
    read(record, "on_demand_component_paths", &plan.on_demand_component_paths);
  }

  ModuleTree tree_;
  std::vector<Reference> references_;
  int64_t tensors_ = 0;
};

}  // namespace

absl::StatusOr<ModuleTree> read_recorded_tree(const json& record) {
  try {
    return TreeReader().run(record);
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace ferry
