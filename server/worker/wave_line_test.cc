#include "server/worker/wave_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using testing::ElementsAre;

class RecordingParticipant final : public WaveParticipant {
 public:
  void start_wave(int64_t wave) override { waves.push_back(wave); }
  void set_wave_wanted(WaveWanted value) override { wanted = std::move(value); }

  std::vector<int64_t> waves;
  WaveWanted wanted;
};

TEST(WaveLine, GivesWhatWasStartedBeforeAndAfter) {
  WaveLine line;
  RecordingParticipant participant;
  ASSERT_TRUE(line.start(1).ok());
  ASSERT_TRUE(line.start(2).ok());
  line.attach(participant);
  EXPECT_THAT(participant.waves, ElementsAre(1, 2));
  ASSERT_TRUE(line.start(3).ok());
  EXPECT_THAT(participant.waves, ElementsAre(1, 2, 3));
  line.detach();
  EXPECT_EQ(participant.wanted, nullptr);
  ASSERT_TRUE(line.start(4).ok());
  EXPECT_THAT(participant.waves, ElementsAre(1, 2, 3));
}

TEST(WaveLine, WavesRiseByOne) {
  WaveLine line;
  EXPECT_EQ(line.start(0).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(line.start(2).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(line.start(1).ok());
  EXPECT_EQ(line.start(1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WaveLine, TellsTheLatestThatIsWanted) {
  WaveLine line;
  RecordingParticipant participant;
  line.attach(participant);
  participant.wanted(3);
  participant.wanted(2);
  EXPECT_EQ(line.next_wanted(), 3);
  participant.wanted(4);
  EXPECT_EQ(line.next_wanted(), 4);
  line.detach();
}

TEST(WaveLine, WaitsForAWantAndForTheEnd) {
  WaveLine line;
  RecordingParticipant participant;
  line.attach(participant);
  std::vector<int64_t> seen;
  std::thread reader([&] {
    while (const auto wanted = line.next_wanted()) seen.push_back(*wanted);
  });
  participant.wanted(5);
  std::thread closer([&] { line.close(); });
  reader.join();
  closer.join();
  // The end may come first.
  EXPECT_LE(seen.size(), 1u);
  participant.wanted(6);
  EXPECT_EQ(line.next_wanted(), std::nullopt);
  line.detach();
}

// As a backend does that tells while it is told.
TEST(WaveLine, AWantDuringAStartWaitsForNothing) {
  class Eager final : public WaveParticipant {
   public:
    void start_wave(int64_t wave) override { wanted_(wave); }
    void set_wave_wanted(WaveWanted wanted) override {
      wanted_ = std::move(wanted);
    }

   private:
    WaveWanted wanted_;
  };
  WaveLine line;
  Eager eager;
  line.attach(eager);
  for (int64_t wave = 1; wave <= 100; ++wave) {
    ASSERT_TRUE(line.start(wave).ok());
    EXPECT_EQ(line.next_wanted(), wave);
  }
  line.detach();
}

TEST(WaveLineDeathTest, OneParticipantAtATimeAndNoneThatIsLeft) {
  WaveLine line;
  RecordingParticipant participant;
  RecordingParticipant other;
  line.attach(participant);
  EXPECT_DEATH(line.attach(other), "check failed: participant_ == nullptr");
  EXPECT_DEATH(
      {
        WaveLine left;
        left.attach(other);
      },
      "check failed: participant_ == nullptr");
  line.detach();
  line.attach(other);
  line.detach();
}

}  // namespace
}  // namespace ferry
