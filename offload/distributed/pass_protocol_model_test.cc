// Two and three ranks' PassProtocols against each other, through every
// interleaving of their threads, the coordinator and the messages between.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "offload/distributed/pass_protocol.h"

namespace ferry {
namespace {

constexpr int kNone = PassProtocol::kNone;

// What a step thread does, a letter a stage:
//   a b   a pass of component 0 or 1, every block
//   s     a pass of component 0 that skips its first block
//   z     a pass of component 0 that runs none
//   c     as a, and the request may be cancelled while it waits or between its
//         blocks: then the program ends
//   e     as a, and its last block is called twice: the request fails
//   .     a stage without a word to the protocol: between two steps
//   L     a stage that withdraws first: encode, decode
using Program = std::string;

int component_of(char stage) { return stage == 'b' ? 1 : 0; }

struct Scenario {
  std::vector<Program> programs;
  std::vector<int> blocks = {2, 1};
  int slots = 1;
  // What ranks may predict, any of them each time.
  std::vector<int> predictions = {kNone, 0, 1};
  // Waves that the coordinator starts though nobody wants one.
  int superfluous_waves = 0;
};

enum class Phase { kAtStage, kAsking, kBetweenBlocks, kWaiting, kRunning };

struct Rank {
  PassProtocol protocol;
  size_t stage = 0;
  Phase phase = Phase::kAtStage;
  // Of the pass that is computed: the next of the blocks that it runs.
  size_t next = 0;
  bool withdrawn = true;
  // Gathers that it has begun, and votes that have ended for it.
  size_t gathers = 0;
  size_t votes = 0;
  bool is_voting = false;
  // The pass that it may have to yield, when the device has made this gather.
  std::optional<int64_t> yielding = std::nullopt;
  size_t awaited_gather = 0;
  // WaveWanted on its way, and the last StartWave that arrived.
  std::optional<int64_t> wave_wanted = std::nullopt;
  int64_t wave_seen = 0;
};

struct State {
  std::vector<Rank> ranks;
  int64_t last_wave = 0;
  int superfluous_left = 0;
  // Component and block of every gather that any rank began, and where each
  // pass starts.
  std::vector<std::pair<int, int>> log;
  std::vector<size_t> pass_starts;
  struct Vote {
    // A bit for each component.
    uint64_t wanted = 0;
    size_t given = 0;
  };
  std::vector<Vote> votes;

  std::string fingerprint() const {
    std::string text = absl::StrCat(last_wave, "/", superfluous_left);
    for (const Rank& rank : ranks) {
      absl::StrAppend(&text, "|", rank.protocol.fingerprint(), "/", rank.stage,
                      ",", static_cast<int>(rank.phase), ",", rank.next, ",",
                      rank.withdrawn, ",", rank.gathers, ",", rank.votes, ",",
                      rank.is_voting, ",", rank.yielding.value_or(-1), ",",
                      rank.awaited_gather, ",", rank.wave_wanted.value_or(-1),
                      ",", rank.wave_seen);
    }
    for (const Vote& vote : votes) {
      absl::StrAppend(&text, "|", vote.wanted, ",", vote.given);
    }
    return text;
  }
};

// No scenario here comes near.
constexpr size_t kMaxStates = 2'000'000;

size_t explored = 0;

class Model {
 public:
  explicit Model(Scenario scenario) : scenario_(std::move(scenario)) {}

  // Returns what is wrong, or nothing.
  std::string explore() {
    State start;
    for (size_t i = 0; i < scenario_.programs.size(); ++i) {
      start.ranks.push_back(
          Rank{PassProtocol(scenario_.blocks, scenario_.slots)});
    }
    start.superfluous_left = scenario_.superfluous_waves;
    add(start);
    while (!todo_.empty()) {
      const auto [state, index] = std::move(todo_.front());
      todo_.pop_front();
      current_ = index;
      const size_t before = edges_.size();
      step(state);
      if (numbers_.size() > kMaxStates) return "ranks never come to an end";
      if (!problem_.empty()) return problem_;
      if (edges_.size() == before && !is_done(state)) {
        return absl::StrCat("stuck in ", state.fingerprint());
      }
    }
    return find_cycle();
  }

  size_t states() const { return numbers_.size(); }

 private:
  void add(const State& state) {
    const auto [it, is_new] =
        numbers_.try_emplace(state.fingerprint(), numbers_.size());
    if (is_new) todo_.emplace_back(state, it->second);
    if (current_) edges_.emplace_back(*current_, it->second);
  }

  // Whether everything has ended as it must.
  bool is_done(const State& state) const {
    for (size_t i = 0; i < state.ranks.size(); ++i) {
      const Rank& rank = state.ranks[i];
      if (rank.stage < scenario_.programs[i].size()) return false;
      if (!rank.protocol.is_idle()) return false;
      if (rank.wave_seen != state.last_wave) return false;
      if (rank.gathers != state.log.size()) return false;
    }
    return true;
  }

  // No starvation: were there a cycle, somebody could wait for ever.
  std::string find_cycle() const {
    std::vector<int> into(numbers_.size());
    std::vector<std::vector<size_t>> out(numbers_.size());
    for (const auto& [from, to] : edges_) {
      out[from].push_back(to);
      ++into[to];
    }
    std::vector<size_t> ready = {0};
    size_t seen = 0;
    while (!ready.empty()) {
      const size_t state = ready.back();
      ready.pop_back();
      ++seen;
      for (const size_t to : out[state]) {
        if (--into[to] == 0) ready.push_back(to);
      }
    }
    return seen == numbers_.size() ? "" : "ranks can go round in circles";
  }

  void step(const State& state) {
    for (size_t i = 0; i < state.ranks.size(); ++i) {
      if (moves_alone(state, i)) return;
    }
    for (size_t i = 0; i < state.ranks.size(); ++i) {
      step_thread(state, i);
      transport_thread(state, i);
      messages(state, i);
    }
    if (state.superfluous_left > 0) {
      State next = state;
      --next.superfluous_left;
      ++next.last_wave;
      add(next);
    }
  }

  // Partial-order reduction: makes a move of rank i that commutes with all that
  // anybody else can do, if there is one. Then no other order needs a look.
  // Asking, withdrawing, failing, votes and the start of a pass do not commute.
  bool moves_alone(const State& state, size_t i) {
    const Rank& rank = state.ranks[i];
    const size_t before = edges_.size();
    const char stage = stage_of(state, i);
    const bool ended = stage == '\0' && rank.withdrawn;
    if (rank.phase != Phase::kAtStage && stage != 'c' && stage != 'e') {
      step_thread(state, i);
    }
    if (edges_.size() == before && (ended || gathers_on(rank))) {
      transport_thread(state, i);
    }
    if (edges_.size() == before) send_wave_wanted(state, i);
    if (edges_.size() == before && rank.wave_wanted &&
        *rank.wave_wanted < state.last_wave) {
      receive_wave_wanted(state, i);
    }
    if (edges_.size() == before && !rank.protocol.is_idle()) {
      receive_start_wave(state, i);
    }
    return edges_.size() > before;
  }

  // Whether the transport's next move is a gather after which the pass goes on.
  static bool gathers_on(const Rank& rank) {
    PassProtocol protocol = rank.protocol;
    if (rank.is_voting || rank.yielding) return false;
    if (!protocol.is_gathering()) {
      if (protocol.next().kind != PassProtocol::WorkKind::kGather) return false;
      protocol.begin_gather();
    }
    protocol.end_gather();
    return protocol.passes() == rank.protocol.passes();
  }

  char stage_of(const State& state, size_t i) const {
    const size_t stage = state.ranks[i].stage;
    const Program& program = scenario_.programs[i];
    return stage < program.size() ? program[stage] : '\0';
  }

  std::vector<int> blocks_of(char stage) const {
    std::vector<int> blocks;
    const int count =
        scenario_.blocks[static_cast<size_t>(component_of(stage))];
    const int first = stage == 's' ? 1 : stage == 'z' ? count : 0;
    for (int block = first; block < count; ++block) blocks.push_back(block);
    if (stage == 'e') blocks.push_back(count - 1);
    return blocks;
  }

  void with(const State& state, size_t i,
            const std::function<void(State&, Rank&)>& change) {
    State next = state;
    change(next, next.ranks[i]);
    add(next);
  }

  void cancel(const State& state, size_t i) {
    with(state, i, [&](State&, Rank& rank) {
      rank.protocol.withdraw();
      rank.withdrawn = true;
      rank.stage = scenario_.programs[i].size();
      rank.phase = Phase::kAtStage;
    });
  }

  void step_thread(const State& state, size_t i) {
    const Rank& rank = state.ranks[i];
    const char stage = stage_of(state, i);
    switch (rank.phase) {
      case Phase::kAtStage:
        begin_stage(state, i, stage);
        return;
      case Phase::kAsking:
        if (rank.protocol.is_granted()) {
          with(state, i, [](State&, Rank& mine) {
            mine.phase = Phase::kBetweenBlocks;
            mine.next = 0;
          });
        }
        if (stage == 'c') cancel(state, i);
        return;
      case Phase::kBetweenBlocks:
        between_blocks(state, i, stage);
        return;
      case Phase::kWaiting:
        if (rank.protocol.wanted_slot()) {
          with(state, i, [](State&, Rank& mine) {
            mine.protocol.begin_use();
            mine.phase = Phase::kRunning;
          });
        }
        return;
      case Phase::kRunning:
        if (!has_arrived(state, gather_of(state, rank.protocol.granted_pass(),
                                          blocks_of(stage)[rank.next]))) {
          return;
        }
        with(state, i, [](State&, Rank& mine) {
          mine.protocol.end_use();
          ++mine.next;
          mine.phase = Phase::kBetweenBlocks;
        });
        return;
    }
  }

  void begin_stage(const State& state, size_t i, char stage) {
    if (stage == '\0' && state.ranks[i].withdrawn) return;
    if (stage == '\0' || stage == 'L') {
      with(state, i, [&](State&, Rank& rank) {
        rank.protocol.withdraw();
        rank.withdrawn = true;
        if (stage == 'L') ++rank.stage;
      });
    } else if (stage == '.') {
      with(state, i, [](State&, Rank& rank) { ++rank.stage; });
    } else {
      for (const int prediction : scenario_.predictions) {
        with(state, i, [&](State&, Rank& rank) {
          rank.protocol.ask(component_of(stage), prediction);
          rank.withdrawn = false;
          rank.phase = Phase::kAsking;
        });
      }
    }
  }

  void between_blocks(const State& state, size_t i, char stage) {
    const std::vector<int> blocks = blocks_of(stage);
    const size_t next_block = state.ranks[i].next;
    if (stage == 'c') cancel(state, i);
    if (next_block == blocks.size()) {
      with(state, i, [](State&, Rank& rank) {
        rank.protocol.end_pass();
        ++rank.stage;
        rank.phase = Phase::kAtStage;
      });
      return;
    }
    PassProtocol protocol = state.ranks[i].protocol;
    if (!protocol.want_block(blocks[next_block]).ok()) {
      if (stage != 'e') problem_ = "a block was refused";
      cancel(state, i);
      return;
    }
    with(state, i, [&](State&, Rank& rank) {
      rank.protocol = protocol;
      rank.phase = Phase::kWaiting;
    });
  }

  // The place of a block of a pass among all gathers.
  static size_t gather_of(const State& state, int64_t pass, int block) {
    return state.pass_starts[static_cast<size_t>(pass - 1)] +
           static_cast<size_t>(block);
  }

  // The device has made a gather when all ranks have given their part.
  static bool has_arrived(const State& state, size_t gather) {
    return std::all_of(
        state.ranks.begin(), state.ranks.end(),
        [gather](const Rank& rank) { return rank.gathers > gather; });
  }

  void transport_thread(const State& state, size_t i) {
    const Rank& rank = state.ranks[i];
    if (rank.is_voting) {
      end_vote(state, i);
      return;
    }
    if (rank.yielding) {
      if (!has_arrived(state, rank.awaited_gather)) return;
      with(state, i, [](State&, Rank& mine) {
        mine.protocol.yield(*mine.yielding);
        mine.yielding.reset();
        mine.awaited_gather = 0;
      });
      return;
    }
    if (rank.protocol.is_gathering()) {
      with(state, i, [](State&, Rank& mine) { mine.protocol.end_gather(); });
      return;
    }
    const PassProtocol::Work work = rank.protocol.next();
    if (work.kind == PassProtocol::WorkKind::kVote) {
      with(state, i, [](State& next, Rank& mine) {
        if (next.votes.size() == mine.votes) next.votes.emplace_back();
        State::Vote& vote = next.votes[mine.votes];
        const int wanted = mine.protocol.begin_vote();
        if (wanted != kNone) vote.wanted |= uint64_t{1} << wanted;
        ++vote.given;
        mine.is_voting = true;
      });
    } else if (work.kind == PassProtocol::WorkKind::kGather) {
      with(state, i, [&](State& next, Rank& mine) {
        mine.protocol.begin_gather();
        enter_log(work, next, mine);
      });
    } else if (work.kind == PassProtocol::WorkKind::kYield) {
      with(state, i, [&](State& next, Rank& mine) {
        mine.yielding = mine.protocol.passes();
        mine.awaited_gather = gather_of(next, *mine.yielding, work.block);
      });
    }
  }

  void end_vote(const State& state, size_t i) {
    const State::Vote& vote = state.votes[state.ranks[i].votes];
    if (vote.given < state.ranks.size()) return;
    std::vector<int> wanted;
    for (size_t c = 0; c < scenario_.blocks.size(); ++c) {
      if ((vote.wanted >> c & 1) != 0) wanted.push_back(static_cast<int>(c));
    }
    with(state, i, [&](State&, Rank& mine) {
      mine.protocol.end_vote(wanted);
      mine.is_voting = false;
      ++mine.votes;
    });
  }

  void enter_log(const PassProtocol::Work& work, State& next, Rank& mine) {
    const std::pair<int, int> gather = {work.component, work.block};
    const auto pass = static_cast<size_t>(mine.protocol.passes());
    if (next.pass_starts.size() < pass) {
      next.pass_starts.push_back(mine.gathers);
    }
    if (mine.gathers == next.log.size()) {
      next.log.push_back(gather);
    } else if (next.log[mine.gathers] != gather) {
      problem_ = "ranks make different collectives";
    }
    ++mine.gathers;
  }

  void messages(const State& state, size_t i) {
    send_wave_wanted(state, i);
    receive_wave_wanted(state, i);
    receive_start_wave(state, i);
  }

  void send_wave_wanted(const State& state, size_t i) {
    PassProtocol protocol = state.ranks[i].protocol;
    const std::optional<int64_t> wave = protocol.take_wave_wanted();
    if (!wave) return;
    with(state, i, [&](State&, Rank& rank) {
      rank.protocol = protocol;
      rank.wave_wanted = wave;
    });
  }

  void receive_wave_wanted(const State& state, size_t i) {
    if (!state.ranks[i].wave_wanted) return;
    with(state, i, [](State& next, Rank& rank) {
      if (*rank.wave_wanted == next.last_wave) ++next.last_wave;
      rank.wave_wanted.reset();
    });
  }

  void receive_start_wave(const State& state, size_t i) {
    if (state.ranks[i].wave_seen == state.last_wave) return;
    with(state, i, [](State&, Rank& rank) {
      rank.protocol.start_wave(++rank.wave_seen);
    });
  }

  const Scenario scenario_;
  absl::flat_hash_map<std::string, size_t> numbers_;
  std::deque<std::pair<State, size_t>> todo_;
  std::vector<std::pair<size_t, size_t>> edges_;
  std::optional<size_t> current_;
  std::string problem_;
};

// Prints the number of states, so that a model that explores nothing is seen.
void expect_sound(const Scenario& scenario) {
  Model model(scenario);
  EXPECT_EQ(model.explore(), "") << absl::StrJoin(scenario.programs, " | ")
                                 << ", slots " << scenario.slots;
  explored += model.states();
}

// Each test prints how much it saw.
class PassProtocolModelTest : public testing::Test {
 protected:
  void TearDown() override {
    std::printf("%zu states\n", std::exchange(explored, 0));
  }
};

TEST_F(PassProtocolModelTest, AnyTwoProgramsEnd) {
  const std::vector<Program> programs = {"", "a", "Lb", "as", "z", "ab"};
  for (size_t i = 0; i < programs.size(); ++i) {
    for (size_t j = i; j < programs.size(); ++j) {
      for (const int slots : {1, 2}) {
        Scenario scenario;
        scenario.programs = {programs[i], programs[j]};
        scenario.slots = slots;
        expect_sound(scenario);
      }
    }
  }
}

TEST_F(PassProtocolModelTest, RequestsThatEndAnywhereLeaveNobodyWaiting) {
  for (const Program& ends : {"ca", "ac", "ea"}) {
    for (const Program& other : {"", "a", "Lb", "e"}) {
      Scenario scenario;
      scenario.programs = {ends, other};
      scenario.slots = 2;
      expect_sound(scenario);
    }
  }
}

TEST_F(PassProtocolModelTest, WavesThatNobodyWantedAreEmptyVotes) {
  for (const Program& program : {"", "a", "Lb", "c"}) {
    Scenario scenario;
    scenario.programs = {program, "a"};
    scenario.superfluous_waves = 1;
    expect_sound(scenario);
  }
}

TEST_F(PassProtocolModelTest, APassOfMoreBlocksThanSlots) {
  for (const int slots : {2, 3}) {
    Scenario scenario;
    scenario.programs = {"a.a", "ba"};
    scenario.blocks = {slots + 2, slots + 1};
    scenario.slots = slots;
    scenario.predictions = {kNone, 0};
    expect_sound(scenario);
  }
}

TEST_F(PassProtocolModelTest, AnyThreeProgramsEnd) {
  for (const Program& first : {"", "z"}) {
    for (const Program& second : {"b", "c"}) {
      Scenario scenario;
      scenario.programs = {first, second, "a"};
      scenario.blocks = {1, 1};
      scenario.predictions = {kNone, 0};
      expect_sound(scenario);
    }
  }
}

}  // namespace
}  // namespace ferry
