#include "pipelines/torchscript/operators/testing/forked_trials.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "absl/status/status.h"

namespace ferry {
namespace {

constexpr time_t kProcessorSeconds = 2;
constexpr time_t kSeconds = 60;
constexpr rlim_t kBytes = rlim_t{2} << 30;
// An operator that ends so many processes is left alone.
constexpr uint32_t kMaxCrashes = 8;

using Operators = std::vector<std::shared_ptr<torch::jit::Operator>>;

// Memory that all processes see. Zero bytes are records without trials.
class SharedRecords {
 public:
  explicit SharedRecords(size_t count)
      : bytes_(count * sizeof(TrialRecord)),
        memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedRecords() {
    if (is_mapped()) munmap(memory_, bytes_);
  }
  SharedRecords(const SharedRecords&) = delete;
  SharedRecords& operator=(const SharedRecords&) = delete;

  bool is_mapped() const { return memory_ != MAP_FAILED; }
  TrialRecord& operator[](size_t i) {
    return static_cast<TrialRecord*>(memory_)[i];
  }

 private:
  size_t bytes_;
  void* memory_;
};

// Every so many operators, from one on.
struct Share {
  size_t first = 0;
  size_t step = 1;
};

void limit(int resource, rlim_t value) {
  const rlimit both = {value, value};
  setrlimit(static_cast<__rlimit_resource_t>(resource), &both);
}

rlim_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void start_timers() {
  // Both end the process.
  const itimerval processor = {{0, 0}, {kProcessorSeconds, 0}};
  setitimer(ITIMER_PROF, &processor, nullptr);
  const itimerval wall = {{0, 0}, {kSeconds, 0}};
  setitimer(ITIMER_REAL, &wall, nullptr);
}

[[noreturn]] void run_child(const Operators& operators,
                            const TrialOptions& options, Share share,
                            SharedRecords* records) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_AS, mapped_bytes() + kBytes);
  // No operator makes a file here.
  if (chdir("/proc") != 0) _exit(1);
  // Warnings of operators, and what they print.
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  for (const int number : {SIGPROF, SIGALRM, SIGSEGV, SIGFPE, SIGABRT}) {
    signal(number, SIG_DFL);
  }
  at::set_num_threads(1);
  for (size_t i = share.first; i < operators.size(); i += share.step) {
    TrialRecord& record = (*records)[i];
    if (record.done || record.crashes >= kMaxCrashes ||
        !may_be_tried(operators[i]->schema())) {
      continue;
    }
    record.calling = true;
    try_operator(*operators[i], options, start_timers, &record);
    record.calling = false;
    record.done = true;
  }
  _exit(0);
}

// Counts a crash for the operator that the child was calling. False: the child
// ended before it called any.
bool count_crash(size_t count, Share share, SharedRecords* records) {
  for (size_t i = share.first; i < count; i += share.step) {
    TrialRecord& record = (*records)[i];
    if (!record.calling) continue;
    record.calling = false;
    ++record.crashes;
    return true;
  }
  return false;
}

// Returns whether a child has come to the end of the share.
bool run_share(const Operators& operators, const TrialOptions& options,
               Share share, SharedRecords* records) {
  for (;;) {
    const pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) run_child(operators, options, share, records);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
      if (errno != EINTR) return false;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (!count_crash(operators.size(), share, records)) return false;
  }
}

}  // namespace

absl::StatusOr<std::vector<TrialRecord>> run_forked_trials(
    const Operators& operators, const TrialOptions& options, size_t children) {
  SharedRecords records(operators.size());
  if (!records.is_mapped()) return absl::ErrnoToStatus(errno, "mmap");
  std::vector<pid_t> keepers;
  for (size_t i = 0; i < children; ++i) {
    const pid_t keeper = fork();
    if (keeper < 0) return absl::ErrnoToStatus(errno, "fork");
    if (keeper == 0) {
      _exit(run_share(operators, options, {i, children}, &records) ? 0 : 1);
    }
    keepers.push_back(keeper);
  }
  bool complete = true;
  for (const pid_t keeper : keepers) {
    int status = 0;
    while (waitpid(keeper, &status, 0) < 0) {
      if (errno != EINTR) return absl::ErrnoToStatus(errno, "waitpid");
    }
    complete &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!complete) return absl::InternalError("a child ended before its share");
  std::vector<TrialRecord> copies;
  for (size_t i = 0; i < operators.size(); ++i) copies.push_back(records[i]);
  return copies;
}

}  // namespace ferry
