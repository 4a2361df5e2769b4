#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <set>

namespace ferry {

using Storages = std::set<const c10::StorageImpl*>;

// What is known, before anything has run, of a value in a graph. Refers to the
// state of a loaded module, which must outlive it. A value without anything
// known shares no memory with state.
struct KnownValue {
  // The very object of the pipeline, or the bool, that the value always is;
  // None where nobody can tell.
  c10::IValue exact;
  // State that the value may share memory with, or hold.
  Storages storages;

  std::optional<bool> as_bool() const;
  // Everything that it may reach: `storages`, and the tensors of an object.
  Storages contents() const;
  // Makes it what is known of a value that is one of the two. Whether anything
  // changed.
  bool merge(const KnownValue& other);
};

// The storages of all tensors that a value reaches.
Storages storages_of(const c10::IValue& value);

// False for numbers, strings and the like, and containers of them.
bool may_hold_tensors(const c10::Type& type);
// Whether values of the type may be objects of classes, or hold some.
bool may_hold_objects(const c10::Type& type);

}  // namespace ferry
