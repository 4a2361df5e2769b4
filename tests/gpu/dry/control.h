#pragma once

#include <cstdint>

// What tests ask of the dry CUDA that is linked to them, or preloaded (then by
// dlsym()). Thread-safe.

extern "C" {

// Replaces the faults, as FERRY_DRY_CUDA_FAULTS says them. False, and none,
// when the text is wrong.
bool ferry_dry_set_faults(const char* faults);
// How often `rule` was broken; all rules for null.
int64_t ferry_dry_broken(const char* rule);
// A counter of the report, such as "launches", or the calls of one name.
int64_t ferry_dry_count(const char* name);

}  // extern "C"
