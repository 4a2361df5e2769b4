#include "tests/gpu/dry/control.h"

#include "tests/gpu/dry/machine.h"

extern "C" {

bool ferry_dry_set_faults(const char* faults) {
  return ferry::dry::machine().faults.set(faults);
}

int64_t ferry_dry_broken(const char* rule) {
  return ferry::dry::machine().report.broken(rule);
}

int64_t ferry_dry_count(const char* name) {
  return ferry::dry::machine().report.counter(name);
}

}  // extern "C"
