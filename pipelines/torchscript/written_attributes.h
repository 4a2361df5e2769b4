#pragma once

#include "pipelines/torchscript/module_tree_reader.h"

namespace ferry {

// Notes in the tree which attributes that are no tensors methods may write
// (ModuleNode::written_attributes): those that some method sets, and lists and
// dicts of a type that some method changes, wherever it found one. For the
// report; nothing depends on it.
void find_written_attributes(TorchscriptTree* tree);

}  // namespace ferry
