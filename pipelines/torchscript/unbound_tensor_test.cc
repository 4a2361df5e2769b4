// What a program meets that uses a weight which is not on the device.

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "offload/image_storage.h"
#include "offload/make_view.h"
#include "offload/torch_status.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;

constexpr char kUses[] = R"(
def add(self, x):
    return x + self.weight.float()

def index(self, x):
    return x[self.weight.float().long()]

def view(self, x):
    return x * self.kept[1:].float().sum().item()

def branch(self, x):
    if bool((self.weight.float() == 0).any()):
        return x
    return x + 1

def loop(self, x):
    for i in range(3):
        x = x + self.weight[i].item()
    return x

def write(self, x):
    self.weight.zero_()
    return x

def write_view(self, x):
    self.kept[0] = 1
    return x

def copy(self, x):
    self.weight.copy_(x.type_as(self.weight))
    return x

def equal(self, x):
    return x if torch.equal(x, self.weight.float()) else -x

def stack(self, x):
    return torch.stack([self.weight, self.kept])
)";

class UnboundTensorTest : public testing::TestWithParam<c10::ScalarType> {
 protected:
  UnboundTensorTest()
      : values_(at::arange(4).to(GetParam())),
        weight_(make_view(values_, storage_.storage(), 0)) {
    module_.register_attribute("weight", c10::TensorType::get(), weight_);
    storage_.bind(values_.mutable_data_ptr());
    // As a program keeps one that it made in time.
    module_.register_attribute("kept", c10::TensorType::get(),
                               weight_.narrow(0, 0, 4));
    module_.define(kUses);
    storage_.unbind();
  }

  absl::Status call(const std::string& method) {
    return call_torch(method, [&] {
      (void)module_.get_method(method)({at::arange(4).to(c10::kFloat)});
    });
  }

  const std::string owner_ = "dit.blocks.7";
  ImageStorage storage_{64, c10::Device(c10::kCPU), &owner_,
                        "dit.blocks.7.weight: is not on the device"};
  at::Tensor values_;
  at::Tensor weight_;
  Module module_{"__torch__.unbound.Root", std::make_shared<CompilationUnit>(),
                 true};
};

TEST_P(UnboundTensorTest, EveryUseFailsByNameAndNoneOnceItIsBound) {
  for (int round = 0; round < 2; ++round) {
    for (const auto* method : module_.type()->methods()) {
      const absl::Status status = call(method->name());
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << method->name();
      EXPECT_EQ(status.message(),
                method->name() + ": dit.blocks.7.weight: is not on the device");
      EXPECT_EQ(get_error_info(status)->reason, "INTERNAL");
    }
    storage_.bind(values_.mutable_data_ptr());
    for (const auto* method : module_.type()->methods()) {
      EXPECT_EQ(call(method->name()), absl::OkStatus());
    }
    storage_.unbind();
  }
}

INSTANTIATE_TEST_SUITE_P(Types, UnboundTensorTest,
                         testing::Values(c10::kChar, c10::kBool,
                                         c10::kFloat8_e4m3fn, c10::kBFloat16,
                                         c10::kFloat, c10::kComplexFloat),
                         [](const auto& info) {
                           return std::string(c10::toString(info.param));
                         });

}  // namespace
}  // namespace ferry
