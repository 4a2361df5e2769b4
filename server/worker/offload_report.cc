#include "server/worker/offload_report.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "offload/component_role.h"
#include "offload/held_weights.h"
#include "offload/module_tree.h"
#include "offload/offload_stats.h"
#include "offload/resolved_plan.h"
#include "offload/written_state.h"
#include "platform/device/device.h"
#include "platform/device/device_stats.h"
#include "server/core/proto_time.h"

namespace ferry {
namespace {

// More would hide the rest of the report.
constexpr size_t kMostNotes = 8;
// As offload_report.proto says.
constexpr size_t kMostHeld = 100;
constexpr int64_t kMostWritten = 100;

absl::string_view placement_of(const PlannedComponent& component,
                               OffloadStrategy strategy) {
  if (strategy == OffloadStrategy::kModelLevel && component.selected) {
    return "swapped";
  }
  for (const PlannedStack& stack : component.stacks) {
    for (const PlannedBlock& block : stack.blocks) {
      if (!block.resident && block.image_bytes > 0) return "streamed";
    }
  }
  return component.on_demand ? "on-demand" : "resident";
}

// What of a component could not leave the device, but for held weights.
void add_notes(const ResolvedPlan& plan, v1::ComponentReport* entry) {
  std::vector<std::string> notes;
  for (const StoragePlacement& placement : plan.storages) {
    if (placement.owner == StoragePlacement::Owner::kResident &&
        !placement.claimant.has_value() &&
        absl::StartsWith(placement.name, absl::StrCat(entry->path(), "."))) {
      notes.push_back(absl::StrCat(placement.name, " ", placement.reason));
    }
  }
  for (size_t i = 0; i < notes.size() && i < kMostNotes; ++i) {
    entry->add_notes(notes[i]);
  }
  if (notes.size() > kMostNotes) {
    entry->add_notes(
        absl::StrCat("and ", notes.size() - kMostNotes, " more tensors"));
  }
}

void report_stats(const OffloadStats& stats, v1::OffloadReport* report) {
  report->set_slots(stats.slots);
  report->set_resident_bytes(stats.resident_bytes);
  report->set_streamed_bytes(stats.streamed_bytes);
  report->set_host_bytes(stats.host_bytes);
  report->set_device_bytes(stats.device_bytes);
  report->set_total_h2d_bytes(stats.h2d_bytes);
  *report->mutable_total_exposed_stall() = to_proto(stats.exposed_stall);
  *report->mutable_total_first_block_stall() =
      to_proto(stats.first_block_stall);
  report->set_total_demand_fetches(stats.demand_fetches);
  report->set_h2d_gbps(stats.h2d_gbps());
}

// How the device reads the host's copy.
absl::string_view host_memory_of(const DeviceStats::HostArenas& arenas) {
  if (arenas.staged_bytes > 0) return "staged";
  return arenas.mapped_bytes > arenas.pinned_bytes ? "registered-mapping"
                                                   : "pinned";
}

void report_held(const ResolvedPlan& plan, v1::OffloadReport* report) {
  for (const std::string& warning : plan.warnings) report->add_notes(warning);
  const std::vector<HeldWeights> held = find_held_weights(plan);
  for (size_t i = 0; i < std::min(held.size(), kMostHeld); ++i) {
    v1::HeldWeights& entry = *report->add_held_weights();
    entry.set_path(held[i].path);
    entry.set_bytes(held[i].bytes);
    entry.set_reason(held[i].reason);
  }
  report->set_held_count(static_cast<int64_t>(held.size()));
  report->set_held_bytes(total_bytes(held));
}

void report_written(const OffloadableModule& module,
                    v1::OffloadReport* report) {
  int64_t count = 0;
  const auto add = [&](std::string path, int64_t bytes,
                       const std::string& reason) {
    if (++count > kMostWritten) return;
    v1::WrittenState& entry = *report->add_written_state();
    entry.set_path(std::move(path));
    entry.set_bytes(bytes);
    entry.set_reason(reason);
  };
  module.tree().for_each_node(
      [&](const ModuleNode& node, const std::string& prefix) {
        std::set<std::string> tensors;
        for (const ModuleTensor& tensor : node.tensors) {
          if (!tensor.is_written) continue;
          tensors.insert(tensor.name);
          add(absl::StrCat(prefix, tensor.name), tensor.bytes,
              tensor.resident_reason);
        }
        for (const auto& [name, reason] : node.written_attributes) {
          if (tensors.count(name) == 0)
            add(absl::StrCat(prefix, name), 0, reason);
        }
      });
  report->set_written_count(count);
  report->set_written_bytes(module.written_state().bytes());
}

void report_plan(const OffloadBackend& backend, v1::OffloadReport* report) {
  const ResolvedPlan& plan = *backend.plan();
  for (v1::ComponentReport& entry : *report->mutable_components()) {
    for (const PlannedComponent& component : plan.components) {
      if (component.path != entry.path()) continue;
      entry.set_placement(
          std::string(placement_of(component, backend.strategy())));
      if (entry.placement() == "swapped") entry.set_resident_blocks(0);
      if (component.stacks.empty()) continue;
      int64_t resident = 0;
      for (const PlannedStack& stack : component.stacks) {
        resident += stack.resident_blocks();
      }
      entry.set_resident_blocks(static_cast<int32_t>(resident));
    }
    add_notes(plan, &entry);
  }
  report_held(plan, report);
  report->set_reason(backend.reason());
  report_stats(backend.stats(), report);
}

}  // namespace

void add_offload_timings(const OffloadStats& stats, v1::Timings* timings) {
  *timings->mutable_exposed_stall() = to_proto(stats.exposed_stall);
  *timings->mutable_first_block_stall() = to_proto(stats.first_block_stall);
  timings->set_h2d_bytes(stats.h2d_bytes);
  timings->set_demand_fetches(stats.demand_fetches);
  timings->set_h2d_gbps(stats.h2d_gbps());
}

v1::OffloadReport make_offload_report(const OffloadableModule& module,
                                      const OffloadConfig& config,
                                      const OffloadBackendChoice& choice,
                                      Platform& platform,
                                      const LargestRequest& largest) {
  v1::OffloadReport report;
  const OffloadStrategy strategy = choice.backend == nullptr
                                       ? OffloadStrategy::kNone
                                       : choice.backend->strategy();
  report.set_strategy(std::string(to_string(strategy)));
  report.set_reason(choice.reason);
  report.set_device(platform.torch_device());
  report.set_group_size(static_cast<int32_t>(config.group_size()));
  report.set_policy(config.describe());
  if (choice.backend == nullptr && config.offload_enabled()) {
    report.add_notes(
        absl::StrCat("nothing is streamed, although the policy asks for it: ",
                     choice.reason));
  }
  int64_t bytes = 0;
  for (const OffloadableComponent& component : module.components()) {
    v1::ComponentReport& entry = *report.add_components();
    entry.set_path(component.path);
    entry.set_role(std::string(to_string(component.role)));
    entry.set_placement("resident");
    int blocks = 0;
    for (const BlockStack& stack : component.stacks) {
      blocks += static_cast<int>(stack.blocks.size());
    }
    entry.set_blocks(blocks);
    entry.set_resident_blocks(blocks);
    entry.set_bytes(component.bytes);
    bytes += component.bytes;
  }
  report.set_resident_bytes(bytes);
  report_written(module, &report);
  if (platform.name() == "cpu") {
    // Device memory is host memory.
    report.set_host_bytes(bytes + module.written_state().kept_bytes());
    report.set_host_memory("pageable");
  }
  if (choice.backend != nullptr && choice.backend->plan() != nullptr) {
    report_plan(*choice.backend, &report);
    report.set_headroom_bytes(choice.backend->headroom_bytes());
    report.set_largest_request_bytes(largest.bytes);
    if (!largest.note.empty()) report.add_notes(largest.note);
    report.set_host_memory(
        std::string(host_memory_of(platform.device()->stats().host_arenas)));
  }
  return report;
}

}  // namespace ferry
