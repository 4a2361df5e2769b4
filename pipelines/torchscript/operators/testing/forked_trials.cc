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
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

constexpr time_t kProcessorSeconds = 2;
constexpr time_t kSeconds = 60;
constexpr rlim_t kBytes = rlim_t{2} << 30;
// An operator that ends so many processes is left alone.
constexpr uint32_t kMaxCrashes = 8;

// What children and parent see both.
class SharedRecords {
 public:
  explicit SharedRecords(size_t count)
      : bytes_(sizeof(size_t) + count * sizeof(TrialRecord)),
        memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedRecords() {
    if (is_mapped()) munmap(memory_, bytes_);
  }
  SharedRecords(const SharedRecords&) = delete;
  SharedRecords& operator=(const SharedRecords&) = delete;

  bool is_mapped() const { return memory_ != MAP_FAILED; }
  // The operator that is being tried.
  size_t& current() { return *static_cast<size_t*>(memory_); }
  // Zero bytes are records without trials.
  TrialRecord& operator[](size_t i) {
    return reinterpret_cast<TrialRecord*>(static_cast<size_t*>(memory_) + 1)[i];
  }

 private:
  size_t bytes_;
  void* memory_;
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

[[noreturn]] void run_child(
    const std::vector<std::shared_ptr<torch::jit::Operator>>& operators,
    const TrialOptions& options, SharedRecords* records) {
  limit(RLIMIT_CORE, 0);
#if !defined(__has_feature) || \
    (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
  limit(RLIMIT_AS, mapped_bytes() + kBytes);
#endif
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
  for (size_t i = records->current(); i < operators.size(); ++i) {
    records->current() = i;
    if ((*records)[i].crashes < kMaxCrashes &&
        may_be_tried(operators[i]->schema())) {
      try_operator(*operators[i], options, start_timers, &(*records)[i]);
    }
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<std::vector<TrialRecord>> run_forked_trials(
    const std::vector<std::shared_ptr<torch::jit::Operator>>& operators,
    const TrialOptions& options) {
  SharedRecords records(operators.size());
  if (!records.is_mapped()) return absl::ErrnoToStatus(errno, "mmap");
  for (bool done = false; !done;) {
    const pid_t child = fork();
    if (child < 0) return absl::ErrnoToStatus(errno, "fork");
    if (child == 0) run_child(operators, options, &records);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
      if (errno != EINTR) return absl::ErrnoToStatus(errno, "waitpid");
    }
    done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!done) ++records[records.current()].crashes;
  }
  std::vector<TrialRecord> copies;
  for (size_t i = 0; i < operators.size(); ++i) copies.push_back(records[i]);
  return copies;
}

}  // namespace ferry
