#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/core/rank.h"

namespace ferry {

// Who gives jobs to ranks: all that the supervisor wants of it.
//
// Threads: thread-safe.
class RankPool {
 public:
  virtual ~RankPool() = default;

  // The rank takes jobs of `pipeline` from now on.
  virtual void add_rank(const std::string& pipeline,
                        std::shared_ptr<Rank> rank) = 0;
  // It takes none any more. Blocks until it runs nothing; the supervisor sees
  // to it that its run() returns soon.
  virtual void remove_rank(const std::string& pipeline,
                           const std::shared_ptr<Rank>& rank) = 0;
  // No rank of `pipeline` will come back: what waits for one ends with `error`.
  virtual void fail_queued(const std::string& pipeline,
                           const absl::Status& error) = 0;
};

}  // namespace ferry
