#include "tests/oracle/compare_cases.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config_json.h"
#include "offload/plan_resolver.h"
#include "platform/base/status_macros.h"
#include "tests/oracle/recorded_tree.h"

namespace ferry {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

absl::StatusOr<OffloadConfig> resolve_config(const ordered_json& od_config) {
  ASSIGN_OR_RETURN(const OmniDiffusionConfig config,
                   parse_omni_diffusion_config(od_config.dump()));
  return OffloadConfig::from_od_config(config);
}

// The policy as records have it.
json describe(const OffloadConfig& config) {
  json components;
  json transfers;
  for (OffloadComponent component :
       {OffloadComponent::kDit, OffloadComponent::kTextEncoder}) {
    const std::string name(to_string(component));
    if (config.is_explicit() && config.selects(component)) {
      components.push_back(name);
    }
    transfers[name] = std::string(to_string(config.weight_transfer(component)));
  }
  return {{"strategy", std::string(to_string(config.strategy()))},
          {"components", components},
          {"transfers", transfers},
          {"pin_memory", config.pin_memory()},
          {"resident_layers", config.resident_layers()},
          {"use_hsdp", config.use_hsdp()},
          {"group_size", config.group_size()}};
}

json describe(const PlannedComponent& component) {
  json stacks = json::array();
  for (const PlannedStack& stack : component.stacks) {
    json blocks = json::array();
    for (const PlannedBlock& block : stack.blocks) blocks.push_back(block.path);
    stacks.push_back(
        {{"blocks", std::move(blocks)}, {"resident", stack.resident_blocks()}});
  }
  json described = {{"path", component.path},
                    {"selected", component.selected},
                    {"on_demand", component.on_demand},
                    {"stacks", std::move(stacks)}};
  for (const PlannedComponent& child : component.children) {
    described["children"].push_back(describe(child));
  }
  return described;
}

json describe(const ResolvedPlan& plan) {
  const auto with_role = [&](ComponentRole role) {
    json components = json::array();
    for (const PlannedComponent& component : plan.components) {
      if (component.role == role) components.push_back(describe(component));
    }
    return components;
  };
  return {{"skipped", plan.skip_reason.has_value()},
          {"dits", with_role(ComponentRole::kDit)},
          {"encoders", with_role(ComponentRole::kTextEncoder)},
          {"vaes", with_role(ComponentRole::kVae)},
          {"residents", with_role(ComponentRole::kResident)}};
}

template <typename T>
json describe(const absl::StatusOr<T>& result) {
  if (!result.ok()) return {{"error", std::string(result.status().message())}};
  return describe(*result);
}

// Records keep the order of a module's children, which json does not.
absl::Status decide(const ordered_json& record, json* decided) {
  const absl::StatusOr<OffloadConfig> config =
      resolve_config(record.at("od_config"));
  if (!record.contains("pipeline") || !config.ok()) {
    *decided = describe(config);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ModuleTree tree, read_recorded_tree(record));
  *decided = describe(resolve_offload_plan(tree, *config));
  return absl::OkStatus();
}

bool agree(const json& expected, const json& decided) {
  if (expected.contains("error")) return decided.contains("error");
  return expected == decided;
}

absl::Status compare(const ordered_json& record, const std::string& name,
                     Comparison* comparison) {
  json decided;
  RETURN_IF_ERROR(decide(record, &decided));
  const json expected = json::parse(record.at("expect").dump());
  ++comparison->compared;
  if (!agree(expected, decided)) {
    comparison->differences.push_back(
        absl::StrCat(name, " ", record.at("id").dump(), ": recorded ",
                     expected.dump(), ", ours ", decided.dump()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Comparison> compare_cases(const std::string& name,
                                         absl::string_view text) {
  Comparison comparison;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    absl::Status status;
    try {
      status = compare(ordered_json::parse(line.begin(), line.end()), name,
                       &comparison);
    } catch (const json::exception& error) {
      status = absl::InvalidArgumentError(error.what());
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", line_number, ": ", status.message()));
    }
  }
  return comparison;
}

}  // namespace ferry
