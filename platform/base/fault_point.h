#pragma once

namespace ferry {

// What a test build does at a fault point; tests/fault defines it. The programs
// that are shipped have no such function: the address is null there.
[[gnu::weak]] void on_fault_point(const char* name);

// A place at which tests make a process crash, hang, be slow, or run out of
// memory. Elsewhere it does nothing: one comparison with a constant.
//
// In a test build it may never return, or throw std::bad_alloc: it stands where
// an allocation could fail, too. A name is used once; tests/fault/README.md
// lists them.
inline void fault_point(const char* name) {
  if (on_fault_point != nullptr) on_fault_point(name);
}

}  // namespace ferry
