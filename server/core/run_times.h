#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/core/generation_work.h"

namespace ferry {

// Learns how long generations of each pipeline run, and predicts the next from
// the latest of about the same work (passes, and work of one pass, each within
// a factor of two). Without such a run there is no prediction.
//
// In a group whose ranks make each pass together, a run takes as long as the
// slowest that runs beside it. Such a run tells nothing of its own work: it is
// `slowed`, and counts for mean() only. So what has only ever run beside larger
// ones is not predicted.
//
// Threads: not thread-safe; the owner's lock guards it.
class RunTimes {
 public:
  // A generation that succeeded.
  struct Run {
    absl::Duration total;
    // All passes together.
    absl::Duration denoise;
    // A larger one ran in the same passes, at least for a while.
    bool slowed = false;
  };

  // `pipeline`: the resource name.
  void add(const std::string& pipeline, const GenerationWork& work,
           const Run& run);

  // What a generation takes at least, so that who goes by it never refuses
  // what would have been in time: the fastest run, scaled down to fewer passes,
  // and by the square to smaller ones (attention costs the square of the
  // pixels), and never up: what does not depend on the work may be most of it.
  std::optional<absl::Duration> least(const std::string& pipeline,
                                      const GenerationWork& work) const;

  // What one pass of it takes when nothing slows it: the fastest one, scaled to
  // the work.
  std::optional<absl::Duration> pass_time(const std::string& pipeline,
                                          const GenerationWork& work) const;

  // Mean of the pipeline's latest runs, whatever their work; nothing before the
  // first.
  std::optional<absl::Duration> mean(const std::string& pipeline) const;

 private:
  struct Sample {
    GenerationWork work;
    Run run;
  };

  // Latest last; empty for a pipeline that has not run.
  const std::deque<Sample>& samples_of(const std::string& pipeline) const;

  // By pipeline.
  std::map<std::string, std::deque<Sample>> samples_;
};

}  // namespace ferry
