#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace ferry {

// What reads bytes that others wrote. Each target takes any input, must not
// crash, and checks what must hold of whatever came out. libfuzzer_main.cc
// makes a libFuzzer program of one; replay_test.cc runs all of them.
void fuzz_flags(absl::string_view input);
void fuzz_job_names(absl::string_view input);
void fuzz_log_text(absl::string_view input);
void fuzz_manifest(absl::string_view input);
void fuzz_offload_config(absl::string_view input);
void fuzz_request(absl::string_view input);
void fuzz_safetensors(absl::string_view input);
void fuzz_scheduler_config(absl::string_view input);
void fuzz_server_config(absl::string_view input);
void fuzz_tokenizer(absl::string_view input);
void fuzz_worker_hello(absl::string_view input);

struct FuzzTarget {
  // Folder of its seeds in corpus/.
  const char* name;
  void (*run)(absl::string_view input);
};
const std::vector<FuzzTarget>& fuzz_targets();

// Ends the process, with the text, unless `holds`.
void require(bool holds, const char* what);

}  // namespace ferry
