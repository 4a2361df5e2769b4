// ferryctl's commands against a server of the test's own.

#include "client/commands.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "client/exit_codes.h"
#include "client/flags.h"
#include "client/testing/fake_events.h"
#include "client/testing/fake_ferryd.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() {
    directory_ = absl::StrCat(
        getenv("TEST_TMPDIR"), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
    context_.out = &out_;
    context_.err = &err_;
    context_.clock = &Clock::real();
    context_.channel = server_.channel();
  }

  absl::StatusOr<Command> parse(const std::vector<std::string>& arguments) {
    server_.publish();
    const absl::FlagSaver saver;
    std::vector<const char*> argv = {"ferryctl"};
    for (const std::string& argument : arguments) {
      argv.push_back(argument.c_str());
    }
    const auto line = parse_command_line(static_cast<int>(argv.size()),
                                         argv.data(), flags_file());
    if (!line.ok()) return line.status();
    return find_command(*line);
  }

  int run(const std::vector<std::string>& arguments) {
    auto command = parse(arguments);
    EXPECT_TRUE(command.ok()) << command.status();
    if (!command.ok()) return kUsage;
    if (command->run) return command->run(context_);
    return GenerateCommand(context_, std::move(command->generate)).run();
  }

  std::string error_of(const std::vector<std::string>& arguments) {
    return std::string(parse(arguments).status().message());
  }

  std::string path(const std::string& name) const {
    return absl::StrCat(directory_, "/", name);
  }
  static std::string read(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  }
  // Names in the test's directory.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  FakeFerryd server_;
  std::ostringstream out_;
  std::ostringstream err_;
  CommandContext context_;
  std::string directory_;
};

TEST_F(CommandsTest, GenerateSavesThePicture) {
  server_.events = fake_events({"pixels"});
  EXPECT_EQ(run({"generate", "a fox", "-o", path("fox.png")}), kSuccess)
      << err_.str();
  EXPECT_EQ(read(path("fox.png")), "pixels");
  EXPECT_EQ(out_.str(), path("fox.png") + "\n");
  EXPECT_THAT(err_.str(), HasSubstr("denoise 1/2"));
  EXPECT_THAT(err_.str(), HasSubstr("seed 42"));
  EXPECT_EQ(server_.request().spec().prompt(), "a fox");
  EXPECT_FALSE(server_.request().spec().has_negative_prompt());
  EXPECT_FALSE(server_.request().spec().has_seed());
}

TEST_F(CommandsTest, GenerateSendsWhatTheFlagsSay) {
  server_.events = fake_events({"pixels"});
  run({"generate", "a fox", "-o", path("fox.png"), "--seed=7", "--steps=3",
       "--width=64", "--height=32", "--guidance=2.5",
       "--negative=", "--num-images=1", "--pipeline=demo", "--priority=4",
       "--format=webp", "--quality=80", "--embed_metadata", "--preview",
       path("preview.jpg"), "--preview-every=2"});
  v1::GenerateRequest expected;
  expected.set_priority(4);
  v1::GenerationSpec& spec = *expected.mutable_spec();
  spec.set_prompt("a fox");
  spec.set_seed(7);
  spec.set_num_inference_steps(3);
  spec.set_width(64);
  spec.set_height(32);
  spec.set_guidance_scale(2.5);
  spec.set_negative_prompt("");
  spec.set_num_images(1);
  spec.set_pipeline("pipelines/demo");
  spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_WEBP);
  spec.mutable_output()->set_quality(80);
  spec.mutable_output()->set_embed_metadata(true);
  spec.mutable_preview()->set_interval_steps(2);
  EXPECT_EQ(server_.request().DebugString(), expected.DebugString());
}

TEST_F(CommandsTest, TheFilesSuffixIsTheFormat) {
  const auto format_of = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"generate", "a fox"});
    const auto command = parse(flags);
    EXPECT_TRUE(command.ok()) << command.status();
    return command.ok() ? command->generate.request.spec().output().format()
                        : v1::OutputSpec::FORMAT_UNSPECIFIED;
  };
  EXPECT_EQ(format_of({"-o", "a.b/fox.png"}), v1::OutputSpec::FORMAT_PNG);
  EXPECT_EQ(format_of({"-o", "fox.JPG"}), v1::OutputSpec::FORMAT_JPEG);
  EXPECT_EQ(format_of({"-o", "fox.jpeg"}), v1::OutputSpec::FORMAT_JPEG);
  EXPECT_EQ(format_of({"-o", "fox.webp"}), v1::OutputSpec::FORMAT_WEBP);
  EXPECT_EQ(format_of({"-o", "fox.rgb"}), v1::OutputSpec::FORMAT_RAW_RGB8);
  // The server's own.
  for (const char* name : {"fox", "a.b/fox", ".fox"}) {
    EXPECT_EQ(format_of({"-o", name}), v1::OutputSpec::FORMAT_UNSPECIFIED);
  }
  EXPECT_EQ(format_of({"-o", "fox.gif", "--format=jpeg"}),
            v1::OutputSpec::FORMAT_JPEG);
  EXPECT_THAT(error_of({"generate", "a fox", "-o", "fox.gif"}),
              HasSubstr("'.gif'"));
  EXPECT_THAT(error_of({"generate", "a fox", "-o", "fox.png", "--format=gif"}),
              HasSubstr("png, jpeg, webp or raw"));
}

TEST_F(CommandsTest, OmittedDataLeavesTheHash) {
  server_.events = fake_events({"pixels"});
  // One chunk without bytes.
  server_.events.erase(server_.events.begin() + 2);
  v1::OutputChunk& chunk = *server_.events[2].mutable_output_chunk();
  chunk.clear_data();
  chunk.set_offset(0);
  EXPECT_EQ(
      run({"generate", "a fox", "--omit-data", "--format=webp", "--lossless"}),
      kSuccess)
      << err_.str();
  EXPECT_EQ(out_.str(), chunk.final_info().sha256() + "\n");
  EXPECT_THAT(err_.str(), HasSubstr("6 B, seed 42"));
  EXPECT_THAT(files(), ::testing::IsEmpty());
  EXPECT_TRUE(server_.request().spec().output().omit_data());
  EXPECT_TRUE(server_.request().spec().output().lossless());
  EXPECT_THAT(error_of({"generate", "a fox", "--omit-data", "-o", "fox.png"}),
              HasSubstr("--omit_data"));
}

TEST_F(CommandsTest, SchedulerAndSigmasAreSent) {
  server_.events = fake_events({"pixels"});
  run({"generate", "a fox", "-o", path("fox.png"), "--scheduler=UniPCMultistep",
       "--sigmas=1,0.75,2.5e-1"});
  const v1::GenerationSpec spec = server_.request().spec();
  EXPECT_EQ(spec.scheduler(), "UniPCMultistep");
  EXPECT_THAT(spec.sigmas(), ElementsAre(1, 0.75, 0.25));
  EXPECT_FALSE(spec.has_num_inference_steps());
  const auto command =
      parse({"generate", "a fox", "-o", path("fox.png"), "--sigmas=1,,0.5"});
  EXPECT_THAT(std::string(command.status().message()),
              HasSubstr("--sigmas: must be numbers with commas between, got "
                        "''"));
}

TEST_F(CommandsTest, SeveralPicturesGetTheirIndex) {
  server_.events = fake_events({"first", "second"});
  EXPECT_EQ(run({"generate", "a fox", "-o", path("fox.png")}), kSuccess);
  EXPECT_EQ(read(path("fox-0.png")), "first");
  EXPECT_EQ(read(path("fox-1.png")), "second");
}

TEST_F(CommandsTest, PreviewsAreSaved) {
  server_.events = fake_events({"pixels"});
  v1::JobEvent preview;
  preview.mutable_preview()->set_data("jpeg");
  server_.events.insert(server_.events.begin() + 2, preview);
  EXPECT_EQ(run({"generate", "a fox", "-o", path("fox.png"), "--preview",
                 path("preview.jpg")}),
            kSuccess);
  EXPECT_EQ(read(path("preview.jpg")), "jpeg");
}

TEST_F(CommandsTest, BrokenBytesAreNotSaved) {
  server_.events = fake_events({"pixels"});
  server_.events[3].mutable_output_chunk()->set_data("els?");
  server_.events[3]
      .mutable_output_chunk()
      ->mutable_final_info()
      ->set_size_bytes(7);
  EXPECT_EQ(run({"generate", "a fox", "-o", path("fox.png")}), kLocalError);
  EXPECT_THAT(err_.str(), HasSubstr("SHA-256"));
  EXPECT_THAT(files(), ::testing::IsEmpty());
}

TEST_F(CommandsTest, MissingOutputsAreNoSuccess) {
  server_.events = fake_events({"pixels"});
  server_.events.erase(server_.events.begin() + 2, server_.events.begin() + 4);
  EXPECT_EQ(run({"generate", "a fox", "-o", path("fox.png")}), kLocalError);
  EXPECT_THAT(err_.str(), HasSubstr("promised 1 outputs and sent 0"));
}

TEST_F(CommandsTest, AFileThatCannotBeWrittenStartsNoJob) {
  EXPECT_EQ(run({"generate", "a fox", "-o", path("none/fox.png")}),
            kLocalError);
  EXPECT_THAT(err_.str(), HasSubstr("none/: No such file or directory"));
  EXPECT_EQ(run({"generate", "a fox", "-o", directory_}), kLocalError);
  EXPECT_THAT(err_.str(), HasSubstr("it is a directory"));
  EXPECT_EQ(server_.request().spec().prompt(), "");
}

TEST_F(CommandsTest, ErrorsNameCodeAndReason) {
  server_.events = fake_events({"pixels"});
  server_.events.resize(2);
  server_.end = fake_error(grpc::StatusCode::UNAVAILABLE, "WORKER_LOST",
                           "the worker was lost");
  EXPECT_EQ(run({"generate", "a fox", "-o", path("fox.png")}),
            kServerError + 14);
  EXPECT_THAT(err_.str(),
              HasSubstr("UNAVAILABLE WORKER_LOST: the worker was lost\n"));
  EXPECT_THAT(files(), ::testing::IsEmpty());
}

TEST_F(CommandsTest, CtrlCCancelsTheJob) {
  server_.events = fake_events({"pixels"});
  server_.events.resize(2);
  server_.wait_for_cancel = true;
  auto command = parse({"generate", "a fox", "-o", path("fox.png")});
  ASSERT_TRUE(command.ok()) << command.status();
  GenerateCommand generate(context_, std::move(command->generate));
  int code = kSuccess;
  std::thread thread([&] { code = generate.run(); });
  // Before the job has a name only the call ends, and so the job by ferryd.
  generate.interrupt();
  thread.join();
  EXPECT_EQ(code, kInterrupted);
  EXPECT_THAT(err_.str(), HasSubstr("CANCELLED"));
}

TEST_F(CommandsTest, CtrlCWhileItRunsCallsCancelJob) {
  server_.events = fake_events({"pixels"});
  server_.events.resize(2);
  server_.wait_for_cancel = true;
  auto command = parse({"generate", "a fox", "-o", path("fox.png")});
  ASSERT_TRUE(command.ok()) << command.status();
  // Interrupts itself once the second event shows.
  struct Trigger : std::stringbuf {
    int sync() override {
      if (str().find("denoise") != std::string::npos && !fired) {
        fired = true;
        thread = std::thread([this] { command->interrupt(); });
      }
      return 0;
    }
    GenerateCommand* command = nullptr;
    bool fired = false;
    std::thread thread;
  } buffer;
  std::ostream err(&buffer);
  context_.err = &err;
  GenerateCommand generate(context_, std::move(command->generate));
  buffer.command = &generate;
  EXPECT_EQ(generate.run(), kInterrupted);
  ASSERT_TRUE(buffer.fired);
  buffer.thread.join();
  EXPECT_EQ(server_.cancelled(), "jobs/7");
  EXPECT_THAT(buffer.str(), HasSubstr("CANCELLED JOB_CANCELLED"));
}

TEST_F(CommandsTest, JsonHasALineAnEventAndNoBytes) {
  server_.events = fake_events({"pixels"});
  context_.json = true;
  EXPECT_EQ(run({"generate", "a fox", "-o", path("fox.png")}), kSuccess);
  EXPECT_THAT(out_.str(), Not(HasSubstr("\"data\"")));
  std::istringstream lines(out_.str());
  int count = 0;
  bool saw_file = false;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto json = nlohmann::json::parse(line);
    saw_file = saw_file || json.value("file", "") == path("fox.png");
  }
  EXPECT_EQ(count, 6);
  EXPECT_TRUE(saw_file);
  EXPECT_EQ(err_.str(), "");
}

TEST_F(CommandsTest, HealthIsZeroExactlyWhenServing) {
  EXPECT_EQ(run({"health"}), kSuccess);
  EXPECT_EQ(out_.str(), "SERVING\n");
  server_.readiness = grpc::health::v1::HealthCheckResponse::NOT_SERVING;
  EXPECT_EQ(run({"health"}), kNotServing);
  context_.channel =
      grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  EXPECT_EQ(run({"health"}), kServerError + 14);
}

TEST_F(CommandsTest, JobsAreListedOverAllPages) {
  for (const char* name : {"jobs/1", "jobs/2", "jobs/3"}) {
    v1::Job& job = server_.jobs.emplace_back();
    job.set_name(name);
    job.set_state(v1::Job::STATE_RUNNING);
    job.mutable_progress()->set_step(3);
    job.mutable_progress()->set_total_steps(30);
  }
  EXPECT_EQ(run({"jobs", "list"}), kSuccess);
  for (const char* text : {"NAME", "jobs/1", "jobs/3", "running", "3/30"}) {
    EXPECT_THAT(out_.str(), HasSubstr(text));
  }
}

TEST_F(CommandsTest, AJobIsShownAndCancelled) {
  v1::Job& job = server_.jobs.emplace_back();
  job.set_name("jobs/1");
  job.set_state(v1::Job::STATE_FAILED);
  job.mutable_effective_spec()->set_prompt("a fox\x1b[2J");
  job.mutable_error()->set_code(grpc::StatusCode::INTERNAL);
  job.mutable_error()->set_message("not finite");
  EXPECT_EQ(run({"jobs", "get", "1"}), kSuccess);
  EXPECT_THAT(out_.str(), HasSubstr("a fox\\u001b[2J"));
  EXPECT_THAT(out_.str(), HasSubstr("INTERNAL: not finite"));
  EXPECT_EQ(run({"jobs", "get", "jobs/2"}), kServerError + 5);
  EXPECT_THAT(err_.str(), HasSubstr("NOT_FOUND JOB_NOT_FOUND"));
  EXPECT_EQ(run({"jobs", "cancel", "1"}), kSuccess);
  EXPECT_EQ(server_.cancelled(), "jobs/1");
}

TEST_F(CommandsTest, PipelinesAreShown) {
  v1::Pipeline& pipeline = server_.pipelines.emplace_back();
  pipeline.set_name("pipelines/demo");
  pipeline.set_state(v1::Pipeline::STATE_READY);
  pipeline.mutable_offload()->set_strategy("none");
  pipeline.mutable_offload()->set_reason("offload unsupported");
  pipeline.mutable_limits()->set_max_images(4);
  v1::Rank& idle = *pipeline.add_ranks();
  idle.set_pid(17);
  idle.set_device("cpu");
  idle.set_host("h");
  v1::Rank& busy = *pipeline.add_ranks();
  busy = idle;
  busy.set_index(1);
  busy.set_job("jobs/1");
  busy.mutable_predicted_pass_time()->set_nanos(12345678);
  EXPECT_EQ(run({"pipelines", "list"}), kSuccess);
  EXPECT_THAT(out_.str(), HasSubstr("pipelines/demo  ready"));
  EXPECT_EQ(run({"pipelines", "get", "demo"}), kSuccess);
  EXPECT_THAT(out_.str(), HasSubstr("none: offload unsupported"));
  EXPECT_THAT(out_.str(), HasSubstr("pid 17 on cpu of h idle\n"));
  EXPECT_THAT(out_.str(), HasSubstr("of h jobs/1, 12.3ms a pass\n"));
  out_.str("");
  context_.json = true;
  EXPECT_EQ(run({"pipelines", "get", "demo"}), kSuccess);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["limits"]["maxImages"], 4);
}

TEST_F(CommandsTest, FlightRecordsAreShown) {
  v1::RankFlightRecords& rank = *server_.flight_records.add_ranks();
  v1::GroupFlightRecords& votes = *rank.add_groups();
  votes.set_group("votes");
  votes.add_records()->set_kind("join");
  EXPECT_EQ(run({"pipelines", "flight-records", "demo"}), kSuccess);
  EXPECT_THAT(out_.str(), HasSubstr("0     votes  #0      join"));
  out_.str("");
  context_.json = true;
  EXPECT_EQ(run({"pipelines", "flight-records", "demo"}), kSuccess);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["ranks"][0]["groups"][0]["group"],
            "votes");
  EXPECT_EQ(run({"pipelines", "flight-records", "none"}), kServerError + 5);
  EXPECT_THAT(err_.str(), HasSubstr("NOT_FOUND PIPELINE_NOT_FOUND"));
  EXPECT_THAT(error_of({"pipelines", "flight-records"}),
              HasSubstr("pipelines flight-records NAME"));
}

TEST_F(CommandsTest, WrongUsageSaysWhatWouldBeRight) {
  EXPECT_THAT(error_of({}), HasSubstr("--help"));
  EXPECT_THAT(error_of({"draw"}), HasSubstr("generate PROMPT -o FILE"));
  EXPECT_THAT(error_of({"jobs", "get"}), HasSubstr("jobs get NAME"));
  EXPECT_THAT(error_of({"health", "now"}), HasSubstr("no such command"));
  EXPECT_THAT(error_of({"generate", "a", "fox", "-o", "x"}),
              HasSubstr("in quotes"));
  EXPECT_THAT(error_of({"generate", "a fox"}), HasSubstr("-o"));
  EXPECT_THAT(error_of({"generate", "a fox", "-o", "x", "--format=gif"}),
              HasSubstr("webp or raw"));
  EXPECT_THAT(error_of({"generate", "a fox", "-o", "x", "--preview_every=2"}),
              HasSubstr("--preview=FILE"));
  EXPECT_THAT(error_of({"jobs", "list", "--seed=3"}),
              HasSubstr("'jobs list' does not take it"));
}

}  // namespace
}  // namespace ferry
