#include "server/worker/join_group.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/gloo/gloo_communicator.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/nccl/nccl_communicator.h"
#include "platform/distributed/nccl/nccl_library.h"
#include "platform/distributed/prefix_store.h"
#include "platform/distributed/recorded_host_communicator.h"
#include "platform/distributed/simulated/simulated_communicator.h"
#include "platform/os/host_port.h"
#include "platform/os/unique_fd.h"
#include "server/core/proto_time.h"

namespace ferry {
namespace {

// HOST:PORT or [IPV6]:PORT.
absl::StatusOr<HostPort> parse_address(const std::string& text) {
  const absl::StatusOr<HostPort> address = parse_host_port(text);
  if (address.ok() && address->port != 0) return address;
  return absl::InvalidArgumentError(absl::StrCat(
      "rendezvous.store_address: \"", text, "\" is no address to dial"));
}

GlooOptions gloo_options(const worker::v1::Rendezvous& meeting,
                         absl::Duration join_timeout) {
  GlooOptions options;
  if (!meeting.listen_host().empty()) options.address = meeting.listen_host();
  options.timeout = join_timeout;
  return options;
}

// The first operation of a recorder: ranks that do not come show as it.
template <typename Join>
auto join_recorded(FlightRecorder& recorder, Join join) {
  const int64_t number = recorder.enqueue("join", 0);
  recorder.start(number);
  auto joined = join();
  recorder.end(number, joined.status());
  return joined;
}

}  // namespace

absl::Status JoinedGroup::status() const {
  RETURN_IF_ERROR(ranks_.control->status());
  if (ranks_.weights != nullptr) RETURN_IF_ERROR(ranks_.weights->status());
  return ranks_.choice == nullptr ? absl::OkStatus() : ranks_.choice->status();
}

absl::StatusOr<std::unique_ptr<TcpStore>> JoinedGroup::join_votes(
    const worker::v1::Rendezvous& meeting, const HostPort& address,
    const GlooOptions& gloo) {
  FlightRecorder& recorder = recorders_.add("votes", rank_, size_);
  std::unique_ptr<TcpStore> store;
  auto votes = join_recorded(
      recorder, [&]() -> absl::StatusOr<std::unique_ptr<HostCommunicator>> {
        fault_point("join_group");
        if (meeting.has_store_fd()) {
          ASSIGN_OR_RETURN(server_,
                           TcpStoreServer::adopt(UniqueFd(meeting.store_fd())));
        }
        ASSIGN_OR_RETURN(
            store, TcpStore::connect(address.host, address.port, gloo.timeout));
        PrefixStore control(*store,
                            absl::StrCat(meeting.incarnation(), "/control"));
        return join_gloo_group(control, rank_, size_, gloo);
      });
  RETURN_IF_ERROR(votes.status());
  ranks_.control =
      std::make_unique<RecordedHostCommunicator>(*std::move(votes), recorder);
  return store;
}

absl::Status JoinedGroup::join_devices(Platform& platform, Store& store,
                                       const GlooOptions& gloo) {
  if (auto* const device = dynamic_cast<SimulatedDevice*>(platform.device())) {
    FlightRecorder& recorder = recorders_.add("weights", rank_, size_);
    ASSIGN_OR_RETURN(std::unique_ptr<HostCommunicator> host,
                     join_recorded(recorder, [&] {
                       return join_gloo_group(store, rank_, size_, gloo);
                     }));
    SimulatedCommunicatorOptions options;
    options.timeout = ranks_.timeout;
    options.recorder = &recorder;
    ranks_.weights = std::make_unique<SimulatedCommunicator>(
        *device, std::move(host), options);
    return absl::OkStatus();
  }
  if (auto* const device = dynamic_cast<CudaDevice*>(platform.device())) {
    ASSIGN_OR_RETURN(nccl_, NcclLibrary::open());
    FlightRecorder& recorder = recorders_.add("weights", rank_, size_);
    NcclOptions options;
    options.join_timeout = gloo.timeout;
    options.timeout = ranks_.timeout;
    options.recorder = &recorder;
    ASSIGN_OR_RETURN(ranks_.weights, join_recorded(recorder, [&] {
                       return NcclCommunicator::join(*nccl_, *device, store,
                                                     rank_, size_, options);
                     }));
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("offload: weight_transfer \"allgather\" on platform ",
                   platform.name(), " is not supported"));
}

absl::Status JoinedGroup::agree_on_devices(const absl::Status& joined) {
  if (!joined.ok()) {
    log_warning("ranks do without gathering weights",
                {{"reason", joined.message()}});
  }
  ASSIGN_OR_RETURN(
      const uint64_t failures,
      ranks_.control->all_reduce_or(joined.ok() ? 0 : 1, ranks_.start_timeout));
  if (failures != 0) ranks_.weights.reset();
  return absl::OkStatus();
}

absl::Status JoinedGroup::join_choice(Store& store, const GlooOptions& gloo) {
  FlightRecorder& recorder = recorders_.add("choice", rank_, size_);
  ASSIGN_OR_RETURN(std::unique_ptr<HostCommunicator> joined,
                   join_recorded(recorder, [&] {
                     return join_gloo_group(store, rank_, size_, gloo);
                   }));
  ranks_.choice =
      std::make_unique<RecordedHostCommunicator>(std::move(joined), recorder);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<JoinedGroup>> JoinedGroup::join(
    const worker::v1::LoadPipelineRequest& request, Platform& platform,
    RankRecorders& recorders, Gathers gathers) {
  if (!request.has_rendezvous()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: is unset, and ", request.world_size(),
                     " ranks that share weights need one"));
  }
  const worker::v1::Rendezvous& meeting = request.rendezvous();
  ASSIGN_OR_RETURN(const HostPort address,
                   parse_address(meeting.store_address()));
  ASSIGN_OR_RETURN(const absl::Duration join_timeout,
                   from_proto(meeting.join_timeout()));
  ASSIGN_OR_RETURN(const absl::Duration timeout,
                   from_proto(meeting.operation_timeout()));

  auto group = absl::WrapUnique(
      new JoinedGroup(request.rank(), request.world_size(), recorders));
  group->ranks_.timeout = timeout;
  group->ranks_.start_timeout = join_timeout;
  const GlooOptions gloo = gloo_options(meeting, join_timeout);
  ASSIGN_OR_RETURN(const std::shared_ptr<TcpStore> store,
                   group->join_votes(meeting, address, gloo));
  if (gathers == Gathers::kNever) return group;
  // The group owns what is called, and so is there.
  const auto join_gathering = [self = group.get(), &platform, store, gloo,
                               incarnation = meeting.incarnation(), gathers] {
    return self->join_gathering(platform, *store, incarnation, gloo, gathers);
  };
  if (gathers == Gathers::kAlways) {
    RETURN_IF_ERROR(join_gathering());
  } else {
    group->ranks_.join_devices = join_gathering;
  }
  return group;
}

absl::Status JoinedGroup::join_gathering(Platform& platform, Store& store,
                                         const std::string& incarnation,
                                         const GlooOptions& gloo,
                                         Gathers gathers) {
  PrefixStore weights(store, absl::StrCat(incarnation, "/weights"));
  const absl::Status joined = join_devices(platform, weights, gloo);
  if (gathers == Gathers::kAlways) {
    RETURN_IF_ERROR(joined);
  } else {
    RETURN_IF_ERROR(agree_on_devices(joined));
  }
  if (ranks_.weights == nullptr) return absl::OkStatus();
  PrefixStore choice(store, absl::StrCat(incarnation, "/choice"));
  return join_choice(choice, gloo);
}

}  // namespace ferry
