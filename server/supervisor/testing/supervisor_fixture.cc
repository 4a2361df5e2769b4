#include "server/supervisor/testing/supervisor_fixture.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

constexpr std::chrono::minutes kPatience(1);

std::string state_name(const v1::Pipeline& pipeline) {
  return absl::StrCat(
      absl::StripPrefix(v1::Pipeline::State_Name(pipeline.state()), "STATE_"),
      " ", pipeline.generation());
}

}  // namespace

PublicationLog::PublicationLog(PipelineDirectory& directory) {
  directory.add_listener(
      [this](const v1::Pipeline& pipeline) { append(state_name(pipeline)); });
}

void PublicationLog::add_rank(const std::string& /*pipeline*/,
                              std::shared_ptr<Rank> rank) {
  {
    MutexLock lock(&mutex_);
    rank_ = std::move(rank);
  }
  append("add");
}

void PublicationLog::remove_rank(const std::string& /*pipeline*/,
                                 const std::shared_ptr<Rank>& /*rank*/) {
  append("remove");
}

void PublicationLog::fail_queued(const std::string& /*pipeline*/,
                                 const absl::Status& error) {
  append(absl::StrCat("fail_queued ", get_error_info(error)->reason));
}

void PublicationLog::append(std::string entry) {
  MutexLock lock(&mutex_);
  entries_.push_back(std::move(entry));
  changed_.notify_all();
}

std::vector<std::string> PublicationLog::entries() {
  MutexLock lock(&mutex_);
  return entries_;
}

std::string PublicationLog::wait_for(const std::string& entry) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto matches = [&](const std::string& other) {
    return absl::StartsWith(other, entry);
  };
  MutexLock lock(&mutex_);
  while (true) {
    const auto it = std::find_if(entries_.begin(), entries_.end(), matches);
    if (it != entries_.end()) return *it;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) break;
    changed_.wait_for(&mutex_, left);
  }
  ADD_FAILURE() << "no " << entry << " in " << absl::StrJoin(entries_, ", ");
  return "";
}

std::shared_ptr<Rank> PublicationLog::rank() {
  MutexLock lock(&mutex_);
  return rank_;
}

void CollectedEvents::on_progress(v1::Progress progress) {
  if (progress.stage() != v1::Progress::STAGE_DENOISE) return;
  steps.push_back(progress.step());
  MutexLock lock(&mutex_);
  step_ = progress.step();
  changed_.notify_all();
}

void CollectedEvents::on_preview(v1::Preview /*preview*/) { ++previews; }

void CollectedEvents::on_output_chunk(v1::OutputChunk chunk) {
  chunks.push_back(std::move(chunk));
}

void CollectedEvents::wait_for_step(int step) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(&mutex_);
  while (step_ < step) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) FAIL() << "no step " << step;
    changed_.wait_for(&mutex_, left);
  }
}

SupervisorFixture::SupervisorFixture() : log_(directory_) {
  directory_.add(kPipeline);
  options_.worker.pipeline = kPipeline;
  options_.worker.package_dir = "/package";
  options_.restart.backoff_min = absl::Milliseconds(1);
  options_.restart.backoff_max = absl::Milliseconds(1);
}

void SupervisorFixture::start(const std::string& script) {
  options_.worker.command = {"server/supervisor/testing/scripted_worker",
                             absl::StrCat("--script=", script)};
  WorkerSupervisor::Callbacks callbacks;
  callbacks.on_load_error = [this](const std::string&, const absl::Status& e) {
    log_.append(absl::StrCat("load_error ", e.message()));
  };
  callbacks.on_budget_spent = [this](const std::string&,
                                     const absl::Status& e) {
    log_.append(absl::StrCat("budget_spent ", e.message()));
  };
  supervisor_ = std::make_unique<WorkerSupervisor>(
      WorkerSupervisor::Options{{options_}}, std::move(callbacks), directory_,
      log_, Clock::real());
  supervisor_->start();
}

worker::v1::RunGenerationRequest SupervisorFixture::request(int steps) {
  worker::v1::RunGenerationRequest request;
  request.set_job("jobs/1");
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_prompt("a red circle");
  spec.set_height(64);
  spec.set_width(64);
  spec.set_num_inference_steps(steps);
  spec.set_num_images(1);
  spec.set_seed(7);
  return request;
}

}  // namespace ferry
