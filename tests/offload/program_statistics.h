#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/offload/check_program.h"
#include "tests/offload/random_program.h"

namespace ferry {

// What random programs had, and how they fared.
struct ProgramStatistics {
  int programs = 0;
  int with_hooks = 0;
  int with_views = 0;
  int with_writes = 0;
  // How often each stands in the programs.
  std::map<std::string, int> operators;
  // Programs by policies.
  int runs = 0;
  int refused = 0;
  // Of blocks of plain programs, where the policy streams all that it can.
  int64_t plain_bytes = 0;
  int64_t plain_streamed_bytes = 0;

  void add(const RandomProgram& program, const ProgramReport& report);
  int operator_count() const;
  // One line.
  std::string to_string() const;
};

}  // namespace ferry
