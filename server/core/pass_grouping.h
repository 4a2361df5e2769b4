#pragma once

#include <cstddef>
#include <vector>

namespace ferry {

// Which waiting job a rank takes that becomes free in a group whose ranks make
// each pass together (ARCHITECTURE.md, "Life of a pass"). The slowest rank
// paces all, so a small picture beside a large one takes as long as that: jobs
// of about the same work per pass shall run at the same time.
//
// The rule: whatever is nearest to the job that was started last, in the ratio
// of their works; among equals the first to have arrived. A job that has been
// overtaken kMaxOvertakenPerRank × ranks times is next, and what was like the
// last one waits then. So the group works off one kind after the other, each
// for some rounds, and nobody starves. (To go by the largest that runs would
// keep the small ones apart from each other: each is slowed by large ones when
// its turn has come, and the next one to be taken is a large one again.)
//
// In the model of pass_grouping_test, where a pass takes as long as its largest
// member, a full queue of pictures of works 1 and 8, in turns, gives this many
// times the jobs per second of the order of arrival:
//
//   overtaken at most         ranks   2 × ranks   4 × ranks   8 × ranks
//   20 steps each, 4 ranks     1.78        1.78        1.78        1.78
//   10 to 30 steps, 4 ranks    1.38        1.53        1.66        1.65
//   10 to 30 steps, 8 ranks    1.27        1.50        1.56        1.56
//
// Twice for each rank, two rounds of the group, is most of the gain. With the
// largest that runs in place of the last one started it would be 1.23 for four
// ranks and 1.02 for eight.

// One that waits, of those of the same priority.
struct WaitingPass {
  // GenerationWork::pass.
  double work = 1;
  // How often one that arrived later was taken before it.
  int overtaken = 0;
};

constexpr int kMaxOvertakenPerRank = 2;

// Works that differ by less than this factor are equal: to be slowed by so
// little is better than to be overtaken.
constexpr double kEqualWork = 1.25;

// Returns the index of the one to take. `waiting`: in order of arrival; when
// one is taken, those before it have been overtaken once more. `last_work`:
// work of the job that was started last. REQUIRES: !waiting.empty().
//
// None is overtaken more often than `max_overtaken` times: an earlier one has
// been at least as often as those after it, so the first one's turn comes
// before anybody passes the bound.
size_t choose_by_pass(const std::vector<WaitingPass>& waiting, double last_work,
                      int max_overtaken);

}  // namespace ferry
