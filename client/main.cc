#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "client/command_context.h"
#include "client/commands.h"
#include "client/exit_codes.h"
#include "client/flags.h"
#include "client/generate_command.h"
#include "platform/base/clock.h"
#include "platform/base/command_line.h"
#include "platform/base/mutex.h"
#include "platform/base/version.h"
#include "platform/os/signal_watcher.h"

namespace ferry {
namespace {

// Carries Ctrl-C to the generation once there is one.
class Interrupter {
 public:
  void attach(GenerateCommand* command) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    command_ = command;
    if (pending_ && command != nullptr) command->interrupt();
  }

  void interrupt() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    pending_ = true;
    if (command_ != nullptr) command_->interrupt();
  }

 private:
  Mutex mutex_;
  GenerateCommand* command_ GUARDED_BY(mutex_) = nullptr;
  bool pending_ GUARDED_BY(mutex_) = false;
};

std::shared_ptr<grpc::Channel> connect() {
  grpc::ChannelArguments arguments;
  // A generation may say nothing for long: pings find out that the server has
  // gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The server is named directly; a proxy of the environment is for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(absl::GetFlag(FLAGS_address),
                                   grpc::InsecureChannelCredentials(),
                                   arguments);
}

int run_generate(const CommandContext& context, GenerateOptions options,
                 Interrupter* interrupter) {
  GenerateCommand command(context, std::move(options));
  interrupter->attach(&command);
  const int code = command.run();
  interrupter->attach(nullptr);
  return code;
}

int usage_error(const absl::Status& status) {
  std::cerr << "ferryctl: " << status.message() << std::endl;
  return kUsage;
}

int run(int argc, char* argv[]) {
  const auto line = parse_command_line(argc, argv, flags_file());
  if (!line.ok()) return usage_error(line.status());
  if (line->help) {
    std::cout << commands_help() << describe_flags(flags_file());
    return kSuccess;
  }
  if (line->version) {
    std::cout << "ferryctl " << kVersion << std::endl;
    return kSuccess;
  }
  auto command = find_command(*line);
  if (!command.ok()) return usage_error(command.status());

  // Before gRPC starts threads, which would take the signals.
  Interrupter interrupter;
  std::unique_ptr<SignalWatcher> signals;
  if (!command->run) {
    auto watcher = SignalWatcher::create(
        {SIGINT, SIGTERM}, [&interrupter](int) { interrupter.interrupt(); });
    if (!watcher.ok()) return usage_error(watcher.status());
    signals = *std::move(watcher);
  }

  CommandContext context;
  context.channel = connect();
  context.out = &std::cout;
  context.err = &std::cerr;
  context.clock = &Clock::real();
  context.json = absl::GetFlag(FLAGS_json);
  context.terminal = isatty(STDERR_FILENO) == 1;
  context.timeout = absl::GetFlag(FLAGS_timeout);
  return command->run ? command->run(context)
                      : run_generate(context, std::move(command->generate),
                                     &interrupter);
}

// What a script reads must not be cut short without a word.
int check_output(int code) {
  std::cout.flush();
  if (std::cout.good()) return code;
  std::cerr << "ferryctl: cannot write to standard output" << std::endl;
  return code == kSuccess ? kLocalError : code;
}

}  // namespace
}  // namespace ferry

int main(int argc, char* argv[]) {
  return ferry::check_output(ferry::run(argc, argv));
}
