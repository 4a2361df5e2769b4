#include "server/worker/offload_report.h"

#include <string>

#include "offload/component_role.h"

namespace ferry {

v1::OffloadReport make_offload_report(const OffloadableModule& module,
                                      const OffloadConfig& config,
                                      const OffloadBackendChoice& choice,
                                      const Platform& platform) {
  v1::OffloadReport report;
  const OffloadStrategy strategy = choice.backend == nullptr
                                       ? OffloadStrategy::kNone
                                       : choice.backend->strategy();
  report.set_strategy(std::string(to_string(strategy)));
  report.set_reason(choice.reason);
  report.set_device(platform.torch_device());
  report.set_group_size(static_cast<int32_t>(config.group_size()));
  report.set_policy(config.describe());
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
  if (platform.name() == "cpu") {
    // Device memory is host memory.
    report.set_host_bytes(bytes);
    report.set_host_memory("pageable");
  }
  return report;
}

}  // namespace ferry
