// A picture from a prompt: the stream of Generate, its events and its outputs.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"
#include "tests/support/png_image.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::SizeIs;
using v1::Job;
using v1::Progress;

constexpr int64_t kMaxChunkBytes = int64_t{1} << 20;

int largest_difference(const std::vector<uint8_t>& a,
                       const std::vector<uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  }
  return largest;
}

class GenerateTest : public SharedDaemonFixture<GenerateTest> {
 public:
  static Daemon::Options options() {
    Daemon::Options options;
    options.pipelines = {{"tiny", large_package()}, {"slow", slow_package()}};
    return options;
  }

 protected:
  // The one picture of a request that must succeed.
  static std::string generate_one(const v1::GenerateRequest& request) {
    GenerateCall call(generation(), request);
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
    EXPECT_THAT(call.outputs(), SizeIs(1));
    return call.outputs().empty() ? "" : call.outputs().begin()->second;
  }

  static v1::GenerateRequest slow_request() {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_pipeline("pipelines/slow");
    return request;
  }
};

TEST_F(GenerateTest, GivesAPngOfTheAskedForSize) {
  v1::GenerateRequest request = make_request(7);
  request.mutable_spec()->set_width(128);
  request.mutable_spec()->set_height(64);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  ASSERT_THAT(call.outputs(), SizeIs(1));
  const std::string& png = call.outputs().at(0);
  const auto image = decode_png(png);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 128);
  EXPECT_EQ(image->height, 64);
  // Noise becomes a picture, not one flat colour.
  EXPECT_GT(
      std::set<uint8_t>(image->pixels.begin(), image->pixels.end()).size(), 8u);

  ASSERT_THAT(call.job().outputs(), SizeIs(1));
  const v1::OutputInfo& info = call.job().outputs(0);
  EXPECT_EQ(info.index(), 0);
  EXPECT_EQ(info.mime_type(), "image/png");
  EXPECT_EQ(info.width(), 128);
  EXPECT_EQ(info.height(), 64);
  EXPECT_EQ(info.seed(), 7);
  EXPECT_EQ(info.size_bytes(), static_cast<int64_t>(png.size()));
  EXPECT_EQ(info.sha256(), sha256_hex(png));
}

TEST_F(GenerateTest, SameSeedSameBytes) {
  const std::string first = generate_one(make_request(11));
  EXPECT_EQ(generate_one(make_request(11)), first);
  EXPECT_NE(generate_one(make_request(12)), first);
}

TEST_F(GenerateTest, PromptAndGuidanceChangeThePicture) {
  const std::string plain = generate_one(make_request(11));
  v1::GenerateRequest other = make_request(11);
  other.mutable_spec()->set_prompt("a blue square");
  EXPECT_NE(generate_one(other), plain);
  other = make_request(11);
  other.mutable_spec()->set_guidance_scale(9);
  EXPECT_NE(generate_one(other), plain);
  other.mutable_spec()->set_negative_prompt("a blue square");
  const std::string negative = generate_one(other);
  other.mutable_spec()->clear_negative_prompt();
  EXPECT_NE(generate_one(other), negative);
}

TEST_F(GenerateTest, TheSchedulerChangesThePicture) {
  const v1::Pipeline pipeline = daemon().get_pipeline("pipelines/tiny");
  ASSERT_THAT(pipeline.schedulers(),
              ElementsAre("FlowMatchEulerDiscrete", "UniPCMultistep",
                          "DPMSolverMultistep", "DPMSolverMultistepSDE"));
  std::set<std::string> pictures;
  for (const std::string& name : pipeline.schedulers()) {
    v1::GenerateRequest request = make_request(11);
    request.mutable_spec()->set_scheduler(name);
    GenerateCall call(generation(), request);
    ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
    EXPECT_EQ(call.job().effective_spec().scheduler(), name);
    ASSERT_THAT(call.outputs(), SizeIs(1));
    pictures.insert(call.outputs().at(0));
    EXPECT_EQ(generate_one(request), call.outputs().at(0)) << name;
  }
  EXPECT_THAT(pictures, SizeIs(pipeline.schedulers_size()));
  EXPECT_EQ(pictures.count(generate_one(make_request(11))), 1u);
}

TEST_F(GenerateTest, SigmasReplaceTheSteps) {
  v1::GenerateRequest request = make_request(11);
  request.mutable_spec()->clear_num_inference_steps();
  for (double sigma : {1.0, 0.9, 0.4})
    request.mutable_spec()->add_sigmas(sigma);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  EXPECT_EQ(call.job().progress().total_steps(), 3);
  const v1::GenerationSpec& effective = call.job().effective_spec();
  EXPECT_FALSE(effective.has_num_inference_steps());
  EXPECT_THAT(effective.sigmas(), ElementsAre(1.0, 0.9, 0.4));
  v1::GenerateRequest again;
  *again.mutable_spec() = effective;
  EXPECT_EQ(generate_one(again), call.outputs().at(0));
}

TEST_F(GenerateTest, EventsComeInOrder) {
  GenerateCall call(generation(), slow_request());
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  std::vector<Job::State> states;
  std::vector<int> steps;
  int64_t sequence = 0;
  double fraction = 0;
  Progress::Stage stage = Progress::STAGE_UNSPECIFIED;
  for (const v1::JobEvent& event : call.events()) {
    EXPECT_EQ(event.sequence(), ++sequence);
    if (event.has_job() &&
        (states.empty() || states.back() != event.job().state())) {
      states.push_back(event.job().state());
    }
    if (!event.has_progress()) continue;
    const Progress& progress = event.progress();
    EXPECT_GE(progress.fraction(), fraction);
    EXPECT_LE(progress.fraction(), 1);
    EXPECT_GE(progress.stage(), stage);
    fraction = progress.fraction();
    stage = progress.stage();
    if (progress.stage() == Progress::STAGE_DENOISE && progress.step() > 0) {
      EXPECT_EQ(progress.total_steps(), 4);
      if (steps.empty() || steps.back() != progress.step()) {
        steps.push_back(progress.step());
      }
    }
  }
  ASSERT_FALSE(call.events().empty());
  EXPECT_TRUE(call.events().front().has_job());
  EXPECT_TRUE(call.events().back().has_job());
  EXPECT_THAT(states, ElementsAre(Job::STATE_QUEUED, Job::STATE_RUNNING,
                                  Job::STATE_SUCCEEDED));
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(stage, Progress::STAGE_ENCODE);
}

TEST_F(GenerateTest, OutputsComeInChunks) {
  v1::GenerateRequest request = make_request();
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_width(1024);
  spec.set_height(512);
  spec.set_num_inference_steps(1);
  spec.set_num_images(2);
  spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_RAW_RGB8);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());

  constexpr int64_t kBytes = int64_t{1024} * 512 * 3;
  std::map<int, int64_t> offsets;
  std::map<int, int> final_chunks;
  for (const v1::JobEvent& event : call.events()) {
    if (!event.has_output_chunk()) continue;
    const v1::OutputChunk& chunk = event.output_chunk();
    EXPECT_EQ(chunk.offset(), offsets[chunk.index()]);
    EXPECT_LE(static_cast<int64_t>(chunk.data().size()), kMaxChunkBytes);
    EXPECT_FALSE(chunk.data().empty());
    EXPECT_EQ(final_chunks[chunk.index()], 0) << "a chunk after the last one";
    offsets[chunk.index()] += chunk.data().size();
    if (chunk.has_final_info()) {
      ++final_chunks[chunk.index()];
      EXPECT_EQ(chunk.final_info().index(), chunk.index());
      EXPECT_EQ(chunk.final_info().size_bytes(), kBytes);
      EXPECT_EQ(chunk.final_info().sha256(),
                sha256_hex(call.outputs().at(chunk.index())));
    }
  }
  EXPECT_THAT(offsets,
              ElementsAre(testing::Pair(0, kBytes), testing::Pair(1, kBytes)));
  EXPECT_THAT(final_chunks,
              ElementsAre(testing::Pair(0, 1), testing::Pair(1, 1)));
}

TEST_F(GenerateTest, RawRgbHoldsThePixelsOfThePng) {
  v1::GenerateRequest request = make_request(3);
  const auto image = decode_png(generate_one(request));
  ASSERT_TRUE(image.ok());
  request.mutable_spec()->mutable_output()->set_format(
      v1::OutputSpec::FORMAT_RAW_RGB8);
  const std::string raw = generate_one(request);
  EXPECT_EQ(std::vector<uint8_t>(raw.begin(), raw.end()), image->pixels);
}

TEST_F(GenerateTest, ImageIUsesSeedPlusI) {
  v1::GenerateRequest request = make_request(100);
  request.mutable_spec()->set_num_images(3);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  ASSERT_THAT(call.outputs(), SizeIs(3));
  ASSERT_THAT(call.job().outputs(), SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(call.job().outputs(i).seed(), 100 + i);
    const auto picture = decode_png(call.outputs().at(i));
    const auto alone = decode_png(generate_one(make_request(100 + i)));
    ASSERT_TRUE(picture.ok()) << picture.status();
    ASSERT_TRUE(alone.ok()) << alone.status();
    // Sums of other batch sizes may be rounded in another order.
    EXPECT_LE(largest_difference(picture->pixels, alone->pixels), 1) << i;
  }
}

TEST_F(GenerateTest, PreviewsShowEveryNthStep) {
  v1::GenerateRequest request = slow_request();
  request.mutable_spec()->set_num_inference_steps(5);
  request.mutable_spec()->mutable_preview()->set_interval_steps(2);
  request.mutable_spec()->mutable_preview()->set_max_edge(32);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  std::vector<int> steps;
  for (const v1::JobEvent& event : call.events()) {
    if (!event.has_preview()) continue;
    const v1::Preview& preview = event.preview();
    steps.push_back(preview.step());
    EXPECT_EQ(preview.mime_type(), "image/jpeg");
    EXPECT_TRUE(absl::StartsWith(preview.data(), "\xff\xd8\xff"));
    EXPECT_TRUE(absl::EndsWith(preview.data(), "\xff\xd9"));
    EXPECT_GT(preview.width(), 0);
    EXPECT_LE(preview.width(), 32);
    EXPECT_LE(preview.height(), 32);
  }
  EXPECT_THAT(steps, ElementsAre(2, 4));
}

TEST_F(GenerateTest, OmitDataLeavesTheHash) {
  v1::GenerateRequest request = make_request(5);
  const std::string png = generate_one(request);
  request.mutable_spec()->mutable_output()->set_omit_data(true);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  for (const auto& [index, bytes] : call.outputs()) {
    EXPECT_EQ(bytes, "") << index;
  }
  ASSERT_THAT(call.job().outputs(), SizeIs(1));
  EXPECT_EQ(call.job().outputs(0).sha256(), sha256_hex(png));
  EXPECT_EQ(call.job().outputs(0).size_bytes(),
            static_cast<int64_t>(png.size()));
}

TEST_F(GenerateTest, EmbedsMetadataOnlyWhenAsked) {
  v1::GenerateRequest request = make_request(4321);
  const auto plain = decode_png(generate_one(request));
  ASSERT_TRUE(plain.ok());
  EXPECT_THAT(plain->text, testing::IsEmpty());
  request.mutable_spec()->mutable_output()->set_embed_metadata(true);
  const auto annotated = decode_png(generate_one(request));
  ASSERT_TRUE(annotated.ok());
  std::string text;
  for (const auto& [key, value] : annotated->text) {
    absl::StrAppend(&text, key, "=", value, "\n");
  }
  EXPECT_THAT(text, testing::HasSubstr(request.spec().prompt()));
  EXPECT_THAT(text, testing::HasSubstr("4321"));
  EXPECT_EQ(annotated->pixels, plain->pixels);
}

TEST_F(GenerateTest, EffectiveSpecReproducesThePicture) {
  v1::GenerateRequest request;
  request.mutable_spec()->set_prompt("a green star");
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  ASSERT_THAT(call.outputs(), SizeIs(1));
  const v1::GenerationSpec& effective = call.job().effective_spec();
  EXPECT_EQ(effective.pipeline(), "pipelines/tiny");
  EXPECT_EQ(effective.prompt(), "a green star");
  EXPECT_TRUE(effective.has_seed());
  EXPECT_GT(effective.width(), 0);
  EXPECT_GT(effective.height(), 0);
  EXPECT_GT(effective.num_inference_steps(), 0);
  EXPECT_EQ(effective.num_images(), 1);

  v1::GenerateRequest again;
  *again.mutable_spec() = effective;
  EXPECT_EQ(generate_one(again), call.outputs().at(0));

  // A seed is drawn for each request.
  GenerateCall other(generation(), request);
  ASSERT_TRUE(other.finish().ok());
  EXPECT_NE(other.job().effective_spec().seed(), effective.seed());
}

TEST_F(GenerateTest, TellsThatAPromptWasCut) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_prompt("a fox");
  GenerateCall short_call(generation(), request);
  ASSERT_TRUE(short_call.finish().ok()) << describe(short_call.finish());
  EXPECT_FALSE(short_call.job().prompt_truncated());
  request.mutable_spec()->set_prompt(std::string(500, 'a'));
  GenerateCall long_call(generation(), request);
  ASSERT_TRUE(long_call.finish().ok()) << describe(long_call.finish());
  EXPECT_TRUE(long_call.job().prompt_truncated());
}

TEST_F(GenerateTest, FinishedJobKeepsItsMetadata) {
  v1::GenerateRequest request = slow_request();
  request.set_priority(3);
  (*request.mutable_labels())["team"] = "blue";
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  const auto got = get_job(generation(), call.job().name());
  ASSERT_TRUE(got.status.ok()) << describe(got.status);
  const Job& job = got.response.job();
  EXPECT_THAT(job.name(), testing::MatchesRegex("jobs/[0-9a-f]{32}"));
  EXPECT_EQ(job.state(), Job::STATE_SUCCEEDED);
  EXPECT_FALSE(job.has_error());
  EXPECT_EQ(job.pipeline(), "pipelines/slow");
  EXPECT_EQ(job.priority(), 3);
  EXPECT_EQ(job.labels().at("team"), "blue");
  EXPECT_EQ(job.effective_spec().SerializeAsString(),
            call.job().effective_spec().SerializeAsString());
  ASSERT_THAT(job.outputs(), SizeIs(1));
  EXPECT_EQ(job.outputs(0).sha256(), sha256_hex(call.outputs().at(0)));
  EXPECT_LE(job.create_time().seconds(), job.start_time().seconds());
  EXPECT_LE(job.start_time().seconds(), job.end_time().seconds());
  // Four slow steps; the length of one is measured on a busy machine.
  const auto milliseconds = [](const google::protobuf::Duration& duration) {
    return duration.seconds() * 1000 + duration.nanos() / 1000000;
  };
  const v1::Timings& timings = job.timings();
  EXPECT_GE(milliseconds(timings.denoise()), 2 * kSlowStepMs);
  EXPECT_GE(
      milliseconds(timings.total()),
      milliseconds(timings.queue()) + milliseconds(timings.text_encode()) +
          milliseconds(timings.denoise()) + milliseconds(timings.vae_decode()) +
          milliseconds(timings.encode()));
}

TEST_F(GenerateTest, ValidateOnlyRunsNothing) {
  v1::GenerateRequest request = make_request();
  request.set_validate_only(true);
  GenerateCall call(generation(), request);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  EXPECT_EQ(call.job().state(), Job::STATE_UNSPECIFIED);
  EXPECT_EQ(call.job().effective_spec().num_images(), 1);
  EXPECT_THAT(call.outputs(), testing::IsEmpty());
}

TEST_F(GenerateTest, ThirtyTwoCallsEachGetTheirOwnSeedBack) {
  constexpr int kCalls = 32;
  const auto shared_channel = daemon().new_channel();
  const auto stub = v1::GenerationService::NewStub(shared_channel);
  std::vector<std::unique_ptr<GenerateCall>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(
        std::make_unique<GenerateCall>(*stub, make_request(1000 + i)));
  }
  std::set<std::string> pictures;
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(calls[i]->finish().ok()) << describe(calls[i]->finish());
    ASSERT_THAT(calls[i]->job().outputs(), SizeIs(1));
    EXPECT_EQ(calls[i]->job().effective_spec().seed(), 1000 + i);
    EXPECT_EQ(calls[i]->job().outputs(0).seed(), 1000 + i);
    pictures.insert(calls[i]->outputs().at(0));
  }
  EXPECT_THAT(pictures, SizeIs(kCalls));
  for (const int i : {0, 13, 31}) {
    EXPECT_EQ(generate_one(make_request(1000 + i)), calls[i]->outputs().at(0));
  }
}

}  // namespace
}  // namespace ferry
