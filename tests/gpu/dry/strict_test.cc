// Each rule of the dry CUDA, broken once, is refused with CUDA's own error and
// reported; what CUDA allows and Ferry should not do is reported.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/dry/control.h"

namespace ferry::dry {
namespace {

// Read by the first call of CUDA.
const int kTwoDevices = ::setenv("FERRY_DRY_CUDA_DEVICES", "2", 1);

constexpr size_t kPage = 4096;
constexpr size_t kMiB = size_t{1} << 20;

// Pages of this process, which CUDA does not know.
class Pages {
 public:
  explicit Pages(size_t bytes, int protection = PROT_READ | PROT_WRITE)
      : bytes_(bytes),
        data_(static_cast<char*>(::mmap(nullptr, bytes, protection,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  char* data() const { return data_; }

 private:
  const size_t bytes_;
  char* const data_;
};

// What a device gives, until the scope ends.
class Gpu {
 public:
  explicit Gpu(int device = 0) : device_(device) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory_, kMiB), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&pinned_, kMiB, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0),
              cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
              cudaSuccess);
  }
  ~Gpu() {
    EXPECT_EQ(cudaSetDevice(device_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaFree(memory_), cudaSuccess);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  char* memory() const { return static_cast<char*>(memory_); }
  char* pinned() const { return static_cast<char*>(pinned_); }

  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;

 private:
  const int device_;
  void* memory_ = nullptr;
  void* pinned_ = nullptr;
};

cudaError_t send(const Gpu& gpu, void* to, const void* from, size_t bytes) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu.stream);
}

cudaError_t launch(cudaStream_t stream) {
  return cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, stream);
}

// Breaks a rule; the error is CUDA's.
struct Rule {
  const char* name;
  cudaError_t error;
  std::function<cudaError_t()> break_it;
};

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

cudaError_t destroyed_stream_is_used() {
  cudaStream_t stream = nullptr;
  (void)cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  (void)cudaStreamDestroy(stream);
  return cudaStreamSynchronize(stream);
}

cudaError_t destroyed_event_is_used(
    const std::function<cudaError_t(cudaEvent_t)>& use) {
  cudaEvent_t event = nullptr;
  (void)cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  (void)cudaEventDestroy(event);
  return use(event);
}

cudaError_t elapsed(unsigned flags, bool records, int second_device) {
  cudaEvent_t events[2];
  (void)cudaEventCreateWithFlags(&events[0], flags);
  (void)cudaSetDevice(second_device);
  (void)cudaEventCreateWithFlags(&events[1], flags);
  if (records) (void)cudaEventRecord(events[1], nullptr);
  (void)cudaSetDevice(0);
  if (records) (void)cudaEventRecord(events[0], nullptr);
  float milliseconds = 0;
  const cudaError_t error =
      cudaEventElapsedTime(&milliseconds, events[0], events[1]);
  for (cudaEvent_t event : events) (void)cudaEventDestroy(event);
  return error;
}

std::vector<Rule> register_rules() {
  return {
      {"register_unaligned", cudaErrorInvalidValue,
       [] {
         const Pages pages(4 * kPage);
         return cudaHostRegister(pages.data() + 64, kPage, 0);
       }},
      {"register_unaligned", cudaErrorInvalidValue,
       [] {
         const Pages pages(4 * kPage);
         return cudaHostRegister(pages.data(), kPage + 1, 0);
       }},
      {"register_unaligned", cudaErrorInvalidValue,
       [] {
         const Pages pages(kPage);
         return cudaHostRegister(pages.data(), 0, 0);
       }},
      {"register_not_mapped", cudaErrorInvalidValue,
       [] {
         const Pages pages(4 * kPage);
         ::munmap(pages.data() + 2 * kPage, kPage);
         return cudaHostRegister(pages.data(), 4 * kPage, 0);
       }},
      {"register_read_only", cudaErrorInvalidValue,
       [] {
         const Pages pages(4 * kPage, PROT_READ);
         return cudaHostRegister(pages.data(), 4 * kPage, 0);
       }},
      {"register_read_only", cudaErrorInvalidValue,
       [] {
         const Pages pages(4 * kPage);
         ::mprotect(pages.data() + 3 * kPage, kPage, PROT_READ);
         return cudaHostRegister(pages.data(), 4 * kPage,
                                 cudaHostRegisterPortable);
       }},
      {"register_overlap", cudaErrorHostMemoryAlreadyRegistered,
       [] {
         const Pages pages(4 * kPage);
         (void)cudaHostRegister(pages.data() + kPage, kPage, 0);
         const cudaError_t error = cudaHostRegister(pages.data(), 2 * kPage, 0);
         (void)cudaHostUnregister(pages.data() + kPage);
         return error;
       }},
      {"register_overlap", cudaErrorHostMemoryAlreadyRegistered,
       [] {
         const Gpu gpu;
         return cudaHostRegister(gpu.pinned() + kPage, kPage, 0);
       }},
      {"unregister_unknown", cudaErrorHostMemoryNotRegistered,
       [] {
         const Pages pages(2 * kPage);
         (void)cudaHostRegister(pages.data(), 2 * kPage, 0);
         const cudaError_t error = cudaHostUnregister(pages.data() + kPage);
         (void)cudaHostUnregister(pages.data());
         return error;
       }},
      {"unregister_unknown", cudaErrorHostMemoryNotRegistered,
       [] {
         const Gpu gpu;
         return cudaHostUnregister(gpu.pinned());
       }},
  };
}

std::vector<Rule> memory_rules() {
  return {
      {"free_unknown", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         return cudaFree(gpu.memory() + kPage);
       }},
      {"free_unknown", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         return cudaFree(gpu.pinned());
       }},
      {"free_host_unknown", cudaErrorInvalidValue,
       [] {
         const Pages pages(kPage);
         return cudaFreeHost(pages.data());
       }},
      {"device_memory_unknown", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         void* gone = nullptr;
         (void)cudaMalloc(&gone, kMiB);
         (void)cudaFree(gone);
         return send(gpu, gone, gpu.pinned(), kPage);
       }},
      {"device_memory_overrun", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         return send(gpu, gpu.memory() + kMiB, gpu.pinned(), 2 * kMiB);
       }},
      {"device_memory_unknown", cudaErrorInvalidValue,
       [] {
         const Pages pages(kPage);
         return cudaMemset(pages.data(), 0, kPage);
       }},
      {"copy_direction", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         const Pages pages(kPage);
         return send(gpu, pages.data(), gpu.pinned(), kPage);
       }},
      {"copy_direction", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         return cudaMemcpy(gpu.pinned(), gpu.memory(), kPage,
                           cudaMemcpyDeviceToDevice);
       }},
      {"copy_across_registrations", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         const Pages pages(4 * kPage);
         (void)cudaHostRegister(pages.data(), 2 * kPage, 0);
         (void)cudaHostRegister(pages.data() + 2 * kPage, 2 * kPage, 0);
         const cudaError_t error =
             send(gpu, gpu.memory(), pages.data() + kPage, 2 * kPage);
         (void)cudaHostUnregister(pages.data());
         (void)cudaHostUnregister(pages.data() + 2 * kPage);
         return error;
       }},
      {"copy_across_registrations", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         const Pages pages(4 * kPage);
         (void)cudaHostRegister(pages.data() + 2 * kPage, 2 * kPage, 0);
         const cudaError_t error =
             send(gpu, gpu.memory(), pages.data() + kPage, 2 * kPage);
         (void)cudaHostUnregister(pages.data() + 2 * kPage);
         return error;
       }},
      {"copy_to_read_only", cudaErrorInvalidValue,
       [] {
         const Gpu gpu;
         const Pages pages(kPage, PROT_READ);
         (void)cudaHostRegister(pages.data(), kPage, cudaHostRegisterReadOnly);
         const cudaError_t error =
             cudaMemcpyAsync(pages.data(), gpu.memory(), kPage,
                             cudaMemcpyDeviceToHost, gpu.stream);
         (void)cudaHostUnregister(pages.data());
         return error;
       }},
  };
}

std::vector<Rule> stream_rules() {
  return {
      {"device_unknown", cudaErrorInvalidDevice,
       [] { return cudaSetDevice(2); }},
      {"device_unknown", cudaErrorInvalidDevice,
       [] {
         int value = 0;
         return cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, -1);
       }},
      {"stream_unknown", cudaErrorInvalidResourceHandle,
       destroyed_stream_is_used},
      {"stream_unknown", cudaErrorInvalidResourceHandle,
       [] {
         return launch(reinterpret_cast<cudaStream_t>(uintptr_t{0x1230}));
       }},
      {"event_unknown", cudaErrorInvalidResourceHandle,
       [] { return destroyed_event_is_used(cudaEventQuery); }},
      {"event_unknown", cudaErrorInvalidResourceHandle,
       [] { return destroyed_event_is_used(cudaEventSynchronize); }},
      {"event_unknown", cudaErrorInvalidResourceHandle,
       [] {
         return destroyed_event_is_used([](cudaEvent_t event) {
           return cudaStreamWaitEvent(nullptr, event, 0);
         });
       }},
      {"event_on_other_device", cudaErrorInvalidResourceHandle,
       [] {
         const Gpu first(0);
         const Gpu second(1);
         return cudaEventRecord(first.event, second.stream);
       }},
      {"launch_on_other_device", cudaErrorInvalidResourceHandle,
       [] {
         const Gpu second(1);
         (void)cudaSetDevice(0);
         return launch(second.stream);
       }},
      {"elapsed_untimed", cudaErrorInvalidResourceHandle,
       [] { return elapsed(cudaEventDisableTiming, true, 0); }},
      {"elapsed_unrecorded", cudaErrorInvalidResourceHandle,
       [] { return elapsed(cudaEventDefault, false, 0); }},
      {"elapsed_of_two_devices", cudaErrorInvalidResourceHandle,
       [] { return elapsed(cudaEventDefault, true, 1); }},
      {"call_in_host_function", cudaErrorNotPermitted,
       [] {
         cudaError_t error = cudaSuccess;
         (void)cudaLaunchHostFunc(
             nullptr,
             [](void* result) {
               *static_cast<cudaError_t*>(result) = cudaSetDevice(0);
             },
             &error);
         (void)cudaDeviceSynchronize();
         return error;
       }},
  };
}

class StrictTest : public testing::TestWithParam<Rule> {};

TEST_P(StrictTest, IsRefused) {
  ASSERT_EQ(kTwoDevices, 0);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  (void)cudaGetLastError();
  const Rule& rule = GetParam();
  const int64_t before = ferry_dry_broken(rule.name);
  const int64_t all_before = ferry_dry_broken(nullptr);
  EXPECT_EQ(rule.break_it(), rule.error);
  EXPECT_EQ(ferry_dry_broken(rule.name), before + 1);
  EXPECT_EQ(ferry_dry_broken(nullptr), all_before + 1)
      << "another rule was broken, too";
  // Nothing of it stays but the last error.
  (void)cudaSetDevice(0);
  (void)cudaGetLastError();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Registrations, StrictTest,
                         testing::ValuesIn(register_rules()));
INSTANTIATE_TEST_SUITE_P(Memory, StrictTest, testing::ValuesIn(memory_rules()));
INSTANTIATE_TEST_SUITE_P(Streams, StrictTest,
                         testing::ValuesIn(stream_rules()));

// --- What CUDA allows, and the dry one reports

// True when `action` succeeds, and breaks `rule`.
void expect_reported(const char* rule,
                     const std::function<cudaError_t()>& action) {
  const int64_t before = ferry_dry_broken(rule);
  EXPECT_EQ(action(), cudaSuccess);
  EXPECT_EQ(ferry_dry_broken(rule), before + 1) << rule;
}

TEST(ReportedTest, AWaitForAnEventThatWasNotRecorded) {
  const Gpu gpu;
  expect_reported("wait_for_unrecorded", [&] {
    return cudaStreamWaitEvent(gpu.stream, gpu.event, 0);
  });
}

TEST(ReportedTest, ACopyToAnotherDeviceThanTheStreams) {
  const Gpu first(0);
  const Gpu second(1);
  expect_reported("copy_on_foreign_stream", [&] {
    return send(second, first.memory(), first.pinned(), kPage);
  });
}

TEST(ReportedTest, ARegistrationThatEndsWhileItIsCopied) {
  const Gpu gpu;
  const Pages pages(kMiB);
  ASSERT_EQ(cudaHostRegister(pages.data(), kMiB, 0), cudaSuccess);
  // The copy cannot begin before the host function ends.
  std::atomic<bool> is_open{false};
  ASSERT_EQ(cudaLaunchHostFunc(
                gpu.stream,
                [](void* data) {
                  const auto& open = *static_cast<std::atomic<bool>*>(data);
                  while (!open) std::this_thread::yield();
                },
                &is_open),
            cudaSuccess);
  ASSERT_EQ(send(gpu, gpu.memory(), pages.data(), kMiB), cudaSuccess);
  const int64_t before = ferry_dry_broken("unregister_in_use");
  std::atomic<bool> has_returned{false};
  std::thread opener([&] {
    while (!has_returned && ferry_dry_broken("unregister_in_use") == before) {
      std::this_thread::yield();
    }
    is_open = true;
  });
  EXPECT_EQ(cudaHostUnregister(pages.data()), cudaSuccess);
  has_returned = true;
  opener.join();
  EXPECT_EQ(ferry_dry_broken("unregister_in_use"), before + 1);
  EXPECT_EQ(cudaStreamSynchronize(gpu.stream), cudaSuccess);
}

TEST(ReportedTest, MemoryThatIsUnmappedBeforeItsRegistrationEnds) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const Pages pages(2 * kPage);
  ASSERT_EQ(cudaHostRegister(pages.data(), 2 * kPage, 0), cudaSuccess);
  ::munmap(pages.data(), kPage);
  expect_reported("unmapped_before_unregister",
                  [&] { return cudaHostUnregister(pages.data()); });
}

// --- What belongs to a process or a device, each in a process of its own

class ProcessTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Exits with 0 when `holds`, and says what else.
[[noreturn]] void end(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "%s\n", what);
  std::_Exit(holds ? 0 : 1);
}

TEST_F(ProcessTest, HasAsManyContextsAsItMay) {
  const auto body = [] {
    ::setenv("FERRY_DRY_CUDA_MAX_CONTEXTS", "1", 1);
    const bool first = cudaSetDevice(1) == cudaSuccess;
    const bool second = cudaSetDevice(0) == cudaErrorDevicesUnavailable;
    end(first && second && ferry_dry_broken("foreign_context") == 1 &&
            ferry_dry_broken(nullptr) == 1,
        "a context too many was made");
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(ProcessTest, IsToldOfAContextThatNobodyAskedFor) {
  const auto body = [] {
    int least = 0;
    int greatest = 0;
    // A thread's device is 0 until it says so.
    const bool works =
        cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess;
    end(works && ferry_dry_broken("implicit_context") == 1 &&
            ferry_dry_count("contexts") == 1,
        "the context was not counted");
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(ProcessTest, MakesNoContextByQuestions) {
  const auto body = [] {
    int value = 0;
    cudaDeviceProp properties;
    (void)cudaGetDeviceCount(&value);
    (void)cudaGetDeviceProperties(&properties, 1);
    (void)cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1);
    (void)cudaDriverGetVersion(&value);
    (void)cudaGetLastError();
    end(ferry_dry_count("contexts") == 0, "a context was made");
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(ProcessTest, UsesNoCudaAfterAFork) {
  const auto body = [] {
    (void)cudaSetDevice(0);
    const pid_t child = ::fork();
    if (child == 0) {
      end(cudaSetDevice(0) == cudaErrorInitializationError &&
              ferry_dry_broken("used_after_fork") == 1,
          "the child used CUDA");
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    end(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed");
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(ProcessTest, KeepsAStickyErrorOfOneDevice) {
  const auto body = [] {
    const Gpu gpu(1);
    ferry_dry_set_faults("1:cudaMemcpyAsync@2=late:719");
    const bool given =
        send(gpu, gpu.memory(), gpu.pinned(), kPage) == cudaSuccess &&
        send(gpu, gpu.memory(), gpu.pinned(), kPage) == cudaSuccess;
    const bool fails =
        cudaStreamSynchronize(gpu.stream) == cudaErrorLaunchFailure &&
        cudaGetLastError() == cudaErrorLaunchFailure &&
        cudaGetLastError() == cudaErrorLaunchFailure &&
        cudaEventQuery(gpu.event) == cudaErrorLaunchFailure;
    const bool other_works = cudaSetDevice(0) == cudaSuccess &&
                             cudaDeviceSynchronize() == cudaSuccess &&
                             cudaGetLastError() == cudaErrorLaunchFailure &&
                             cudaGetLastError() == cudaSuccess;
    end(given && fails && other_works, "the error was not kept as it should");
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

// Device memory is not the host's.
TEST_F(ProcessTest, IsKilledWhenItReadsDeviceMemory) {
  const auto body = [] {
    const Gpu gpu;
    end(*static_cast<volatile char*>(gpu.memory()) == 1, "it was read");
  };
  EXPECT_EXIT(
      body(), [](int status) { return status != 0 && status != 256; }, "");
}

// --- What works as it should

TEST(WorksTest, ErrorsBelongToTheirThreads) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  (void)cudaGetLastError();
  std::thread([] {
    EXPECT_EQ(cudaSetDevice(9), cudaErrorInvalidDevice);
    int device = 7;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
    // A call that succeeds does not forget it.
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }).join();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(WorksTest, MemoryEnds) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_LT(free, total) << "the context takes some";
  void* most = nullptr;
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, free + kMiB), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&most, free - 4 * kMiB), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 16 * kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(most), cudaSuccess);
  size_t after = 0;
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(after, free);
  (void)cudaGetLastError();
}

// The default stream waits for blocking streams and they for it; streams that
// do not block go their own way.
TEST(WorksTest, TheDefaultStreamWaitsForBlockingStreams) {
  const Gpu gpu;
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  std::vector<int> order;
  struct Step {
    std::vector<int>* order;
    int number;
  };
  Step steps[] = {{&order, 1}, {&order, 2}, {&order, 3}};
  const auto run = [](void* data) {
    const auto& step = *static_cast<Step*>(data);
    step.order->push_back(step.number);
  };
  ASSERT_EQ(cudaLaunchHostFunc(blocking, run, &steps[0]), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(nullptr, run, &steps[1]), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(blocking, run, &steps[2]), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(order, std::vector<int>({1, 2, 3}));
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST(WorksTest, PageableMemoryIsReadBeforeTheCallReturns) {
  const Gpu gpu;
  for (const size_t bytes : {kPage, kMiB}) {
    std::string from(bytes, 'a');
    ASSERT_EQ(send(gpu, gpu.memory(), from.data(), bytes), cudaSuccess);
    std::memset(from.data(), 'b', bytes);
    std::string to(bytes, '\0');
    ASSERT_EQ(cudaMemcpyAsync(to.data(), gpu.memory(), bytes,
                              cudaMemcpyDeviceToHost, gpu.stream),
              cudaSuccess);
    EXPECT_TRUE(to == std::string(bytes, 'a')) << bytes;
  }
}

TEST(WorksTest, FaultsComeWhenTheyShall) {
  const Gpu gpu;
  EXPECT_FALSE(ferry_dry_set_faults("cudaMalloc=2"));
  EXPECT_FALSE(ferry_dry_set_faults("cudaMalloc@0=2"));
  EXPECT_FALSE(ferry_dry_set_faults("cudaMalloc@1=soon"));
  ASSERT_TRUE(ferry_dry_set_faults("1:cudaMalloc@1=2,cudaMalloc@2=2"));
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, kPage), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, kPage), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&second, kPage), cudaSuccess);
  // That of the other device still waits for its call.
  EXPECT_TRUE(ferry_dry_set_faults(""));
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace ferry::dry
