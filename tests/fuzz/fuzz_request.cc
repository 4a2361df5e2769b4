#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "ferry/v1/generation_service.pb.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "platform/base/clock.h"
#include "server/core/generation_manager.h"
#include "server/core/pipeline_directory.h"
#include "server/core/rpc_status.h"
#include "server/core/spec_validator.h"
#include "server/core/testing/test_pipeline.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {
namespace {

constexpr int64_t kSeed = 7;

// Seeds that start with '#' are in text format, since people write them.
template <typename Message>
bool parse(absl::string_view input, Message* message) {
  if (!absl::StartsWith(input, "#")) {
    return message->ParseFromArray(input.data(),
                                   static_cast<int>(input.size()));
  }
  google::protobuf::TextFormat::Parser parser;
  // Errors are of no interest.
  class Silent final : public google::protobuf::io::ErrorCollector {
    void AddError(int, google::protobuf::io::ColumnNumber,
                  const std::string&) override {}
  } silent;
  parser.RecordErrorsTo(&silent);
  Message parsed;
  // Texts that are no UTF-8 do not come over the wire.
  return parser.ParseFromString(std::string(input), &parsed) &&
         message->ParseFromString(parsed.SerializeAsString());
}

// What a client gets for a refused request.
void check_error(const absl::Status& status) {
  require(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
              absl::IsNotFound(status),
          "the code is one of a request's faults");
  const google::rpc::Status wire = to_rpc_status(status);
  require(wire.message().size() + wire.ByteSizeLong() <= kMaxStatusBytes,
          "the error fits into a header");
  google::rpc::Status again;
  require(again.ParseFromString(wire.SerializeAsString()),
          "the error can be parsed");
  if (absl::IsNotFound(status)) return;
  google::rpc::BadRequest fields;
  for (const auto& detail : wire.details()) detail.UnpackTo(&fields);
  require(fields.field_violations_size() > 0 &&
              !fields.field_violations(0).field().empty(),
          "a field is named");
}

v1::GenerateRequest as_request(const ValidRequest& valid) {
  v1::GenerateRequest request;
  *request.mutable_spec() = valid.spec;
  request.set_priority(valid.priority);
  for (const auto& [key, value] : valid.labels) {
    (*request.mutable_labels())[key] = value;
  }
  return request;
}

}  // namespace

// A GenerateRequest.
void fuzz_request(absl::string_view input) {
  static const v1::Pipeline* const pipeline =
      new v1::Pipeline(make_test_pipeline());
  v1::GenerateRequest request;
  if (!parse(input, &request)) return;
  const RequestCaps caps;
  const auto draw_seed = [] { return kSeed; };
  const auto valid = validate_request(request, *pipeline, caps, draw_seed);
  if (!valid.ok()) return check_error(valid.status());
  const v1::GenerationSpec& spec = valid->spec;
  require(spec.has_seed() && spec.seed() >= 0 &&
              spec.seed() <= INT64_MAX - (spec.num_images() - 1),
          "every image has a seed");
  require(int64_t{spec.height()} * spec.width() * spec.num_images() <=
              caps.max_request_pixels,
          "the pixels are within the caps");
  // The effective spec is a request for the same picture.
  const auto again =
      validate_request(as_request(*valid), *pipeline, caps, draw_seed);
  require(
      again.ok() && again->spec.SerializeAsString() == spec.SerializeAsString(),
      "the effective spec is its own effective spec");
}

// A job's name, and a ListJobsRequest.
void fuzz_job_names(absl::string_view input) {
  static auto* const directory = new PipelineDirectory();
  static auto* const manager = new GenerationManager(
      GenerationManager::Options(), *directory, Clock::real());
  const auto found = manager->find(std::string(input));
  require(!found.ok(), "there is no job");
  check_error(found.status());
  v1::ListJobsRequest request;
  if (!parse(input, &request)) return;
  const auto list = manager->list(request);
  if (!list.ok()) check_error(list.status());
}

}  // namespace ferry
