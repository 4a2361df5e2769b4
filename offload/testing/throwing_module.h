#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "offload/hook_registry.h"
#include "offload/module_tree.h"
#include "offload/offloadable_module.h"
#include "offload/testing/toy_module.h"
#include "offload/written_state.h"

namespace ferry {

// Counts calls; the nth of them throws.
class Fuse {
 public:
  explicit Fuse(int64_t nth) : left_(nth) {}
  template <typename Exception>
  void burn(const Exception& exception) {
    if (--left_ == 0) throw exception;
  }
  bool is_blown() const { return left_ <= 0; }

 private:
  int64_t left_;
};

// Throws from the nth call of an accessor.
class ThrowingModule final : public OffloadableModule {
 public:
  ThrowingModule(ToyModule& module, int64_t nth)
      : module_(module), fuse_(nth) {}

  const std::vector<OffloadableComponent>& components() const override {
    burn();
    return module_.components();
  }
  const ModuleTree& tree() const override {
    burn();
    return module_.tree();
  }
  const at::Tensor& tensor(int64_t identity) const override {
    burn();
    return module_.tensor(identity);
  }
  WrittenState& written_state() const override {
    burn();
    return module_.written_state();
  }
  const std::vector<std::string>& obstacles() const override {
    burn();
    return module_.obstacles();
  }
  HookRegistry* hooks(size_t module) override {
    burn();
    return module_.hooks(module);
  }
  void reset_hooks() override { module_.reset_hooks(); }
  bool is_blown() const { return fuse_.is_blown(); }

 private:
  void burn() const {
    fuse_.burn(c10::Error({__func__, __FILE__, __LINE__},
                          "the module's attribute is gone"));
  }

  ToyModule& module_;
  mutable Fuse fuse_;
};

}  // namespace ferry
