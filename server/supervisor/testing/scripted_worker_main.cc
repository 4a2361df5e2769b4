// A worker whose faults are scripted, for tests of what watches workers. It
// speaks the real protocol with the real service and a fake pipeline.
//
// --script, or the environment's FERRY_SCRIPT, holds one entry for each
// generation, separated by ';' (the last one counts for all later ones), each
// with faults separated by ','. FAULT@RANK is one of that rank only:
//   exit_before_hello=CODE  exits before it serves
//   exit_in_load=CODE       exits while it loads
//   load_error              reports that the package is wrong
//   hang_in_load            never ends loading
//   ignore_sigterm          goes on after SIGTERM
//   hang_in_step=N          never ends step N, whatever is asked
//   ignore_cancel           runs on when it is asked to end
//   die_in_step=N           is killed in step N
//   step_ms=N               takes so long for each step
//   output_bytes=N          bytes of each output
//   waves=N                 loads until N waves have been started
//   wrong_wave              wants one after a wave that never was
//   on_gpu                  says that its device is the GPU of its rank
//   chatty=N                writes N numbered lines to stderr at the start
//   says_where              says as its device where it meets the others
//
// Without --ipc_fd it dials ferryd.

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "platform/base/error_info.h"
#include "platform/base/status_macros.h"
#include "platform/os/host_port.h"
#include "platform/os/tcp_socket.h"
#include "server/ipc/worker_exit.h"
#include "server/worker/dial_ferryd.h"
#include "server/worker/rank_recorders.h"
#include "server/worker/run_worker.h"
#include "server/worker/testing/eager_participant.h"
#include "server/worker/testing/fake_pipeline.h"
#include "server/worker/wave_line.h"

ABSL_FLAG(int, ipc_fd, -1, "socket to ferryd");
ABSL_FLAG(int, lifeline_fd, -1, "pipe that ends with ferryd");
ABSL_FLAG(int, images_fd, -1, "weights that ranks share");
ABSL_FLAG(int, rank, 0, "rank");
ABSL_FLAG(int, generation, 1, "generation of the group");
ABSL_FLAG(std::string, script, "", "faults by generation");
// Of one that dials ferryd.
ABSL_FLAG(std::string, rendezvous, "", "worker_address of ferryd");
ABSL_FLAG(std::string, bind_address, "", "address of this host");
ABSL_FLAG(std::string, token, "", "the token itself");
ABSL_FLAG(int, world_size, 2, "ranks");
ABSL_FLAG(absl::Duration, join_timeout, absl::Minutes(1), "for ferryd");

namespace ferry {
namespace {

[[noreturn]] void hang() {
  while (true) pause();
}

// The faults of one generation and rank; those without a value have 0.
class Script {
 public:
  Script(const std::string& text, int generation, int rank) {
    const std::vector<std::string> entries = absl::StrSplit(text, ';');
    const size_t index =
        std::min(static_cast<size_t>(generation), entries.size()) - 1;
    for (const absl::string_view fault :
         absl::StrSplit(entries[index], ',', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(fault, absl::MaxSplits('=', 1));
      const std::pair<std::string, std::string> fault_at =
          absl::StrSplit(parts.first, absl::MaxSplits('@', 1));
      int only = rank;
      if (absl::SimpleAtoi(fault_at.second, &only) && only != rank) continue;
      int value = 0;
      if (!absl::SimpleAtoi(parts.second, &value)) value = 0;
      faults_[fault_at.first] = value;
    }
  }

  bool has(const std::string& fault) const { return faults_.count(fault) > 0; }
  int value(const std::string& fault, int otherwise = -1) const {
    const auto it = faults_.find(fault);
    return it == faults_.end() ? otherwise : it->second;
  }

 private:
  std::map<std::string, int> faults_;
};

void take_part_in_waves(const Script& script, WaveLine& waves) {
  const int last = script.value("waves", 0);
  EagerParticipant participant(last);
  waves.attach(participant);
  if (last > 0) {
    participant.want(0);
    participant.wait_for(static_cast<size_t>(last));
  }
  if (script.has("wrong_wave")) {
    participant.want(7);
    hang();
  }
  waves.detach();
}

bool is_own_address(const std::string& host) {
  return bind_tcp({host, 0}).ok();
}

// Whether this rank could meet the others.
absl::Status check_rendezvous(const worker::v1::LoadPipelineRequest& request) {
  const worker::v1::Rendezvous& meeting = request.rendezvous();
  bool right = request.has_rendezvous() == (request.world_size() > 1);
  if (right && request.has_rendezvous()) {
    right = meeting.incarnation().size() == 32 &&
            meeting.join_timeout().seconds() > 0 &&
            meeting.operation_timeout().seconds() > 0 &&
            meeting.has_store_fd() == (request.rank() == 0) &&
            is_own_address(meeting.listen_host());
  }
  if (right && meeting.has_store_fd()) {
    sockaddr_in address = {};
    socklen_t length = sizeof(address);
    right = getsockname(meeting.store_fd(),
                        reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
            meeting.store_address() == absl::StrCat(meeting.listen_host(), ":",
                                                    ntohs(address.sin_port));
  }
  if (right) return absl::OkStatus();
  return make_error(absl::StatusCode::kInvalidArgument,
                    absl::StrCat("rendezvous: ", meeting.ShortDebugString()),
                    {"WRONG_RENDEZVOUS", {}});
}

FakePipelineOptions pipeline_options(
    const Script& script, const worker::v1::LoadPipelineRequest& request) {
  FakePipelineOptions options;
  options.ignore_cancel = script.has("ignore_cancel");
  options.output_bytes = script.value("output_bytes", 64);
  if (script.has("on_gpu")) {
    options.device = absl::StrCat("cuda:", request.rank());
  }
  if (request.has_rendezvous()) {
    options.version = request.rendezvous().incarnation();
  }
  if (script.has("says_where")) {
    options.device =
        absl::StrCat("cpu:", request.device_index(), " at ",
                     request.rendezvous().listen_host(), ", store at ",
                     request.rendezvous().store_address());
  }
  options.on_step = [script](int step) {
    if (step == script.value("hang_in_step")) hang();
    if (step == script.value("die_in_step")) raise(SIGKILL);
    poll(nullptr, 0, script.value("step_ms", 0));
  };
  return options;
}

// As far as its recorder tells. It never ends.
void begin_to_join(const worker::v1::LoadPipelineRequest& request,
                   RankRecorders& recorders) {
  FlightRecorder& votes =
      recorders.add("votes", request.rank(), request.world_size());
  votes.start(votes.enqueue("join", 0));
}

PipelineLoader loader(const Script& script) {
  return [script](const worker::v1::LoadPipelineRequest& request,
                  WaveLine* waves, RankRecorders* recorders)
             -> absl::StatusOr<std::unique_ptr<LoadedPipeline>> {
    if (request.world_size() > 1) begin_to_join(request, *recorders);
    if (script.has("exit_in_load")) _exit(script.value("exit_in_load"));
    if (script.has("hang_in_load")) hang();
    if (script.has("load_error")) {
      return make_error(absl::StatusCode::kInvalidArgument,
                        "ferry.txtpb: the package is wrong",
                        {"INVALID_PACKAGE", {{"file", "ferry.txtpb"}}});
    }
    RETURN_IF_ERROR(check_rendezvous(request));
    take_part_in_waves(script, *waves);
    return fake_pipeline_loader(pipeline_options(script, request))(
        request, waves, recorders);
  };
}

int run_external(const Script& script) {
  DialOptions options;
  options.rendezvous = *parse_host_port(absl::GetFlag(FLAGS_rendezvous));
  options.bind_address = absl::GetFlag(FLAGS_bind_address);
  options.token = absl::GetFlag(FLAGS_token);
  options.pipeline = "pipelines/test";
  options.rank = absl::GetFlag(FLAGS_rank);
  options.world_size = absl::GetFlag(FLAGS_world_size);
  options.device_index = 7;
  options.join_timeout = absl::GetFlag(FLAGS_join_timeout);
  const absl::Status status = run_external_worker(options, loader(script));
  if (status.ok()) return 0;
  fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return kWorkerNotLetIn;
}

int run() {
  const char* environment = getenv("FERRY_SCRIPT");
  const std::string flag = absl::GetFlag(FLAGS_script);
  const Script script(
      flag.empty() && environment != nullptr ? environment : flag,
      absl::GetFlag(FLAGS_generation), absl::GetFlag(FLAGS_rank));
  for (int i = 0; i < script.value("chatty", 0); ++i) {
    fprintf(stderr, "line %d\n", i);
  }
  if (script.has("exit_before_hello")) {
    fprintf(stderr, "I cannot start\n");
    return script.value("exit_before_hello");
  }
  if (absl::GetFlag(FLAGS_ipc_fd) < 0) return run_external(script);
  const absl::Status status = run_worker(
      {absl::GetFlag(FLAGS_ipc_fd), absl::GetFlag(FLAGS_lifeline_fd)},
      loader(script));
  if (script.has("ignore_sigterm")) hang();
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return ferry::run();
}
