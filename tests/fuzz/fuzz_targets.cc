#include "tests/fuzz/fuzz_targets.h"

#include <cstdio>
#include <cstdlib>

namespace ferry {

const std::vector<FuzzTarget>& fuzz_targets() {
  static const auto* const targets = new std::vector<FuzzTarget>{
      {"flags", fuzz_flags},
      {"job_names", fuzz_job_names},
      {"log_text", fuzz_log_text},
      {"manifest", fuzz_manifest},
      {"offload_config", fuzz_offload_config},
      {"request", fuzz_request},
      {"safetensors", fuzz_safetensors},
      {"scheduler_config", fuzz_scheduler_config},
      {"server_config", fuzz_server_config},
      {"tokenizer", fuzz_tokenizer},
      {"worker_hello", fuzz_worker_hello},
  };
  return *targets;
}

void require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

}  // namespace ferry
