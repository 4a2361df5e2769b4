#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/forward_output.h"
#include "offload/model_hook.h"
#include "offload/tensor_group.h"
#include "platform/device/device.h"

namespace ferry {

// Refuses to run a component whose state is neither in device memory nor
// unbound, with what Device::audit() says and the tensor's path.
//
// Ownership: refers to the device, which outlives it; keeps the tensors'
//   objects.
// Threads: as ModelHook.
class AuditHook final : public ModelHook {
 public:
  // `tensors`: all that the component reaches. Of those that share a storage
  // one is looked at.
  AuditHook(std::string name, Device& device,
            const std::vector<NamedTensor>& tensors);

  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override;
  absl::Status post_forward(ForwardOutput& /*output*/) override {
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  Device& device_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace ferry
