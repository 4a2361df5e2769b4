#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>

namespace ferry {

// Storages whose bytes are a file, mapped read-only: tensors read them like any
// others, and must not be written. Their pages need not stay in memory: the
// system reads them again when they are touched. When such a storage ends, its
// pages leave this process.
//
// Threads: as c10::StorageImpl.

// `data` stays mapped for as long as somebody holds `mapping`.
c10::intrusive_ptr<c10::StorageImpl> make_mapped_storage(
    const void* data, int64_t bytes, std::shared_ptr<const void> mapping);

bool is_mapped(const c10::StorageImpl& storage);

// Lets the pages go, if the storage is mapped; who touches it gets them again.
void release_pages(const c10::StorageImpl& storage);

// Gives a mapped storage writable memory of its own with the same bytes, for
// all tensors that see it. Leaves others alone. Throws without memory.
void copy_to_memory(c10::StorageImpl* storage);

}  // namespace ferry
