#include "tests/fault/faults.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/fault/fault_spec.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"

namespace ferry {

Faults::Faults() : directory_(make_directory("faults")) {}

Daemon::Options Faults::daemon_options(const std::string& name,
                                       const std::string& package) const {
  Daemon::Options options;
  options.pipelines = {{name, package}};
  options.flags = {
      absl::StrCat("--worker_path=", runfile("tests/fault/ferry_worker")),
      "--worker_restart_backoff_min=20ms", "--worker_restart_backoff_max=20ms",
      "--worker_restart_limit=100000"};
  options.environment = {absl::StrCat(kFaultsVariable, "=", directory_)};
  return options;
}

void Faults::arm(const std::string& fault) {
  if (const auto parsed = parse_fault(fault); !parsed.ok()) {
    fprintf(stderr, "%s\n", std::string(parsed.status().message()).c_str());
    abort();
  }
  disarm();
  std::filesystem::remove(absl::StrCat(directory_, "/", kHitsFile));
  const std::string file = absl::StrCat(directory_, "/", kFaultFile);
  const std::string whole = absl::StrCat(file, ".new");
  write_file(whole, fault);
  std::filesystem::rename(whole, file);
}

void Faults::disarm() {
  std::filesystem::remove(absl::StrCat(directory_, "/", kFaultFile));
}

int Faults::hits() const {
  const auto hits = read_file(absl::StrCat(directory_, "/", kHitsFile));
  return static_cast<int>(hits.value_or("").size());
}

bool Faults::wait_for_hit(int hit) const {
  return eventually([&] { return hits() >= hit; });
}

}  // namespace ferry
