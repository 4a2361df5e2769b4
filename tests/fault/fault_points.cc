// What fault points do in the worker of the tests; see fault_spec.h.

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "platform/base/fault_point.h"
#include "platform/os/unique_fd.h"
#include "tests/fault/fault_spec.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

void pause_for(absl::Duration duration) {
  poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(duration)));
}

// The number of this hit: other threads and processes count, too.
int count_hit(const std::string& directory) {
  const UniqueFd file(open(absl::StrCat(directory, "/", kHitsFile).c_str(),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  struct stat info = {};
  // Given up when the descriptor is closed.
  if (flock(file.get(), LOCK_EX) != 0 || write(file.get(), ".", 1) != 1 ||
      fstat(file.get(), &info) != 0) {
    perror("a fault point cannot count its hits");
    abort();
  }
  return static_cast<int>(info.st_size);
}

void act(const Fault& fault, const std::string& file, const std::string& text) {
  switch (fault.kind) {
    case Fault::Kind::kCrash:
      abort();
    case Fault::Kind::kHang:
      while (read_file(file) == text) pause_for(absl::Milliseconds(10));
      return;
    case Fault::Kind::kOutOfMemory:
      throw std::bad_alloc();
    case Fault::Kind::kSlow:
      pause_for(fault.pause);
      return;
  }
}

}  // namespace

void on_fault_point(const char* name) {
  static const char* directory = getenv(kFaultsVariable);
  if (directory == nullptr) return;
  const std::string file = absl::StrCat(directory, "/", kFaultFile);
  const std::optional<std::string> text = read_file(file);
  if (!text.has_value() || text->empty()) return;
  const absl::StatusOr<Fault> fault = parse_fault(*text);
  if (!fault.ok()) {
    fprintf(stderr, "%s\n", std::string(fault.status().message()).c_str());
    abort();
  }
  if (fault->point != name) return;
  const int hit = count_hit(directory);
  if (fault->hit == 0 || fault->hit == hit) act(*fault, file, *text);
}

}  // namespace ferry
