#include "tests/benchmarks/gather_cost.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device_arena.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/in_process/in_process_store.h"
#include "platform/distributed/nccl/nccl_communicator.h"
#include "platform/distributed/nccl/testing/fake_nccl_api.h"
#include "tests/benchmarks/measurement.h"

namespace ferry {
namespace {

constexpr int64_t kBytes = 4096;
constexpr int kGathers = 20000;

}  // namespace

void measure_gather_cost() {
  FakeCudaApi cuda;
  FakeCudaTorch torch;
  FakeNcclApi nccl;
  InProcessStore store;
  const auto device = *CudaDevice::create(CudaDeviceOptions(), &cuda, &torch);
  const StreamLease stream =
      *device->acquire_stream(StreamKind::kTransfer, "gather");
  const DeviceArena in = *device->allocate(kBytes, "in");
  const DeviceArena out = *device->allocate(2 * kBytes, "out");
  const auto joined = NcclCommunicator::join(nccl, *device, store, 0, 2, {});
  require(joined.ok(), joined.status().message());
  const Clock& clock = Clock::real();
  std::vector<double> times;
  times.reserve(kGathers);
  for (int i = 0; i < kGathers; ++i) {
    const absl::Duration start = clock.monotonic();
    const absl::Status status =
        (*joined)->all_gather(stream.get(), in.data(), out.data(), kBytes);
    times.push_back(absl::ToDoubleMicroseconds(clock.monotonic() - start));
    require(status.ok(), status.message());
  }
  std::sort(times.begin(), times.end());
  report("gather_host_us", median(times), "us",
         "fake CUDA and NCCL APIs, 50th percentile; at most 20");
  report("gather_host_us_p99", times[times.size() * 99 / 100], "us",
         "the same, 99th percentile");
}

}  // namespace ferry
