#include "server/core/config_loader.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "platform/base/logging.h"
#include "platform/base/utf8.h"
#include "server/core/address.h"
#include "server/core/platform_settings.h"
#include "server/core/proto_time.h"
#include "server/core/worker_token.h"

namespace ferry {
namespace {

// Of one pipeline.
constexpr int kMaxRanks = 64;
// Nothing that is configured lasts longer.
constexpr absl::Duration kMaxDuration = absl::Hours(24 * 365);

class ErrorLines final : public google::protobuf::io::ErrorCollector {
 public:
  explicit ErrorLines(absl::string_view file_name) : file_name_(file_name) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    lines_.push_back(absl::StrCat(file_name_, ":", line + 1, ":", column + 1,
                                  ": ", message));
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  const std::string file_name_;
  std::vector<std::string> lines_;
};

// Moves what is set from the message to the struct, and collects what is wrong.
class ConfigCheck {
 public:
  explicit ConfigCheck(const config::v1::ServerConfig& config)
      : config_(config) {}

  absl::StatusOr<DaemonConfig> run() {
    check_texts(config_, "");
    check_pipelines();
    check_serving();
    check_limits();
    check_workers();
    check_external_workers();
    check_ending();
    check_log();
    check_platform();
    if (errors_.empty()) return std::move(result_);
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  void add(absl::string_view field, absl::string_view flag,
           absl::string_view description) {
    errors_.push_back(absl::StrCat(field, " (--", flag, "): ", description));
  }
  void add(absl::string_view field, absl::string_view description) {
    add(field, field, description);
  }

  template <typename T>
  void number(absl::string_view field, bool is_set, T value, int64_t min,
              int64_t max, T* out) {
    if (!is_set) return;
    if (value < min || value > max) {
      add(field, absl::StrCat("must be ", min, " to ", max, ", got ", value));
    }
    *out = value;
  }

  void duration(absl::string_view field, bool is_set,
                const google::protobuf::Duration& value, absl::Duration min,
                absl::Duration* out) {
    if (!is_set) return;
    const absl::StatusOr<absl::Duration> parsed = from_proto(value);
    if (!parsed.ok()) return add(field, parsed.status().message());
    if (*parsed < min || *parsed > kMaxDuration) {
      add(field, absl::StrCat("must be ", absl::FormatDuration(min), " to ",
                              absl::FormatDuration(kMaxDuration), ", got ",
                              absl::FormatDuration(*parsed)));
    }
    *out = *parsed;
  }

  void rate(absl::string_view field, bool is_set, double value, double* out) {
    if (!is_set) return;
    if (!std::isfinite(value) || value <= 0) {
      add(field, absl::StrCat("must be a positive number, got ", value));
    }
    *out = value;
  }

  void one_of(absl::string_view field, const std::string& value,
              std::initializer_list<absl::string_view> allowed,
              std::string* out) {
    if (value.empty()) return;
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      add(field, absl::StrCat("must be one of ", absl::StrJoin(allowed, ", "),
                              ", got \"", value, "\""));
    }
    *out = value;
  }

  void check_text(const std::string& text, const std::string& name);
  void check_texts(const google::protobuf::Message& message,
                   const std::string& prefix);
  void check_pipelines();
  void check_pipeline(int index, std::set<std::string>* names);
  void check_serving();
  void check_addresses();
  void check_limits();
  void check_workers();
  void check_external_workers();
  void check_ending();
  void check_log();
  void check_platform();

  const config::v1::ServerConfig& config_;
  DaemonConfig result_;
  std::vector<std::string> errors_;
};

bool is_pipeline_name(const std::string& name) {
  const auto plain = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c);
  };
  if (name.empty() || name.size() > 63 || !plain(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) {
                       return plain(c) || c == '.' || c == '_' || c == '-';
                     }) &&
         name.find("..") == std::string::npos;
}

// The text format takes any bytes. A path with NUL would name another file, and
// what is no UTF-8 cannot be sent to a worker.
void ConfigCheck::check_text(const std::string& text, const std::string& name) {
  if (is_utf8(text) && text.find('\0') == std::string::npos) return;
  errors_.push_back(absl::StrCat(name, ": must be UTF-8 without NUL"));
}

void ConfigCheck::check_texts(const google::protobuf::Message& message,
                              const std::string& prefix) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = absl::StrCat(prefix, field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      if (!field->is_repeated()) {
        check_text(reflection.GetString(message, field), name);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        check_text(reflection.GetRepeatedString(message, field, i),
                   absl::StrCat(name, "[", i, "]"));
      }
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (!field->is_repeated()) {
      check_texts(reflection.GetMessage(message, field), name + ".");
    } else {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        check_texts(reflection.GetRepeatedMessage(message, field, i),
                    absl::StrCat(name, "[", i, "]."));
      }
    }
  }
}

void ConfigCheck::check_pipelines() {
  if (config_.pipelines().empty()) {
    add("pipelines", "pipeline", "at least one pipeline must be served");
  }
  std::set<std::string> names;
  for (int i = 0; i < config_.pipelines_size(); ++i) check_pipeline(i, &names);
}

void ConfigCheck::check_pipeline(int index, std::set<std::string>* names) {
  const config::v1::PipelineConfig& config = config_.pipelines(index);
  const std::string field = absl::StrCat("pipelines[", index, "].");
  PipelineSettings settings;
  settings.name = config.name();
  if (!is_pipeline_name(config.name())) {
    add(absl::StrCat(field, "name"), "pipeline",
        absl::StrCat("must match [a-z0-9][a-z0-9._-]{0,62} without \"..\", "
                     "got \"",
                     config.name(), "\""));
  } else if (!names->insert(config.name()).second) {
    add(absl::StrCat(field, "name"), "pipeline",
        absl::StrCat("\"", config.name(), "\" is there twice"));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(config.path(), error)) {
    add(absl::StrCat(field, "path"), "pipeline",
        absl::StrCat("must be a directory, got \"", config.path(), "\""));
  } else {
    settings.path =
        std::filesystem::absolute(config.path()).lexically_normal().string();
  }
  if (config.has_ranks()) {
    settings.ranks = config.ranks();
    if (config.ranks() < 1 || config.ranks() > kMaxRanks) {
      add(absl::StrCat(field, "ranks"), "ranks",
          absl::StrCat("must be 1 to ", kMaxRanks, ", got ", config.ranks()));
    }
  }
  settings.external_ranks = config.external_ranks();
  if (settings.external_ranks < 0 ||
      settings.external_ranks > std::max(settings.ranks - 1, 0)) {
    add(absl::StrCat(field, "external_ranks"), "external_ranks",
        absl::StrCat("must be 0 to ranks - 1 = ", settings.ranks - 1,
                     ", since ferryd starts the first rank, got ",
                     settings.external_ranks));
  }
  // The rest of it is checked by the worker, which knows what it means.
  std::string mode;
  one_of(absl::StrCat(field, "offload.mode"), config.offload().mode(),
         {"auto", "none", "module", "layer"}, &mode);
  settings.offload = config.offload();
  if (config.offload().ByteSizeLong() == 0) settings.offload.set_mode("auto");
  settings.parallel = config.parallel();
  result_.pipelines.push_back(std::move(settings));
}

void ConfigCheck::check_serving() {
  check_addresses();
  if (config_.has_address_file()) result_.address_file = config_.address_file();
  number("max_inflight", config_.has_max_inflight(), config_.max_inflight(), 64,
         4096, &result_.max_inflight);
  number("max_receive_bytes", config_.has_max_receive_bytes(),
         config_.max_receive_bytes(), 64 << 10, INT32_MAX,
         &result_.max_receive_bytes);
  number("max_concurrent_streams", config_.has_max_concurrent_streams(),
         config_.max_concurrent_streams(), 1, 1 << 20,
         &result_.max_concurrent_streams);
  duration("slow_reader_timeout", config_.has_slow_reader_timeout(),
           config_.slow_reader_timeout(), absl::Milliseconds(10),
           &result_.slow_reader_timeout);
  duration("keepalive_time", config_.has_keepalive_time(),
           config_.keepalive_time(), absl::Seconds(1), &result_.keepalive_time);
  duration("keepalive_timeout", config_.has_keepalive_timeout(),
           config_.keepalive_timeout(), absl::Seconds(1),
           &result_.keepalive_timeout);
  duration("min_client_ping_interval", config_.has_min_client_ping_interval(),
           config_.min_client_ping_interval(), absl::ZeroDuration(),
           &result_.min_client_ping_interval);
  if (config_.has_enable_reflection()) {
    result_.enable_reflection = config_.enable_reflection();
  }
}

void ConfigCheck::check_addresses() {
  if (config_.has_grpc_address()) result_.grpc_address = config_.grpc_address();
  result_.health_address = config_.health_address();
  const absl::Status grpc = check_address(result_.grpc_address);
  if (!grpc.ok()) add("grpc_address", grpc.message());
  if (result_.health_address.empty()) return;
  const absl::Status health = check_address(result_.health_address);
  if (!health.ok()) {
    add("health_address", health.message());
  } else if (result_.health_address == result_.grpc_address &&
             !absl::EndsWith(result_.grpc_address, ":0")) {
    add("health_address", "must differ from grpc_address");
  }
}

void ConfigCheck::check_limits() {
  number("max_queue_jobs", config_.has_max_queue_jobs(),
         config_.max_queue_jobs(), 0, 1 << 20, &result_.max_queue_jobs);
  number("max_queue_bytes", config_.has_max_queue_bytes(),
         config_.max_queue_bytes(), 0, int64_t{1} << 50,
         &result_.max_queue_bytes);
  duration("queue_timeout", config_.has_queue_timeout(),
           config_.queue_timeout(), absl::Milliseconds(1),
           &result_.queue_timeout);
  duration("run_timeout", config_.has_run_timeout(), config_.run_timeout(),
           absl::Milliseconds(1), &result_.run_timeout);
  number("max_pixels", config_.has_max_pixels(), config_.max_pixels(), 1,
         int64_t{1} << 40, &result_.max_pixels);
  number("max_images", config_.has_max_images(), config_.max_images(), 1, 1000,
         &result_.max_images);
  number("max_request_pixels", config_.has_max_request_pixels(),
         config_.max_request_pixels(), 1, int64_t{1} << 50,
         &result_.max_request_pixels);
  number("max_num_inference_steps", config_.has_max_num_inference_steps(),
         config_.max_num_inference_steps(), 1, 1 << 20,
         &result_.max_num_inference_steps);
  number("max_finished_jobs", config_.has_max_finished_jobs(),
         config_.max_finished_jobs(), 0, 1 << 20, &result_.max_finished_jobs);
}

void ConfigCheck::check_workers() {
  if (!config_.worker_path().empty()) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(config_.worker_path(), error)) {
      add("worker_path", absl::StrCat("must be a program, got \"",
                                      config_.worker_path(), "\""));
    }
    result_.worker_path = config_.worker_path();
  }
  number("intra_op_threads", config_.has_intra_op_threads(),
         config_.intra_op_threads(), 0, 1024, &result_.intra_op_threads);
  duration("pipeline_load_timeout", config_.has_pipeline_load_timeout(),
           config_.pipeline_load_timeout(), absl::Milliseconds(1),
           &result_.pipeline_load_timeout);
  duration("step_timeout", config_.has_step_timeout(), config_.step_timeout(),
           absl::Milliseconds(1), &result_.step_timeout);
  duration("cancel_grace", config_.has_cancel_grace(), config_.cancel_grace(),
           absl::Milliseconds(1), &result_.cancel_grace);
  duration("heartbeat_interval", config_.has_heartbeat_interval(),
           config_.heartbeat_interval(), absl::Milliseconds(1),
           &result_.heartbeat_interval);
  duration("heartbeat_timeout", config_.has_heartbeat_timeout(),
           config_.heartbeat_timeout(), absl::Milliseconds(1),
           &result_.heartbeat_timeout);
  if (result_.heartbeat_timeout <= result_.heartbeat_interval) {
    add("heartbeat_timeout", "must be longer than heartbeat_interval");
  }
  duration("worker_restart_backoff_min",
           config_.has_worker_restart_backoff_min(),
           config_.worker_restart_backoff_min(), absl::Milliseconds(1),
           &result_.worker_restart_backoff_min);
  duration("worker_restart_backoff_max",
           config_.has_worker_restart_backoff_max(),
           config_.worker_restart_backoff_max(), absl::Milliseconds(1),
           &result_.worker_restart_backoff_max);
  if (result_.worker_restart_backoff_max < result_.worker_restart_backoff_min) {
    add("worker_restart_backoff_max",
        "must not be shorter than worker_restart_backoff_min");
  }
  number("worker_restart_limit", config_.has_worker_restart_limit(),
         config_.worker_restart_limit(), 0, 1 << 20,
         &result_.worker_restart_limit);
  duration("worker_restart_window", config_.has_worker_restart_window(),
           config_.worker_restart_window(), absl::Milliseconds(1),
           &result_.worker_restart_window);
  if (config_.has_exit_on_load_error()) {
    result_.exit_on_load_error = config_.exit_on_load_error();
  }
}

void ConfigCheck::check_external_workers() {
  result_.worker_address = config_.worker_address();
  result_.worker_token_file = config_.worker_token_file();
  const bool needed = std::any_of(
      config_.pipelines().begin(), config_.pipelines().end(),
      [](const auto& pipeline) { return pipeline.external_ranks() > 0; });
  const auto check_presence = [&](absl::string_view field, bool is_set) {
    if (is_set == needed) return;
    add(field, needed ? "is required, since a pipeline has external_ranks"
                      : "must be empty, since no pipeline has external_ranks");
  };
  check_presence("worker_address", !result_.worker_address.empty());
  check_presence("worker_token_file", !result_.worker_token_file.empty());
  if (!result_.worker_address.empty()) {
    const absl::Status status = check_address(result_.worker_address);
    if (!status.ok() || absl::StartsWith(result_.worker_address, "unix:")) {
      add("worker_address",
          absl::StrCat("must be HOST:PORT or [IPV6]:PORT, got \"",
                       result_.worker_address, "\""));
    } else if (!absl::EndsWith(result_.worker_address, ":0") &&
               (result_.worker_address == result_.grpc_address ||
                result_.worker_address == result_.health_address)) {
      add("worker_address", "must differ from grpc_address and health_address");
    }
  }
  if (!result_.worker_token_file.empty()) {
    const absl::Status status =
        read_worker_token(result_.worker_token_file).status();
    if (!status.ok()) add("worker_token_file", status.message());
  }
}

void ConfigCheck::check_ending() {
  duration("lame_duck", config_.has_lame_duck(), config_.lame_duck(),
           absl::ZeroDuration(), &result_.lame_duck);
  duration("drain_timeout", config_.has_drain_timeout(),
           config_.drain_timeout(), absl::ZeroDuration(),
           &result_.drain_timeout);
  duration("hard_exit_after", config_.has_hard_exit_after(),
           config_.hard_exit_after(), absl::Milliseconds(1),
           &result_.hard_exit_after);
}

void ConfigCheck::check_log() {
  if (!config_.log_level().empty()) result_.log_level = config_.log_level();
  const auto level = parse_log_level(result_.log_level);
  if (!level.ok()) add("log_level", level.status().message());
  if (!config_.log_format().empty()) result_.log_format = config_.log_format();
  const auto format = parse_log_format(result_.log_format);
  if (!format.ok()) add("log_format", format.status().message());
  result_.log_file = config_.log_file();
}

void ConfigCheck::check_platform() {
  PlatformSettings& settings = result_.platform;
  one_of("platform", config_.platform(), {"auto", "cpu", "cuda", "simulated"},
         &settings.platform);
  number("simulated_device_memory", config_.has_simulated_device_memory(),
         config_.simulated_device_memory(), 1, int64_t{1} << 40,
         &settings.simulated_device_memory);
  rate("simulated_h2d_gbps", config_.has_simulated_h2d_gbps(),
       config_.simulated_h2d_gbps(), &settings.simulated_h2d_gbps);
  rate("simulated_d2h_gbps", config_.has_simulated_d2h_gbps(),
       config_.simulated_d2h_gbps(), &settings.simulated_d2h_gbps);
  duration("simulated_latency", config_.has_simulated_latency(),
           config_.simulated_latency(), absl::ZeroDuration(),
           &settings.simulated_latency);
  if (settings.simulated_latency > absl::Seconds(1)) {
    add("simulated_latency",
        absl::StrCat("must be 0 to 1s, got ",
                     absl::FormatDuration(settings.simulated_latency)));
  }
  number("simulated_copy_engines", config_.has_simulated_copy_engines(),
         config_.simulated_copy_engines(), 1, 16,
         &settings.simulated_copy_engines);
  if (config_.has_simulated_check()) {
    settings.simulated_check = config_.simulated_check();
  }
}

}  // namespace

absl::StatusOr<config::v1::ServerConfig> read_server_config(
    const std::string& path) {
  std::error_code error;
  std::ifstream file(path);
  if (!file.is_open() || std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(
        absl::StrCat("--config: cannot read \"", path, "\""));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_server_config(text.str(), path);
}

absl::StatusOr<config::v1::ServerConfig> parse_server_config(
    const std::string& text, absl::string_view file_name) {
  config::v1::ServerConfig config;
  ErrorLines errors(file_name);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (!parser.ParseFromString(text, &config)) {
    return absl::InvalidArgumentError(absl::StrJoin(errors.lines(), "\n"));
  }
  return config;
}

absl::StatusOr<DaemonConfig> make_daemon_config(
    const config::v1::ServerConfig& config) {
  return ConfigCheck(config).run();
}

}  // namespace ferry
