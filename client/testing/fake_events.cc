#include "client/testing/fake_events.h"

#include <cstddef>
#include <cstdint>

#include "ferry/v1/job.pb.h"
#include "platform/base/sha256.h"

namespace ferry {

std::vector<v1::JobEvent> fake_events(const std::vector<std::string>& outputs) {
  std::vector<v1::JobEvent> events(2);
  v1::Job& job = *events[0].mutable_job();
  job.set_name("jobs/7");
  job.set_pipeline("pipelines/demo");
  job.set_state(v1::Job::STATE_QUEUED);
  job.mutable_effective_spec()->set_num_images(
      static_cast<int>(outputs.size()));
  v1::Job last = job;
  v1::Progress& progress = *events[1].mutable_progress();
  progress.set_stage(v1::Progress::STAGE_DENOISE);
  progress.set_step(1);
  progress.set_total_steps(2);
  for (size_t i = 0; i < outputs.size(); ++i) {
    v1::OutputInfo info;
    info.set_index(static_cast<int>(i));
    info.set_size_bytes(static_cast<int64_t>(outputs[i].size()));
    info.set_sha256(sha256_hex(outputs[i]));
    info.set_seed(static_cast<int64_t>(42 + i));
    const size_t half = outputs[i].size() / 2;
    for (const size_t offset : {size_t{0}, half}) {
      v1::OutputChunk& chunk = *events.emplace_back().mutable_output_chunk();
      chunk.set_index(info.index());
      chunk.set_offset(static_cast<int64_t>(offset));
      chunk.set_data(offset == 0 ? outputs[i].substr(0, half)
                                 : outputs[i].substr(half));
      if (offset != 0) *chunk.mutable_final_info() = info;
    }
    *last.add_outputs() = info;
  }
  last.set_state(v1::Job::STATE_SUCCEEDED);
  *events.emplace_back().mutable_job() = last;
  return events;
}

}  // namespace ferry
