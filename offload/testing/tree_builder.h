#pragma once

#include <cstdint>
#include <string>

#include "offload/module_tree.h"

namespace ferry {

// Makes module trees, path by path.
class TreeBuilder {
 public:
  TreeBuilder();

  // The node at a path, made with its parents where it is missing; "" is the
  // root.
  ModuleNode& module(const std::string& path);
  // Its index; made as by module().
  size_t index(const std::string& path);

  // A list of `count` modules with one parameter of `bytes` each.
  void blocks(const std::string& path, int count, int64_t bytes = 4);
  // A second name for a module that exists.
  void alias(const std::string& path, const std::string& target);

  // A parameter that owns its storage; returns the storage.
  int64_t parameter(const std::string& path, int64_t bytes);
  // Another tensor of a whole storage, of `bytes` bytes.
  void view(const std::string& path, int64_t storage, int64_t bytes = 4);
  // A parameter without memory.
  void meta_parameter(const std::string& path, int64_t bytes);

  ModuleTree tree;

 private:
  // Bytes of each storage.
  std::vector<int64_t> storages_;
  int64_t tensors_ = 0;
};

}  // namespace ferry
