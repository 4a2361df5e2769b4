// Packages that cannot be loaded: what ferryd says, and how it ends.

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A damaged copy of a package and what the error must name.
struct Damage {
  std::string name;
  // Of make_tiny_pipeline.
  std::vector<std::string> flags;
  std::function<void(const std::string& package)> apply;
  std::vector<std::string> named;
};

void remove_file(const std::string& path) {
  ASSERT_TRUE(std::filesystem::remove(path)) << path;
}

void truncate_file(const std::string& path) {
  const std::string content = read_file(path).value_or("");
  ASSERT_FALSE(content.empty()) << path;
  write_file(path, content.substr(0, content.size() / 2));
}

// Weight files of packages whose archive holds the structure only.
std::vector<Damage> weight_damages() {
  const std::string file = "/transformer/diffusion_pytorch_model.safetensors";
  return {
      {"truncated-weights",
       {"--code_only"},
       [=](const std::string& package) { truncate_file(package + file); },
       {file.substr(1), "truncated"}},
      {"missing-weights",
       {"--code_only"},
       [=](const std::string& package) { remove_file(package + file); },
       {file.substr(1), "cannot be opened"}},
      {"pickled-weights",
       {"--code_only"},
       [=](const std::string& package) {
         const std::string manifest = package + "/ferry.txtpb";
         write_file(manifest, absl::StrReplaceAll(*read_file(manifest),
                                                  {{".safetensors", ".bin"}}));
       },
       {"weights[2].file", "pickled weights are refused"}},
  };
}

// Files that are missing, broken or wrong.
std::vector<Damage> file_damages() {
  constexpr char kManifest[] = "/ferry.txtpb";
  constexpr char kModule[] = "/pipeline.pt";
  constexpr char kScheduler[] = "/scheduler/scheduler_config.json";
  constexpr char kTokenizer[] = "/tokenizer/tiny.model";
  const auto append_to_manifest = [=](const std::string& text) {
    return [=](const std::string& package) {
      write_file(package + kManifest,
                 absl::StrCat(*read_file(package + kManifest), text));
    };
  };
  return {
      {"no-manifest",
       {},
       [=](const std::string& package) { remove_file(package + kManifest); },
       {"ferry.txtpb"}},
      {"unknown-field",
       {},
       append_to_manifest("\nno_such_field: 1\n"),
       {"ferry.txtpb", "no_such_field"}},
      {"no-module",
       {},
       [=](const std::string& package) { remove_file(package + kModule); },
       {"pipeline.pt"}},
      {"cut-module",
       {},
       [=](const std::string& package) { truncate_file(package + kModule); },
       {"pipeline.pt"}},
      {"outside-path",
       {},
       append_to_manifest("\nmodule: \"../pipeline.pt\"\n"),
       {"ferry.txtpb", "module", ".."}},
      {"no-scheduler",
       {},
       [=](const std::string& package) { remove_file(package + kScheduler); },
       {"scheduler/scheduler_config.json"}},
      {"bad-scheduler-json",
       {},
       [=](const std::string& package) {
         write_file(package + kScheduler, "{\"_class_name\": ");
       },
       {"scheduler_config.json"}},
      {"unknown-scheduler",
       {},
       [=](const std::string& package) {
         write_file(package + kScheduler,
                    "{\"_class_name\": \"NonesuchScheduler\"}");
       },
       {"scheduler_config.json", "_class_name", "NonesuchScheduler"}},
      {"no-tokenizer",
       {},
       [=](const std::string& package) { remove_file(package + kTokenizer); },
       {"tokenizer/tiny.model"}},
      {"cut-tokenizer",
       {},
       [=](const std::string& package) {
         write_file(package + kTokenizer, "no model");
       },
       {"tokenizer/tiny.model"}},
  };
}

// Modules that do not keep to the package's interface.
std::vector<Damage> module_damages() {
  const auto nothing = [](const std::string&) {};
  return {
      {"no-denoise",
       {"--without_method=denoise"},
       nothing,
       {"pipeline.pt", "denoise"}},
      {"no-decode",
       {"--without_method=decode"},
       nothing,
       {"pipeline.pt", "decode"}},
      {"no-encode-prompt",
       {"--without_method=encode_prompt"},
       nothing,
       {"pipeline.pt", "encode_prompt"}},
      {"no-latent-shape",
       {"--without_method=latent_shape"},
       nothing,
       {"pipeline.pt", "latent_shape"}},
      {"short-denoise",
       {"--short_denoise"},
       nothing,
       {"pipeline.pt", "denoise", "conditioning"}},
      {"wrong-plan",
       {"--wrong_plan"},
       nothing,
       {"pipeline.pt", "transformer.layers"}},
  };
}

// One daemon with every damaged package: each fails for itself.
TEST(BadPackageTest, EveryDamageIsNamed) {
  std::vector<Damage> damages = file_damages();
  for (Damage& damage : module_damages()) damages.push_back(std::move(damage));
  for (Damage& damage : weight_damages()) damages.push_back(std::move(damage));
  Daemon::Options options;
  options.flags = {"--exit_on_load_error=false"};
  for (const Damage& damage : damages) {
    const std::string package = copy_package(make_package(damage.flags));
    ASSERT_NO_FATAL_FAILURE(damage.apply(package)) << damage.name;
    options.pipelines.emplace_back(damage.name, package);
  }
  Daemon daemon(options);
  ASSERT_TRUE(daemon.wait_until_listening()) << daemon.log();
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.name);
    const std::string name = absl::StrCat("pipelines/", damage.name);
    ASSERT_TRUE(eventually([&] {
      return daemon.get_pipeline(name).state() == v1::Pipeline::STATE_FAILED;
    })) << daemon.log();
    const v1::Pipeline pipeline = daemon.get_pipeline(name);
    for (const std::string& part : damage.named) {
      EXPECT_THAT(pipeline.error().message(), HasSubstr(part));
    }
    // A load error that a worker reports is not tried again.
    EXPECT_EQ(pipeline.generation(), 1);
  }
  EXPECT_EQ(daemon.check_health("readiness"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(daemon.check_health("liveness"), HealthCheckResponse::SERVING);
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(parse_details(call.finish()).reason, "PIPELINE_FAILED");
  EXPECT_THAT(daemon.worker_pids(), testing::IsEmpty());
  expect_closes(daemon);
}

TEST(BadPackageTest, LoadErrorEndsTheDaemon) {
  const std::string package = copy_package(make_package());
  remove_file(package + "/pipeline.pt");
  Daemon::Options options;
  options.pipelines = {{"good", make_package()}, {"bad", package}};
  Daemon daemon(options);
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("pipeline.pt"));
  expect_closes(daemon, 2);
}

TEST(BadPackageTest, WhatTheDeviceHasNoRoomForEndsTheDaemon) {
  Daemon::Options options;
  options.pipelines = {{"large", make_package()}};
  options.flags = {"--platform=simulated", "--simulated_device_memory=65536",
                   "--exit_on_load_error=true"};
  Daemon daemon(options);
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << daemon.log();
  for (const char* phase : {"encode_prompt", "denoise", "decode"}) {
    EXPECT_THAT(daemon.log(),
                ContainsRegex(absl::StrCat(phase,
                                           " needs [0-9]+ bytes of "
                                           "device memory")));
  }
  EXPECT_THAT(daemon.log(), HasSubstr(", and 65536 are free"));
  expect_closes(daemon, 2);
}

TEST(BadPackageTest, OneBadPipelineLeavesTheOther) {
  const std::string package = copy_package(make_package());
  remove_file(package + "/pipeline.pt");
  Daemon::Options options;
  options.pipelines = {{"good", make_package()}, {"bad", package}};
  options.flags = {"--exit_on_load_error=false"};
  Daemon daemon(options);
  ASSERT_TRUE(daemon.wait_until_ready()) << daemon.log();
  EXPECT_EQ(daemon.check_health("pipelines/bad"),
            HealthCheckResponse::NOT_SERVING);
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  expect_idle(daemon);
  expect_closes(daemon);
}

}  // namespace
}  // namespace ferry
