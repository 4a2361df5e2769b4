#include "tests/support/generate_call.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ferry {

GenerateCall::GenerateCall(v1::GenerationService::StubInterface& stub,
                           const v1::GenerateRequest& request, Options options)
    : options_(std::move(options)) {
  if (options_.deadline != absl::InfiniteDuration()) {
    context_.set_deadline(std::chrono::system_clock::now() +
                          absl::ToChronoMilliseconds(options_.deadline));
  }
  reader_ = stub.Generate(&context_, request);
}

GenerateCall::~GenerateCall() {
  if (status_.has_value()) return;
  context_.TryCancel();
  finish();
}

std::optional<v1::JobEvent> GenerateCall::next() {
  v1::GenerateResponse response;
  if (status_.has_value() || !reader_->Read(&response)) {
    if (!status_.has_value()) status_ = reader_->Finish();
    return std::nullopt;
  }
  const v1::JobEvent& event = response.event();
  if (event.has_job()) job_ = event.job();
  if (event.has_progress()) progress_ = event.progress();
  if (event.has_output_chunk()) {
    outputs_[event.output_chunk().index()] += event.output_chunk().data();
  }
  events_.push_back(event);
  if (options_.on_event) options_.on_event(event);
  return event;
}

bool GenerateCall::wait_for_state(v1::Job::State state) {
  while (job_.state() != state) {
    if (!next().has_value()) return false;
  }
  return true;
}

bool GenerateCall::wait_for_step(int step) {
  while (progress_.step() < step) {
    if (!next().has_value()) return false;
  }
  return true;
}

const grpc::Status& GenerateCall::finish() {
  while (next().has_value()) {
  }
  return *status_;
}

v1::GenerateRequest make_request(int64_t seed) {
  v1::GenerateRequest request;
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_prompt(absl::StrCat("a red circle, ", kPromptCanary));
  spec.set_height(64);
  spec.set_width(64);
  spec.set_num_inference_steps(4);
  spec.set_seed(seed);
  return request;
}

v1::GenerateRequest make_large_request() {
  v1::GenerateRequest request = make_request();
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_width(1024);
  spec.set_height(1024);
  spec.set_num_images(4);
  spec.set_num_inference_steps(1);
  spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_RAW_RGB8);
  return request;
}

}  // namespace ferry
