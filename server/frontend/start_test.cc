// What ferryd needs before it serves: flags, addresses, the worker's program;
// and the watchdog of its end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "server/core/config_loader.h"
#include "server/frontend/flags.h"
#include "server/frontend/hard_exit.h"
#include "server/frontend/listen_address.h"
#include "server/frontend/stream_limiter.h"
#include "server/frontend/worker_path.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

std::string make_directory(const std::string& name) {
  const std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/", name);
  std::filesystem::create_directories(path);
  return path;
}

std::string make_program(const std::string& path) {
  std::ofstream(path) << "#!/bin/sh\n";
  chmod(path.c_str(), 0755);
  return path;
}

class FlagsTest : public ::testing::Test {
 protected:
  static absl::StatusOr<DaemonConfig> parse(
      const std::vector<std::string>& flags) {
    std::vector<const char*> argv = {"ferryd"};
    for (const std::string& flag : flags) argv.push_back(flag.c_str());
    const auto line = parse_command_line(static_cast<int>(argv.size()),
                                         argv.data(), flags_file());
    if (!line.ok()) return line.status();
    return configure(*line);
  }

  const std::string package_ = make_directory("package");

 private:
  absl::FlagSaver saver_;
};

TEST_F(FlagsTest, EverySettingIsAFlag) {
  std::set<std::string> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (flag->Filename() == flags_file()) flags.emplace(name);
  }
  std::set<std::string> expected = {"config", "validate_config",
                                    "print_effective_config"};
  for (const std::string& name : config_flag_names()) expected.insert(name);
  EXPECT_EQ(flags, expected);
}

TEST_F(FlagsTest, FlagsWinOverTheFile) {
  const std::string file = absl::StrCat(make_directory("config"), "/f.txtpb");
  std::ofstream(file) << "max_images: 3 max_queue_jobs: 5 pipelines { name: "
                         "\"a\" path: \""
                      << package_ << "\" }";
  const auto config =
      parse({absl::StrCat("--config=", file), "--max_images=4", "--ranks=2",
             "--noexit_on_load_error", "--lame_duck=5s"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_images, 4);
  EXPECT_EQ(config->max_queue_jobs, 5);
  EXPECT_EQ(config->lame_duck, absl::Seconds(5));
  EXPECT_FALSE(config->exit_on_load_error);
  ASSERT_EQ(config->pipelines.size(), 1u);
  EXPECT_EQ(config->pipelines[0].ranks, 2);
}

TEST_F(FlagsTest, WhatIsNotGivenIsTheDefault) {
  const auto config = parse({absl::StrCat("--pipeline=a=", package_)});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->grpc_address, DaemonConfig().grpc_address);
  EXPECT_TRUE(config->enable_reflection);
}

TEST_F(FlagsTest, RefusesArgumentsAndNamesBadValues) {
  EXPECT_THAT(std::string(parse({"serve"}).status().message()),
              HasSubstr("'serve'"));
  // All at once.
  const std::string message(
      parse({"--max_images=many", "--lame_duck=soon"}).status().message());
  EXPECT_THAT(message, HasSubstr("max_images"));
  EXPECT_THAT(message, HasSubstr("lame_duck"));
}

TEST(WorkerPathTest, LooksInTheTreeAndBesideFerryd) {
  const std::string root = make_directory("tree");
  make_directory("tree/frontend");
  make_directory("tree/worker");
  const std::string ferryd = root + "/frontend/ferryd";
  const auto none = find_worker("", ferryd);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("--worker_path"));
  const std::string beside = make_program(root + "/frontend/ferry_worker");
  EXPECT_EQ(*find_worker("", ferryd), beside);
  const std::string in_tree = make_program(root + "/worker/ferry_worker");
  EXPECT_EQ(*find_worker("", ferryd), in_tree);
  EXPECT_EQ(*find_worker(beside, ferryd), beside);
  EXPECT_THAT(
      std::string(find_worker("/none/worker", ferryd).status().message()),
      HasSubstr("/none/worker"));
}

TEST(ListenAddressTest, PutsTheBoundPortIn) {
  EXPECT_EQ(with_bound_port("127.0.0.1:0", 4711), "127.0.0.1:4711");
  EXPECT_EQ(with_bound_port("[::1]:0", 4711), "[::1]:4711");
  EXPECT_EQ(with_bound_port("unix:/run/x:0", 1), "unix:/run/x:0");
}

TEST(ListenAddressTest, TellsWhyItCannotListen) {
  EXPECT_TRUE(try_to_listen("127.0.0.1:0").ok());
  EXPECT_THAT(std::string(try_to_listen("192.0.2.1:80").message()),
              HasSubstr("192.0.2.1:80: Cannot assign requested address"));
  EXPECT_THAT(
      std::string(try_to_listen("unix:/" + std::string(120, 'x')).message()),
      HasSubstr("107 bytes"));
}

TEST(StreamLimiterTest, GivesPlacesBack) {
  StreamLimiter limiter(1);
  {
    const StreamLimiter::Ticket first = limiter.enter();
    EXPECT_TRUE(static_cast<bool>(first));
    EXPECT_FALSE(static_cast<bool>(limiter.enter()));
    EXPECT_EQ(limiter.open(), 1);
  }
  EXPECT_EQ(limiter.open(), 0);
  EXPECT_TRUE(static_cast<bool>(limiter.enter()));
}

TEST(HardExitTest, FiresUnlessDisarmed) {
  std::atomic<bool> fired{false};
  {
    HardExit disarmed(
        absl::Hours(1), [&] { fired = true; }, Clock::real());
  }
  EXPECT_FALSE(fired);
  HardExit armed(
      absl::Milliseconds(1), [&] { fired = true; }, Clock::real());
  while (!fired) {
  }
}

}  // namespace
}  // namespace ferry
