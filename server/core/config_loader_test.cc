#include "server/core/config_loader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "server/core/platform_settings.h"

namespace ferry {
namespace {

class ConfigLoaderTest : public testing::Test {
 protected:
  ConfigLoaderTest() : directory_(testing::TempDir()) {}

  // A configuration without errors.
  config::v1::ServerConfig minimal() {
    config::v1::ServerConfig config;
    config::v1::PipelineConfig& pipeline = *config.add_pipelines();
    pipeline.set_name("demo");
    pipeline.set_path(directory_);
    return config;
  }

  std::vector<std::string> errors(const config::v1::ServerConfig& config) {
    const auto result = make_daemon_config(config);
    if (result.ok()) return {};
    EXPECT_TRUE(absl::IsInvalidArgument(result.status()));
    return absl::StrSplit(std::string(result.status().message()), '\n');
  }

  // The errors after one flag more than the minimum.
  std::vector<std::string> errors_with(const std::string& flag,
                                       const std::string& value) {
    config::v1::ServerConfig config = minimal();
    const absl::Status status = apply_flag(flag, value, &config);
    if (!status.ok()) return {std::string(status.message())};
    return errors(config);
  }

  const std::string directory_;
};

TEST_F(ConfigLoaderTest, FillsInTheDefaults) {
  const auto config = make_daemon_config(minimal());
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->pipelines.size(), 1u);
  EXPECT_EQ(config->pipelines[0].name, "demo");
  EXPECT_EQ(config->pipelines[0].ranks, 1);
  EXPECT_TRUE(std::filesystem::path(config->pipelines[0].path).is_absolute());
  EXPECT_EQ(config->grpc_address, "127.0.0.1:8001");
  EXPECT_EQ(config->max_receive_bytes, 67108864);
  EXPECT_EQ(config->queue_timeout, absl::Minutes(5));
  EXPECT_TRUE(config->exit_on_load_error);
}

TEST_F(ConfigLoaderTest, ListsOfTextsMayBeThere) {
  config::v1::ServerConfig config = minimal();
  config::v1::OffloadConfig& offload =
      *config.mutable_pipelines(0)->mutable_offload();
  offload.set_mode("module");
  offload.add_components("dit");
  offload.add_components("text_encoder");
  EXPECT_EQ(errors(config), std::vector<std::string>());
  offload.add_components(std::string("va\0e", 4));
  EXPECT_EQ(errors(config),
            std::vector<std::string>{"pipelines[0].offload.components[2]: must "
                                     "be UTF-8 without NUL"});
}

TEST_F(ConfigLoaderTest, ReadsAFile) {
  const auto config = parse_server_config(
      "# what is served\n"
      "pipelines { name: 'a' path: '/x' ranks: 2 offload { mode: 'none' } }\n"
      "step_timeout { seconds: 7 }\n"
      "max_queue_jobs: 0\n",
      "f.txtpb");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->pipelines(0).ranks(), 2);
  EXPECT_EQ(config->step_timeout().seconds(), 7);
  EXPECT_TRUE(config->has_max_queue_jobs());
}

TEST_F(ConfigLoaderTest, NamesFileLineAndColumn) {
  const auto unknown =
      parse_server_config("max_inflight: 64\n  no_such_field: 1\n", "f.txtpb");
  EXPECT_TRUE(absl::StartsWith(unknown.status().message(), "f.txtpb:2:"))
      << unknown.status();
  EXPECT_TRUE(absl::StrContains(unknown.status().message(), "no_such_field"));
  for (const std::string& text :
       {std::string("max_inflight: 'x'"), std::string("max_inflight: 1e3"),
        std::string("max_inflight: 99999999999"),
        std::string("max_inflight: 1 max_inflight: 2"), std::string("{"),
        std::string("pipelines {"), std::string("\xff"),
        std::string("\0", 1)}) {
    const auto result = parse_server_config(text, "f.txtpb");
    EXPECT_TRUE(absl::StartsWith(result.status().message(), "f.txtpb:1:"))
        << text << ": " << result.status();
  }
}

TEST_F(ConfigLoaderTest, DeepTextIsAnErrorAndNoCrash) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "pipelines {";
  EXPECT_FALSE(parse_server_config(text, "f").ok());
}

TEST_F(ConfigLoaderTest, TextsAreUtf8WithoutNul) {
  for (const char* text : {"\\377", "/\\000x", "a\\355\\240\\200"}) {
    const auto config =
        parse_server_config(absl::StrCat("pipelines { name: 'a' path: '", text,
                                         "' } log_file: '", text, "'"),
                            "f");
    ASSERT_TRUE(config.ok()) << config.status();
    const absl::Status status = make_daemon_config(*config).status();
    EXPECT_TRUE(absl::StrContains(status.message(), "pipelines[0].path: must"))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "log_file: must"))
        << status;
  }
}

TEST_F(ConfigLoaderTest, AFileThatIsNotThereIsNamed) {
  const auto missing = read_server_config(directory_ + "/no.txtpb");
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_TRUE(absl::StrContains(missing.status().message(), "no.txtpb"));
  EXPECT_TRUE(absl::IsNotFound(read_server_config(directory_).status()));
  const std::string path = directory_ + "/server.txtpb";
  std::ofstream(path) << "max_images: 3\n";
  EXPECT_EQ(read_server_config(path)->max_images(), 3);
}

TEST_F(ConfigLoaderTest, FlagsWinOverTheFile) {
  config::v1::ServerConfig config = minimal();
  config.set_max_images(3);
  ASSERT_TRUE(apply_flag("max_images", "5", &config).ok());
  ASSERT_TRUE(apply_flag("step_timeout", "1m30s", &config).ok());
  ASSERT_TRUE(apply_flag("max_queue_bytes", "3Ki", &config).ok());
  ASSERT_TRUE(apply_flag("exit_on_load_error", "false", &config).ok());
  ASSERT_TRUE(apply_flag("grpc_address", "[::1]:0", &config).ok());
  const auto daemon = make_daemon_config(config);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_EQ(daemon->max_images, 5);
  EXPECT_EQ(daemon->step_timeout, absl::Seconds(90));
  EXPECT_EQ(daemon->max_queue_bytes, 3072);
  EXPECT_FALSE(daemon->exit_on_load_error);
  EXPECT_EQ(daemon->grpc_address, "[::1]:0");
}

TEST_F(ConfigLoaderTest, TheSimulatedDeviceIsDescribedByFlags) {
  config::v1::ServerConfig config = minimal();
  EXPECT_EQ(make_daemon_config(config)->platform.platform, "auto");
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"platform", "simulated"},
           {"simulated_device_memory", "64Ki"},
           {"simulated_h2d_gbps", "1.5"},
           {"simulated_d2h_gbps", "0.5"},
           {"simulated_latency", "20us"},
           {"simulated_copy_engines", "1"},
           {"simulated_check", "true"}}) {
    ASSERT_TRUE(apply_flag(flag, value, &config).ok()) << flag;
  }
  const auto daemon = make_daemon_config(config);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const PlatformSettings& platform = daemon->platform;
  EXPECT_EQ(platform.platform, "simulated");
  EXPECT_EQ(platform.simulated_device_memory, 65536);
  EXPECT_EQ(platform.simulated_h2d_gbps, 1.5);
  EXPECT_EQ(platform.simulated_d2h_gbps, 0.5);
  EXPECT_EQ(platform.simulated_latency, absl::Microseconds(20));
  EXPECT_EQ(platform.simulated_copy_engines, 1);
  EXPECT_TRUE(platform.simulated_check);
}

TEST_F(ConfigLoaderTest, NamesWhatNoSimulatedDeviceCanBe) {
  EXPECT_EQ(errors_with("platform", "tpu"),
            std::vector<std::string>{
                "platform (--platform): must be one of auto, cpu, cuda, "
                "simulated, got \"tpu\""});
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"simulated_device_memory", "0"},
           {"simulated_device_memory", "much"},
           {"simulated_h2d_gbps", "0"},
           {"simulated_h2d_gbps", "fast"},
           {"simulated_d2h_gbps", "inf"},
           {"simulated_d2h_gbps", "nan"},
           {"simulated_latency", "-1us"},
           {"simulated_latency", "2s"},
           {"simulated_copy_engines", "17"}}) {
    const std::vector<std::string> found = errors_with(flag, value);
    ASSERT_EQ(found.size(), 1u) << flag << "=" << value;
    EXPECT_TRUE(absl::StrContains(found[0], absl::StrCat("--", flag)))
        << found[0];
  }
}

TEST_F(ConfigLoaderTest, PipelineFlagsReplaceAndKeepOtherSettings) {
  config::v1::ServerConfig config = minimal();
  config.mutable_pipelines(0)->set_ranks(4);
  const std::string flag =
      absl::StrCat("new=", directory_, ",demo=", directory_, "/.");
  ASSERT_TRUE(apply_flag("pipeline", flag, &config).ok());
  const auto daemon = make_daemon_config(config);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  ASSERT_EQ(daemon->pipelines.size(), 2u);
  EXPECT_EQ(daemon->pipelines[0].name, "new");
  EXPECT_EQ(daemon->pipelines[0].ranks, 1);
  EXPECT_EQ(daemon->pipelines[1].ranks, 4);
  ASSERT_TRUE(apply_flag("ranks", "new=2,demo=3", &config).ok());
  EXPECT_EQ(config.pipelines(0).ranks(), 2);
  EXPECT_EQ(config.pipelines(1).ranks(), 3);
  ASSERT_TRUE(apply_flag("ranks", "8", &config).ok());
  EXPECT_EQ(config.pipelines(1).ranks(), 8);
  ASSERT_TRUE(apply_flag("external_ranks", "demo=7", &config).ok());
  EXPECT_EQ(config.pipelines(0).external_ranks(), 0);
  EXPECT_EQ(config.pipelines(1).external_ranks(), 7);
}

// With a token file that is right.
class ExternalRanksTest : public ConfigLoaderTest {
 protected:
  ExternalRanksTest() {
    token_file_ = directory_ + "/token";
    std::ofstream(token_file_) << "0123456789abcdef\n";
    config_ = minimal();
    config_.mutable_pipelines(0)->set_ranks(3);
    config_.mutable_pipelines(0)->set_external_ranks(2);
    config_.set_worker_address("[::1]:8005");
    config_.set_worker_token_file(token_file_);
  }

  std::string token_file_;
  config::v1::ServerConfig config_;
};

TEST_F(ExternalRanksTest, AreKeptAndPrinted) {
  const auto config = make_daemon_config(config_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->pipelines[0].external_ranks, 2);
  EXPECT_EQ(config->worker_address, "[::1]:8005");
  EXPECT_EQ(config->worker_token_file, token_file_);
  const std::string text = print_daemon_config(*config);
  EXPECT_FALSE(absl::StrContains(text, "0123456789abcdef")) << text;
  const auto again = make_daemon_config(*parse_server_config(text, "printed"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(print_daemon_config(*again), text);
}

TEST_F(ExternalRanksTest, LeaveTheFirstRankToFerryd) {
  for (const int ranks : {-1, 3, 64}) {
    config_.mutable_pipelines(0)->set_external_ranks(ranks);
    const std::vector<std::string> lines = errors(config_);
    ASSERT_FALSE(lines.empty()) << ranks;
    EXPECT_TRUE(absl::StartsWith(
        lines[0],
        "pipelines[0].external_ranks (--external_ranks): must be 0 to ranks "
        "- 1 = 2"))
        << lines[0];
  }
}

TEST_F(ExternalRanksTest, NeedAnAddressAndAToken) {
  config_.clear_worker_address();
  config_.clear_worker_token_file();
  EXPECT_EQ(errors(config_),
            (std::vector<std::string>{
                "worker_address (--worker_address): is required, since a "
                "pipeline has external_ranks",
                "worker_token_file (--worker_token_file): is required, since "
                "a pipeline has external_ranks"}));
}

TEST_F(ExternalRanksTest, WithoutThemNothingListens) {
  config_.mutable_pipelines(0)->clear_external_ranks();
  EXPECT_EQ(errors(config_),
            (std::vector<std::string>{
                "worker_address (--worker_address): must be empty, since no "
                "pipeline has external_ranks",
                "worker_token_file (--worker_token_file): must be empty, "
                "since no pipeline has external_ranks"}));
}

TEST_F(ExternalRanksTest, NeedThemToBeRight) {
  config_.set_worker_token_file("/no/such/token");
  for (const char* address : {"unix:/workers", "nowhere", "127.0.0.1:8001"}) {
    config_.set_worker_address(address);
    const std::vector<std::string> lines = errors(config_);
    ASSERT_EQ(lines.size(), 2u) << address;
    EXPECT_TRUE(absl::StartsWith(lines[0], "worker_address (--worker_address)"))
        << lines[0];
    EXPECT_EQ(lines[1],
              "worker_token_file (--worker_token_file): cannot read "
              "\"/no/such/token\"");
  }
}

TEST_F(ConfigLoaderTest, GarbageInAFlagNamesTheFlag) {
  config::v1::ServerConfig config = minimal();
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"max_images", ""},        {"max_images", "x"},
      {"max_images", "1.5"},     {"max_images", "99999999999"},
      {"max_queue_bytes", "-1"}, {"max_queue_bytes", "5M"},
      {"max_queue_bytes", "Ki"}, {"max_queue_bytes", "99999999999Gi"},
      {"step_timeout", "30"},    {"step_timeout", "inf"},
      {"step_timeout", "soon"},  {"exit_on_load_error", "maybe"},
      {"pipeline", ""},          {"pipeline", "demo"},
      {"pipeline", "=/x"},       {"pipeline", "demo="},
      {"pipeline", "a=/x,"},     {"ranks", "x"},
      {"ranks", "none=1"},       {"no_such_flag", "1"},
      {"pipelines", "x"},
  };
  for (const auto& [flag, value] : bad) {
    const absl::Status status = apply_flag(flag, value, &config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag << "=" << value;
    EXPECT_TRUE(absl::StartsWith(status.message(), "--" + flag + ":"))
        << status;
  }
}

TEST_F(ConfigLoaderTest, EveryFieldIsAFlagAndIsPrinted) {
  const std::vector<std::string> flags = config_flag_names();
  const std::set<std::string> unique(flags.begin(), flags.end());
  EXPECT_EQ(unique.size(), flags.size());
  EXPECT_EQ(unique.count("pipelines"), 0u);
  const std::string text = print_daemon_config(*make_daemon_config(minimal()));
  for (const std::string& flag : flags) {
    if (flag == "pipeline") continue;
    EXPECT_TRUE(absl::StrContains(text, flag)) << flag;
  }
}

TEST_F(ConfigLoaderTest, WhatIsPrintedReadsBack) {
  config::v1::ServerConfig config = minimal();
  ASSERT_TRUE(apply_flag("lame_duck", "1500ms", &config).ok());
  ASSERT_TRUE(apply_flag("log_format", "text", &config).ok());
  ASSERT_TRUE(apply_flag("health_address", "unix:/h", &config).ok());
  const std::string text = print_daemon_config(*make_daemon_config(config));
  const auto again = parse_server_config(text, "printed");
  ASSERT_TRUE(again.ok()) << again.status();
  const auto daemon = make_daemon_config(*again);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_EQ(print_daemon_config(*daemon), text);
  EXPECT_EQ(daemon->lame_duck, absl::Milliseconds(1500));
  EXPECT_EQ(daemon->health_address, "unix:/h");
}

TEST_F(ConfigLoaderTest, EveryErrorComesAtOnce) {
  config::v1::ServerConfig config;
  config.set_grpc_address("nowhere");
  config.set_max_inflight(0);
  config.mutable_step_timeout()->set_seconds(-1);
  config.set_log_level("loud");
  config.add_pipelines()->set_name("../x");
  const std::vector<std::string> lines = errors(config);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_TRUE(
      absl::StartsWith(lines[0], "pipelines[0].name (--pipeline): must match"));
  EXPECT_TRUE(absl::StartsWith(lines[1], "pipelines[0].path (--pipeline): "));
  EXPECT_TRUE(absl::StartsWith(lines[2], "grpc_address (--grpc_address): "));
  EXPECT_TRUE(absl::StartsWith(
      lines[3], "max_inflight (--max_inflight): must be 64 to 4096, got 0"));
  EXPECT_TRUE(absl::StartsWith(lines[4], "step_timeout (--step_timeout): "));
  EXPECT_TRUE(absl::StartsWith(lines[5], "log_level (--log_level): "));
}

TEST_F(ConfigLoaderTest, AServerWithoutPipelinesIsAnError) {
  ASSERT_EQ(errors({}).size(), 1u);
}

TEST_F(ConfigLoaderTest, NamesOfPipelinesAreChecked) {
  for (const std::string& name :
       {std::string("a"), std::string("0"), std::string("a.b_c-d"),
        std::string(63, 'a')}) {
    config::v1::ServerConfig config = minimal();
    config.mutable_pipelines(0)->set_name(name);
    EXPECT_TRUE(errors(config).empty()) << name;
  }
  for (const std::string& name :
       {std::string(""), std::string("A"), std::string("-a"), std::string(".."),
        std::string("a..b"), std::string("a/b"), std::string("a b"),
        std::string(64, 'a'), std::string("ä")}) {
    config::v1::ServerConfig config = minimal();
    config.mutable_pipelines(0)->set_name(name);
    EXPECT_EQ(errors(config).size(), 1u) << name;
  }
  config::v1::ServerConfig twice = minimal();
  *twice.add_pipelines() = twice.pipelines(0);
  ASSERT_EQ(errors(twice).size(), 1u);
  EXPECT_TRUE(absl::StrContains(errors(twice)[0], "twice"));
}

TEST_F(ConfigLoaderTest, FieldsAreCheckedAtTheirBounds) {
  const std::vector<std::pair<std::string, std::string>> good = {
      {"max_inflight", "64"},
      {"max_inflight", "4096"},
      {"max_queue_jobs", "0"},
      {"lame_duck", "0"},
      {"ranks", "1"},
      {"ranks", "64"},
      {"intra_op_threads", "0"},
      {"worker_restart_limit", "0"},
      {"queue_timeout", "1ms"},
      {"health_address", ""},
      {"health_address", "127.0.0.1:1"},
      {"max_receive_bytes", "64Ki"},
      {"log_level", "debug"},
      {"log_level", "warn"},
      {"log_level", "error"},
      {"log_format", "text"},
  };
  for (const auto& [flag, value] : good) {
    EXPECT_TRUE(errors_with(flag, value).empty()) << flag << "=" << value;
  }
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"max_inflight", "63"},
      {"max_inflight", "4097"},
      {"max_queue_jobs", "-1"},
      {"lame_duck", "-1s"},
      {"ranks", "0"},
      {"ranks", "65"},
      {"queue_timeout", "0"},
      {"queue_timeout", "100000h"},
      {"health_address", "127.0.0.1:8001"},
      {"max_receive_bytes", "2Gi"},
      {"max_pixels", "0"},
      {"worker_path", "/no/such/program"},
      {"heartbeat_interval", "15s"},
      {"worker_restart_backoff_max", "999ms"},
      {"log_format", "xml"},
  };
  for (const auto& [flag, value] : bad) {
    const std::vector<std::string> lines = errors_with(flag, value);
    EXPECT_EQ(lines.size(), 1u) << flag << "=" << value;
  }
}

}  // namespace
}  // namespace ferry
