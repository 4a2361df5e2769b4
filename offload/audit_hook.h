#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/forward_output.h"
#include "offload/model_hook.h"
#include "offload/tensor_group.h"
#include "platform/device/device.h"

namespace ferry {

// Refuses to run a component while state is neither in device memory nor
// unbound, with what Device::audit() says and the tensor's path. Tells the
// device that written state may have been written when the component has run.
//
// Ownership: refers to the device, which outlives it; keeps the tensors'
//   objects.
// Threads: as ModelHook.
class AuditHook final : public ModelHook {
 public:
  // Device memory that holds written state; may be empty.
  struct Written {
    char* data = nullptr;
    int64_t bytes = 0;
  };

  // `tensors`: all that the component may reach. Of those that share an image
  // or a storage one is looked at.
  AuditHook(std::string name, Device& device, Written written,
            const std::vector<NamedTensor>& tensors);

  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override;
  absl::Status post_forward(ForwardOutput& output) override;

 private:
  const std::string name_;
  Device& device_;
  const Written written_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace ferry
