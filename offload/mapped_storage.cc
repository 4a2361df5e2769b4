#include "offload/mapped_storage.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "offload/image_storage.h"

namespace ferry {
namespace {

struct MappedBytes {
  const void* data;
  int64_t bytes;
  std::shared_ptr<const void> mapping;
};

// Those at the ends too, which neighbours may have a part of.
void let_pages_go(const MappedBytes& mapped) {
  if (mapped.bytes == 0) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(mapped.data) +
                   static_cast<uintptr_t>(mapped.bytes);
  // It can only fail to save memory.
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void delete_mapped(void* context) {
  auto* const mapped = static_cast<MappedBytes*>(context);
  let_pages_go(*mapped);
  delete mapped;
}

}  // namespace

c10::intrusive_ptr<c10::StorageImpl> make_mapped_storage(
    const void* data, int64_t bytes, std::shared_ptr<const void> mapping) {
  auto* const context = new MappedBytes{data, bytes, std::move(mapping)};
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(bytes),
      at::DataPtr(const_cast<void*>(data), context, delete_mapped,
                  c10::Device(c10::kCPU)),
      /*allocator=*/nullptr, /*resizable=*/false);
}

bool is_mapped(const c10::StorageImpl& storage) {
  return unchecked_data_ptr(storage).get_deleter() == delete_mapped;
}

void release_pages(const c10::StorageImpl& storage) {
  if (!is_mapped(storage)) return;
  let_pages_go(
      *static_cast<const MappedBytes*>(storage.data_ptr().get_context()));
}

void copy_to_memory(c10::StorageImpl* storage) {
  if (!is_mapped(*storage)) return;
  at::DataPtr memory = c10::GetCPUAllocator()->allocate(storage->nbytes());
  std::memcpy(memory.get(), storage->data(), storage->nbytes());
  storage->set_data_ptr_noswap(std::move(memory));
}

}  // namespace ferry
