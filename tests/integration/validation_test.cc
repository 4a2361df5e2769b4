// Every field of a request at its bounds, through the wire. Nothing is
// generated: requests only ask for a check.

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using v1::GenerateRequest;
using v1::GenerationSpec;
using v1::OutputSpec;

// Caps of the server, below those of the pipeline.
constexpr int64_t kMaxPixels = 64 * 128;
constexpr int64_t kMaxRequestPixels = 2 * kMaxPixels;

class ValidationTest : public SharedDaemonFixture<ValidationTest> {
 public:
  static Daemon::Options options() {
    Daemon::Options options;
    options.pipelines = {{"tiny", make_package()}};
    options.flags = {absl::StrCat("--max_pixels=", kMaxPixels),
                     absl::StrCat("--max_request_pixels=", kMaxRequestPixels)};
    return options;
  }

 protected:
  using Change = std::function<void(GenerateRequest& request)>;
  using SpecChange = std::function<void(GenerationSpec& spec)>;

  static Change on_spec(SpecChange change) {
    return
        [change](GenerateRequest& request) { change(*request.mutable_spec()); };
  }

  static grpc::Status check(const Change& change) {
    GenerateRequest request = make_request();
    request.set_validate_only(true);
    change(request);
    GenerateCall call(generation(), request);
    return call.finish();
  }

  static void expect_accepted(const Change& change) {
    const grpc::Status status = check(change);
    EXPECT_TRUE(status.ok()) << describe(status);
  }

  // One violation, of this field, with this reason.
  static void expect_refused(const std::string& field, const Change& change,
                             const std::string& reason = "INVALID_FIELD") {
    SCOPED_TRACE(field);
    const grpc::Status status = check(change);
    EXPECT_EQ(status.error_code(), reason == "FIELD_NOT_SUPPORTED"
                                       ? grpc::StatusCode::UNIMPLEMENTED
                                       : grpc::StatusCode::INVALID_ARGUMENT)
        << describe(status);
    const ErrorDetails details = parse_details(status);
    EXPECT_EQ(details.reason, reason) << describe(status);
    EXPECT_EQ(details.domain, "ferry.v1");
    EXPECT_THAT(details.violated_fields(), UnorderedElementsAre(field))
        << describe(status);
    EXPECT_THAT(status.error_message(), HasSubstr(field));
  }

  static v1::Limits limits() {
    return daemon().get_pipeline("pipelines/tiny").limits();
  }
};

TEST_F(ValidationTest, Prompt) {
  const auto prompt = [](const std::string& text) {
    return on_spec([text](GenerationSpec& spec) { spec.set_prompt(text); });
  };
  expect_refused("spec.prompt", prompt(""));
  expect_accepted(prompt("x"));
  expect_accepted(prompt(std::string(32768, 'x')));
  expect_refused("spec.prompt", prompt(std::string(32769, 'x')));
  expect_refused("spec.prompt", prompt(std::string("a\0b", 3)));
  expect_accepted(prompt("ein Kreis, \xf0\x9f\x94\xb4 \xe4\xb8\xad"));
  const auto negative = [](const std::string& text) {
    return on_spec(
        [text](GenerationSpec& spec) { spec.set_negative_prompt(text); });
  };
  expect_accepted(negative(""));
  expect_accepted(negative(std::string(32768, 'x')));
  expect_refused("spec.negative_prompt", negative(std::string(32769, 'x')));
  // Where it has no effect it is refused.
  const auto at_scale = [](const std::string& text, double scale) {
    return on_spec([=](GenerationSpec& spec) {
      spec.set_negative_prompt(text);
      spec.set_guidance_scale(scale);
    });
  };
  expect_accepted(at_scale("x", 1.5));
  expect_refused("spec.negative_prompt", at_scale("x", 1));
  expect_refused("spec.negative_prompt", at_scale("x", 0));
  expect_accepted(at_scale("", 1));
}

TEST_F(ValidationTest, MissingSpec) {
  expect_refused("spec.prompt",
                 [](GenerateRequest& request) { request.clear_spec(); });
}

TEST_F(ValidationTest, UnknownPipeline) {
  const grpc::Status status = check(on_spec(
      [](GenerationSpec& spec) { spec.set_pipeline("pipelines/none"); }));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  const ErrorDetails details = parse_details(status);
  EXPECT_EQ(details.reason, "PIPELINE_NOT_FOUND");
  EXPECT_EQ(details.resource_name, "pipelines/none");
  expect_accepted(on_spec(
      [](GenerationSpec& spec) { spec.set_pipeline("pipelines/tiny"); }));
  expect_accepted(on_spec([](GenerationSpec& spec) { spec.set_pipeline(""); }));
}

TEST_F(ValidationTest, Edges) {
  const v1::Limits bounds = limits();
  const int multiple = bounds.size_multiple();
  ASSERT_GT(multiple, 1);
  ASSERT_GE(bounds.min_edge(), multiple);
  ASSERT_GT(bounds.max_edge(), bounds.min_edge());
  const auto width = [&](int pixels) {
    return on_spec([&bounds, pixels](GenerationSpec& spec) {
      spec.set_width(pixels);
      spec.set_height(bounds.min_edge());
    });
  };
  const auto height = [&](int pixels) {
    return on_spec([&bounds, pixels](GenerationSpec& spec) {
      spec.set_height(pixels);
      spec.set_width(bounds.min_edge());
    });
  };
  for (const int good :
       {bounds.min_edge(), bounds.min_edge() + multiple, bounds.max_edge()}) {
    expect_accepted(width(good));
    expect_accepted(height(good));
  }
  for (const int bad :
       {bounds.min_edge() - multiple, bounds.max_edge() + multiple,
        bounds.min_edge() + 1, 0, -multiple, std::numeric_limits<int>::max(),
        std::numeric_limits<int>::min()}) {
    SCOPED_TRACE(bad);
    expect_refused("spec.width", width(bad));
    expect_refused("spec.height", height(bad));
  }
}

TEST_F(ValidationTest, WrongMultipleNamesTheNearest) {
  const v1::Limits bounds = limits();
  const int good = bounds.min_edge() + bounds.size_multiple();
  const grpc::Status status =
      check(on_spec([&](GenerationSpec& spec) { spec.set_width(good + 1); }));
  const std::string description =
      parse_details(status).violation_of("spec.width");
  EXPECT_THAT(
      description,
      AllOf(HasSubstr(absl::StrCat(good + 1)), HasSubstr(absl::StrCat(good)),
            HasSubstr(absl::StrCat(good + bounds.size_multiple()))));
}

TEST_F(ValidationTest, Steps) {
  const int max = limits().max_num_inference_steps();
  ASSERT_GT(max, 1);
  const auto steps = [](int count) {
    return on_spec(
        [count](GenerationSpec& spec) { spec.set_num_inference_steps(count); });
  };
  expect_accepted(steps(1));
  expect_accepted(steps(max));
  for (const int bad : {0, -1, max + 1, std::numeric_limits<int>::max()}) {
    expect_refused("spec.num_inference_steps", steps(bad));
  }
}

TEST_F(ValidationTest, Guidance) {
  const auto guidance = [](double scale) {
    return on_spec(
        [scale](GenerationSpec& spec) { spec.set_guidance_scale(scale); });
  };
  for (const double good : {0.0, 1.0, 50.0}) expect_accepted(guidance(good));
  for (const double bad :
       {-0.001, 50.001, std::nan(""), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    expect_refused("spec.guidance_scale", guidance(bad));
  }
}

TEST_F(ValidationTest, SeedAndImages) {
  constexpr int64_t kMaxSeed = std::numeric_limits<int64_t>::max();
  const int max = limits().max_images();
  ASSERT_GT(max, 1);
  const auto seed = [](int64_t value) {
    return on_spec([value](GenerationSpec& spec) { spec.set_seed(value); });
  };
  expect_accepted(seed(0));
  expect_accepted(seed(kMaxSeed));
  expect_refused("spec.seed", seed(-1));
  const auto images = [](int count) {
    return on_spec(
        [count](GenerationSpec& spec) { spec.set_num_images(count); });
  };
  expect_accepted(images(1));
  expect_accepted(images(max));
  for (const int bad : {0, -1, max + 1, std::numeric_limits<int>::max()}) {
    expect_refused("spec.num_images", images(bad));
  }
  // Image i uses seed + i.
  const auto both = [](int64_t value) {
    return on_spec([value](GenerationSpec& spec) {
      spec.set_seed(value);
      spec.set_num_images(2);
    });
  };
  expect_accepted(both(kMaxSeed - 1));
  expect_refused("spec.seed", both(kMaxSeed));
}

TEST_F(ValidationTest, Scheduler) {
  const v1::Pipeline pipeline = daemon().get_pipeline("pipelines/tiny");
  ASSERT_GT(pipeline.schedulers_size(), 0);
  for (const std::string& name : pipeline.schedulers()) {
    expect_accepted(
        on_spec([&](GenerationSpec& spec) { spec.set_scheduler(name); }));
  }
  expect_refused("spec.scheduler", on_spec([](GenerationSpec& spec) {
                   spec.set_scheduler("Nonesuch");
                 }),
                 "UNKNOWN_PARAMETER");
}

TEST_F(ValidationTest, Sigmas) {
  const int max = limits().max_num_inference_steps();
  const auto levels = [](const std::vector<double>& sigmas,
                         const std::string& scheduler = "") {
    return on_spec([=](GenerationSpec& spec) {
      spec.clear_num_inference_steps();
      spec.set_scheduler(scheduler);
      for (double sigma : sigmas) spec.add_sigmas(sigma);
    });
  };
  std::vector<double> most;
  for (int i = 0; i < max; ++i) most.push_back(1 - 0.5 * i / max);
  expect_accepted(levels({1}));
  expect_accepted(levels(most));
  expect_accepted(levels({0.9, 0.1}, "UniPCMultistep"));
  most.push_back(0.1);
  for (const std::vector<double>& bad :
       {std::vector<double>{0},
        {1.1},
        {-1},
        {std::nan("")},
        {0.5, 0.5},
        {0.5, 0.6},
        {std::numeric_limits<double>::infinity(), 0.5},
        most}) {
    expect_refused("spec.sigmas", levels(bad));
  }
  expect_refused("spec.sigmas", levels({0.9, 0.1}, "DPMSolverMultistep"),
                 "CONFLICTING_FIELDS");
  expect_refused("spec.sigmas", on_spec([](GenerationSpec& spec) {
                   spec.set_num_inference_steps(1);
                   spec.add_sigmas(1);
                 }),
                 "CONFLICTING_FIELDS");
}

TEST_F(ValidationTest, OutputAndPreview) {
  const auto format = [](OutputSpec::Format value) {
    return on_spec([value](GenerationSpec& spec) {
      spec.mutable_output()->set_format(value);
    });
  };
  expect_accepted(format(OutputSpec::FORMAT_UNSPECIFIED));
  expect_accepted(format(OutputSpec::FORMAT_PNG));
  expect_accepted(format(OutputSpec::FORMAT_JPEG));
  expect_accepted(format(OutputSpec::FORMAT_WEBP));
  expect_accepted(format(OutputSpec::FORMAT_RAW_RGB8));
  expect_refused("spec.output.format", format(OutputSpec::FORMAT_MP4),
                 "FIELD_NOT_SUPPORTED");
  expect_refused("spec.output.format", format(OutputSpec::Format(99)));
  const auto quality = [](OutputSpec::Format format, int value) {
    return on_spec([=](GenerationSpec& spec) {
      spec.mutable_output()->set_format(format);
      spec.mutable_output()->set_quality(value);
    });
  };
  expect_refused("spec.output.quality", quality(OutputSpec::FORMAT_PNG, 90),
                 "CONFLICTING_FIELDS");
  expect_accepted(quality(OutputSpec::FORMAT_JPEG, 1));
  expect_accepted(quality(OutputSpec::FORMAT_WEBP, 100));
  expect_refused("spec.output.quality", quality(OutputSpec::FORMAT_JPEG, 0));
  expect_refused("spec.output.quality", quality(OutputSpec::FORMAT_WEBP, 101));
  const auto lossless = [](OutputSpec::Format format) {
    return on_spec([=](GenerationSpec& spec) {
      spec.mutable_output()->set_format(format);
      spec.mutable_output()->set_lossless(true);
    });
  };
  expect_accepted(lossless(OutputSpec::FORMAT_WEBP));
  expect_refused("spec.output.lossless", lossless(OutputSpec::FORMAT_JPEG),
                 "CONFLICTING_FIELDS");
  expect_refused("spec.output.embed_metadata",
                 on_spec([](GenerationSpec& spec) {
                   spec.set_prompt(std::string(32001, 'a'));
                   spec.mutable_output()->set_format(OutputSpec::FORMAT_JPEG);
                   spec.mutable_output()->set_embed_metadata(true);
                 }),
                 "CONFLICTING_FIELDS");
  expect_refused(
      "spec.output.embed_metadata", on_spec([](GenerationSpec& spec) {
        spec.mutable_output()->set_format(OutputSpec::FORMAT_RAW_RGB8);
        spec.mutable_output()->set_embed_metadata(true);
      }),
      "CONFLICTING_FIELDS");
  const auto preview = [](int interval, int max_edge) {
    return on_spec([=](GenerationSpec& spec) {
      spec.mutable_preview()->set_interval_steps(interval);
      spec.mutable_preview()->set_max_edge(max_edge);
    });
  };
  expect_accepted(preview(0, 0));
  expect_accepted(preview(1, 64));
  expect_refused("spec.preview.interval_steps", preview(-1, 0));
  expect_refused("spec.preview.max_edge", preview(1, -1));
  expect_accepted(preview(1, 1024));
  expect_refused("spec.preview.max_edge", preview(1, 1025));
}

TEST_F(ValidationTest, FieldsOfTheCall) {
  const auto priority = [](int value) {
    return [value](GenerateRequest& request) { request.set_priority(value); };
  };
  expect_accepted(priority(0));
  expect_accepted(priority(9));
  expect_refused("priority", priority(-1));
  expect_refused("priority", priority(10));
  const auto timeout = [](int64_t seconds, int nanos) {
    return [=](GenerateRequest& request) {
      request.mutable_queue_timeout()->set_seconds(seconds);
      request.mutable_queue_timeout()->set_nanos(nanos);
    };
  };
  expect_accepted(timeout(0, 1));
  expect_accepted(timeout(300, 0));
  expect_refused("queue_timeout", timeout(301, 0));
  expect_refused("queue_timeout", timeout(-1, 0));
  expect_refused("queue_timeout", timeout(0, 0));
  expect_refused("queue_timeout", timeout(1, -1));
}

TEST_F(ValidationTest, Labels) {
  const auto label = [](const std::string& key, const std::string& value) {
    return [=](GenerateRequest& request) {
      (*request.mutable_labels())[key] = value;
    };
  };
  expect_accepted(label("k", ""));
  expect_accepted(label(std::string(63, 'k'), std::string(255, 'v')));
  expect_refused("labels", label("", "v"));
  expect_refused("labels", label(std::string(64, 'k'), "v"));
  expect_refused("labels[\"k\"]", label("k", std::string(256, 'v')));
  const auto labels = [](int count) {
    return [count](GenerateRequest& request) {
      for (int i = 0; i < count; ++i) {
        (*request.mutable_labels())[absl::StrCat("k", i)] = "v";
      }
    };
  };
  expect_accepted(labels(64));
  expect_refused("labels", labels(65));
}

TEST_F(ValidationTest, LaterFeaturesAreRefused) {
  const std::string reason = "FIELD_NOT_SUPPORTED";
  expect_refused("spec.true_cfg_scale", on_spec([](GenerationSpec& spec) {
                   spec.set_true_cfg_scale(2);
                 }),
                 reason);
  expect_refused("spec.input_images",
                 on_spec([](GenerationSpec& spec) { spec.add_input_images(); }),
                 reason);
  expect_refused(
      "spec.mask_image",
      on_spec([](GenerationSpec& spec) { spec.mutable_mask_image(); }), reason);
  expect_refused("spec.strength",
                 on_spec([](GenerationSpec& spec) { spec.set_strength(1); }),
                 reason);
  expect_refused("spec.max_sequence_length", on_spec([](GenerationSpec& spec) {
                   spec.set_max_sequence_length(8);
                 }),
                 reason);
  expect_refused("spec.video",
                 on_spec([](GenerationSpec& spec) { spec.mutable_video(); }),
                 reason);
  expect_refused(
      "spec.extra_params", on_spec([](GenerationSpec& spec) {
        (*spec.mutable_extra_params()->mutable_fields())["cfg_rescale"]
            .set_number_value(1);
      }),
      reason);
  expect_refused(
      "spec.lora_adapters",
      on_spec([](GenerationSpec& spec) { spec.add_lora_adapters(); }), reason);
  expect_refused(
      "request_id",
      [](GenerateRequest& request) { request.set_request_id("one"); }, reason);
  expect_refused(
      "detach", [](GenerateRequest& request) { request.set_detach(true); },
      reason);
}

TEST_F(ValidationTest, FieldsOfALaterApi) {
  const grpc::Status status = check(on_spec([](GenerationSpec& spec) {
    spec.GetReflection()->MutableUnknownFields(&spec)->AddVarint(900, 1);
  }));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(parse_details(status).reason, "UNKNOWN_PARAMETER");
  EXPECT_THAT(status.error_message(), HasSubstr("900"));
}

TEST_F(ValidationTest, PixelsOfAllImages) {
  const v1::Limits bounds = limits();
  const auto size = [&](int64_t pixels, int images) {
    return on_spec([=](GenerationSpec& spec) {
      spec.set_width(bounds.max_edge());
      spec.set_height(static_cast<int>(pixels / bounds.max_edge()));
      spec.set_num_images(images);
    });
  };
  ASSERT_GT(int64_t{bounds.max_edge()} * bounds.max_edge(), kMaxPixels);
  expect_accepted(size(kMaxPixels, 1));
  expect_refused("spec.height", size(kMaxPixels * 2, 1), "LIMIT_EXCEEDED");
  expect_accepted(size(kMaxPixels, kMaxRequestPixels / kMaxPixels));
  expect_refused("spec.num_images",
                 size(kMaxPixels, kMaxRequestPixels / kMaxPixels + 1),
                 "LIMIT_EXCEEDED");
}

TEST_F(ValidationTest, EveryViolationAtOnce) {
  const grpc::Status status = check([](GenerateRequest& request) {
    GenerationSpec& spec = *request.mutable_spec();
    spec.set_prompt("");
    spec.set_width(-1);
    spec.set_height(1);
    spec.set_num_inference_steps(0);
    spec.set_guidance_scale(-1);
    spec.set_seed(-1);
    spec.set_num_images(0);
    spec.set_scheduler("Nonesuch");
    spec.mutable_preview()->set_interval_steps(-1);
    spec.set_strength(1);
    request.set_priority(10);
    request.mutable_queue_timeout()->set_seconds(-1);
  });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const ErrorDetails details = parse_details(status);
  EXPECT_EQ(details.reason, "INVALID_FIELD");
  EXPECT_THAT(
      details.violated_fields(),
      UnorderedElementsAre("spec.prompt", "spec.width", "spec.height",
                           "spec.num_inference_steps", "spec.guidance_scale",
                           "spec.seed", "spec.num_images", "spec.scheduler",
                           "spec.preview.interval_steps", "spec.strength",
                           "priority", "queue_timeout"));
  for (const auto& [field, description] : details.violations) {
    EXPECT_NE(description, "") << field;
  }
}

TEST_F(ValidationTest, PagesOfLists) {
  const auto refused = [](int page_size, const std::string& token) {
    v1::ListJobsRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    return list_jobs(generation(), request).status;
  };
  EXPECT_TRUE(refused(0, "").ok());
  EXPECT_TRUE(refused(1000, "").ok());
  for (const int bad : {-1, 1001}) {
    EXPECT_THAT(parse_details(refused(bad, "")).violated_fields(),
                UnorderedElementsAre("page_size"));
  }
  EXPECT_EQ(refused(1, "nonsense").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(parse_details(refused(1, "nonsense")).reason, "INVALID_PAGE_TOKEN");
}

TEST_F(ValidationTest, CallsOfLaterFeatures) {
  const auto context = [] { return std::make_unique<grpc::ClientContext>(); };
  v1::CreateJobResponse created;
  v1::DeleteJobResponse deleted;
  v1::LoadPipelineResponse loaded;
  v1::UnloadPipelineResponse unloaded;
  const auto watch_context = context();
  const auto watch = generation().WatchJob(watch_context.get(), {});
  v1::WatchJobResponse event;
  EXPECT_FALSE(watch->Read(&event));
  v1::PipelineService::Stub& pipelines = daemon().pipeline_service();
  for (const grpc::Status& status :
       {generation().CreateJob(context().get(), {}, &created),
        generation().DeleteJob(context().get(), {}, &deleted), watch->Finish(),
        pipelines.LoadPipeline(context().get(), {}, &loaded),
        pipelines.UnloadPipeline(context().get(), {}, &unloaded)}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(parse_details(status).reason, "METHOD_NOT_SUPPORTED");
  }
}

}  // namespace
}  // namespace ferry
