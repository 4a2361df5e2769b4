#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/core/generation_manager.h"
#include "server/core/rank.h"
#include "server/supervisor/rank_pool.h"

namespace ferry {

// The generation manager as the supervisor sees it. `manager` must outlive it.
// Thread-safe.
class GenerationManagerPool final : public RankPool {
 public:
  explicit GenerationManagerPool(GenerationManager& manager)
      : manager_(manager) {}

  void add_rank(const std::string& pipeline,
                std::shared_ptr<Rank> rank) override {
    manager_.add_rank(pipeline, std::move(rank));
  }
  void remove_rank(const std::string& pipeline,
                   const std::shared_ptr<Rank>& rank) override {
    manager_.remove_rank(pipeline, rank);
  }
  void fail_queued(const std::string& pipeline,
                   const absl::Status& error) override {
    manager_.fail_queued(pipeline, error);
  }

 private:
  GenerationManager& manager_;
};

}  // namespace ferry
