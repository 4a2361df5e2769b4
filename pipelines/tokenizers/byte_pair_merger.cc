#include "pipelines/tokenizers/byte_pair_merger.h"

#include <map>
#include <queue>
#include <utility>

namespace ferry {
namespace {

// A symbol of the doubly linked list; empty once merged into its left one.
struct Symbol {
  absl::string_view text;
  bool frozen = false;
  int previous = -1;
  int next = -1;
};

struct Candidate {
  int left = 0;
  int right = 0;
  float score = 0;
  // Bytes of both; other ones mean that a symbol has changed since.
  size_t size = 0;

  // The queue's top is the largest.
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

class Merger {
 public:
  Merger(const std::vector<StartSymbol>& start,
         const std::function<std::optional<MergeRule>(absl::string_view)>&
             find_rule)
      : find_rule_(find_rule) {
    const int count = static_cast<int>(start.size());
    for (int i = 0; i < count; ++i) {
      symbols_.push_back(
          {start[i].text, start[i].frozen, i - 1, i + 1 < count ? i + 1 : -1});
    }
    for (int i = 1; i < count; ++i) consider(i - 1, i);
  }

  std::vector<absl::string_view> run() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (!is_stale(best)) merge(best);
    }
    std::vector<absl::string_view> pieces;
    for (int i = symbols_.empty() ? -1 : 0; i != -1; i = symbols_[i].next) {
      take_apart(symbols_[i].text, &pieces);
    }
    return pieces;
  }

 private:
  bool is_stale(const Candidate& candidate) const {
    const absl::string_view left = symbols_[candidate.left].text;
    const absl::string_view right = symbols_[candidate.right].text;
    return left.empty() || right.empty() ||
           left.size() + right.size() != candidate.size;
  }

  // Queues the pair if there is a rule for it.
  void consider(int left, int right) {
    if (left == -1 || right == -1) return;
    if (symbols_[left].frozen || symbols_[right].frozen) return;
    const absl::string_view merged(
        symbols_[left].text.data(),
        symbols_[left].text.size() + symbols_[right].text.size());
    const std::optional<MergeRule> rule = find_rule_(merged);
    if (!rule.has_value()) return;
    candidates_.push({left, right, rule->score, merged.size()});
    if (rule->unused) {
      parts_[merged] = {symbols_[left].text, symbols_[right].text};
    }
  }

  void merge(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.left];
    Symbol& right = symbols_[candidate.right];
    left.text = absl::string_view(left.text.data(), candidate.size);
    left.next = right.next;
    if (right.next != -1) symbols_[right.next].previous = candidate.left;
    right.text = absl::string_view();
    consider(left.previous, candidate.left);
    consider(candidate.left, left.next);
  }

  void take_apart(absl::string_view text,
                  std::vector<absl::string_view>* pieces) const {
    const auto parts = parts_.find(text);
    if (parts == parts_.end()) {
      pieces->push_back(text);
      return;
    }
    take_apart(parts->second.first, pieces);
    take_apart(parts->second.second, pieces);
  }

  const std::function<std::optional<MergeRule>(absl::string_view)>& find_rule_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
  // What unused pieces were made of.
  std::map<absl::string_view, std::pair<absl::string_view, absl::string_view>>
      parts_;
};

}  // namespace

std::vector<absl::string_view> merge_byte_pairs(
    const std::vector<StartSymbol>& start,
    const std::function<std::optional<MergeRule>(absl::string_view)>&
        find_rule) {
  return Merger(start, find_rule).run();
}

}  // namespace ferry
