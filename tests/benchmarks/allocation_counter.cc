#include "tests/benchmarks/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};

void* checked(void* data) {
  ++allocations;
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

// The other forms come to these.
void* operator new(size_t bytes) { return checked(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return checked(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}

namespace ferry {

int64_t count_allocations() { return allocations; }

}  // namespace ferry
