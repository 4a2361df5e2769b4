// What ferryd says to flags and configuration files before it serves.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs ferryd with arguments that make it end by itself.
ProcessResult run_ferryd(const std::vector<std::string>& arguments) {
  ChildProcess::Options options;
  options.arguments = {runfile("server/frontend/ferryd")};
  options.arguments.insert(options.arguments.end(), arguments.begin(),
                           arguments.end());
  return run_process(options);
}

std::string write_config(const std::string& text) {
  const std::string path = make_directory("config") + "/ferryd.txtpb";
  write_file(path, text);
  return path;
}

// A directory is all that the configuration asks of a package.
std::string pipeline_flag() {
  return absl::StrCat("--pipeline=demo=", make_directory("package"));
}

void expect_refused(const std::vector<std::string>& arguments,
                    const testing::Matcher<const std::string&>& message) {
  const ProcessResult result = run_ferryd(arguments);
  EXPECT_EQ(result.exit.code, 1) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, message);
}

TEST(ConfigTest, BadFlagsAreNamed) {
  expect_refused({pipeline_flag(), "--grpc_addres=127.0.0.1:0"},
                 AllOf(HasSubstr("grpc_addres"), HasSubstr("grpc_address")));
  expect_refused({pipeline_flag(), "--max_queue_jobs=many"},
                 HasSubstr("max_queue_jobs"));
  expect_refused({pipeline_flag(), "--max_queue_jobs=-1"},
                 HasSubstr("max_queue_jobs"));
  expect_refused({pipeline_flag(), "--drain_timeout=-1s"},
                 HasSubstr("drain_timeout"));
  expect_refused({pipeline_flag(), "--step_timeout=soon"},
                 HasSubstr("step_timeout"));
  expect_refused({pipeline_flag(), "--grpc_address=nowhere"},
                 AllOf(HasSubstr("grpc_address"), HasSubstr("nowhere")));
  expect_refused({pipeline_flag(), "--log_level=loud"},
                 AllOf(HasSubstr("log_level"), HasSubstr("loud")));
  expect_refused({pipeline_flag(), "--max_images=2", "--max_images=3"},
                 HasSubstr("max_images"));
  expect_refused({pipeline_flag(), "stray"}, HasSubstr("stray"));
}

TEST(ConfigTest, BadPipelinesAreNamed) {
  expect_refused({}, HasSubstr("pipeline"));
  expect_refused(
      {"--pipeline=demo=/nonexistent/package"},
      AllOf(HasSubstr("--pipeline"), HasSubstr("/nonexistent/package")));
  const std::string directory = make_directory("package");
  expect_refused({absl::StrCat("--pipeline=De/mo=", directory)},
                 HasSubstr("De/mo"));
  expect_refused({absl::StrCat("--pipeline=a=", directory, ",a=", directory)},
                 HasSubstr("a"));
}

TEST(ConfigTest, FileErrorsTellThePlace) {
  const std::string unknown = write_config("max_images: 3\nmax_imagse: 4\n");
  expect_refused(
      {absl::StrCat("--config=", unknown), pipeline_flag()},
      AllOf(HasSubstr(absl::StrCat(unknown, ":2:")), HasSubstr("max_imagse")));
  const std::string ill_typed = write_config("\n\n  max_images: \"three\"\n");
  expect_refused({absl::StrCat("--config=", ill_typed), pipeline_flag()},
                 HasSubstr(absl::StrCat(ill_typed, ":3:")));
  expect_refused({"--config=/nonexistent.txtpb", pipeline_flag()},
                 HasSubstr("/nonexistent.txtpb"));
}

TEST(ConfigTest, ValidateConfigServesNothing) {
  const ProcessResult good = run_ferryd({pipeline_flag(), "--validate_config"});
  EXPECT_EQ(good.exit.code, 0) << good.err;
  expect_refused({pipeline_flag(), "--max_images=0", "--validate_config"},
                 HasSubstr("max_images"));
}

TEST(ConfigTest, EffectiveConfigReadsBackAsItself) {
  const std::string config = write_config(absl::StrCat(
      "pipelines { name: \"demo\" path: \"", make_directory("package"),
      "\" }\n"
      "max_images: 3\nqueue_timeout { seconds: 7 }\n"));
  const ProcessResult first =
      run_ferryd({absl::StrCat("--config=", config), "--max_pixels=65536",
                  "--print_effective_config"});
  ASSERT_EQ(first.exit.code, 0) << first.err;
  // The file, the flag and the defaults.
  EXPECT_THAT(
      first.out,
      AllOf(HasSubstr("max_images: 3"), HasSubstr("max_pixels: 65536"),
            HasSubstr("max_queue_jobs: 64"), HasSubstr("name: \"demo\"")));
  const ProcessResult second =
      run_ferryd({absl::StrCat("--config=", write_config(first.out)),
                  "--print_effective_config"});
  ASSERT_EQ(second.exit.code, 0) << second.err;
  EXPECT_EQ(second.out, first.out);
}

TEST(ConfigTest, HelpIsNoError) {
  const ProcessResult help = run_ferryd({"--help"});
  EXPECT_EQ(help.exit.code, 0);
  for (const char* flag : {"--pipeline", "--grpc_address", "--config",
                           "--drain_timeout", "--validate_config"}) {
    EXPECT_THAT(help.out, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace ferry
