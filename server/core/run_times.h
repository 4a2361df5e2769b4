#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "ferry/v1/generation_spec.pb.h"

namespace ferry {

// Learns how long generations of each pipeline run, and estimates the next.
//
// The estimate must never refuse what would have been in time, so it is a low
// one: the fastest of the latest runs of about the same work (steps × pixels ×
// images, within a factor of two), scaled to the work. Without such a run there
// is none.
//
// Threads: not thread-safe; the owner's lock guards it.
class RunTimes {
 public:
  // A generation that succeeded ran for `run`.
  void add(const v1::GenerationSpec& spec, absl::Duration run);

  std::optional<absl::Duration> estimate(const v1::GenerationSpec& spec) const;

  // Mean of the pipeline's latest runs, whatever their work; nothing before the
  // first.
  std::optional<absl::Duration> mean(const std::string& pipeline) const;

 private:
  struct Sample {
    double work;
    absl::Duration run;
  };

  // Latest last, by pipeline.
  std::map<std::string, std::deque<Sample>> samples_;
};

}  // namespace ferry
