#include "server/supervisor/log_drain.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/os/pipe.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoppedClock final : public Clock {
 public:
  absl::Time now() const override { return absl::UnixEpoch(); }
  absl::Duration monotonic() const override { return absl::Hours(1); }
};

std::vector<std::string> split(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  const auto sink = [&](std::string line) { lines.push_back(line); };
  for (const std::string& piece : pieces) splitter.add(piece, sink);
  splitter.finish(sink);
  return lines;
}

TEST(LineSplitterTest, CutsAtNewlines) {
  EXPECT_THAT(split({"on", "e\ntw", "o\r\n\nrest"}),
              ElementsAre("one", "two", "", "rest"));
}

TEST(LineSplitterTest, EscapesWhatWouldForgeOrBreakALine) {
  EXPECT_THAT(split({"a\x1b[31mb\n"}), ElementsAre("a\\u001b[31mb"));
  EXPECT_THAT(split({"bad \xff\xfe\n"}), ElementsAre("bad \\xff\\xfe"));
  EXPECT_THAT(split({"gr\xc3\xbc\xc3\x9f"}), ElementsAre("gr\xc3\xbc\xc3\x9f"));
}

TEST(LineSplitterTest, BoundsALineAndSaysWhatIsMissing) {
  const std::vector<std::string> lines =
      split({std::string(LineSplitter::kMaxBytes, 'x'), "12345\nnext\n"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("x … (5 bytes more)"));
  EXPECT_LT(lines[0].size(), LineSplitter::kMaxBytes + 64);
  EXPECT_EQ(lines[1], "next");
}

TEST(LineBudgetTest, AllowsABurstThenARate) {
  LineBudget budget;
  const absl::Duration start = absl::Hours(1);
  for (int i = 0; i < LineBudget::kBurst; ++i) {
    ASSERT_TRUE(budget.take(start)) << i;
  }
  EXPECT_FALSE(budget.take(start));
  EXPECT_FALSE(budget.take(start));
  EXPECT_TRUE(budget.take(start + absl::Milliseconds(15)));
  EXPECT_EQ(budget.take_dropped(), 2);
  EXPECT_EQ(budget.take_dropped(), 0);
}

class LogDrainTest : public ::testing::Test {
 protected:
  void feed(int fd, const std::string& text) {
    size_t offset = 0;
    while (offset < text.size()) {
      const ssize_t size =
          write(fd, text.data() + offset, text.size() - offset);
      ASSERT_GT(size, 0);
      offset += static_cast<size_t>(size);
    }
  }

  StoppedClock clock_;
  // Written by the drain's thread; read once it has been joined.
  std::vector<std::string> lines_;
  std::unique_ptr<LogDrain> drain_ = std::make_unique<LogDrain>(
      [this](const LogDrain::Source& source, absl::string_view line) {
        lines_.push_back(
            absl::StrCat(source.pipeline, "/", source.rank, ": ", line));
      },
      clock_);
};

TEST_F(LogDrainTest, ReadsAllWorkersAndKeepsTheirTails) {
  Pipe one = *make_pipe();
  Pipe two = *make_pipe();
  const auto tail_one =
      drain_->add({"pipelines/a", 0}, std::move(one.read_end));
  const auto tail_two =
      drain_->add({"pipelines/b", 1}, std::move(two.read_end));
  feed(one.write_end.get(), "first\nlast");
  one.write_end.reset();
  tail_one->wait_closed(absl::Seconds(30));
  EXPECT_THAT(tail_one->lines(), ElementsAre("first", "last"));
  for (int i = 0; i < 30; ++i) {
    feed(two.write_end.get(), absl::StrCat("line ", i, "\n"));
  }
  two.write_end.reset();
  tail_two->wait_closed(absl::Seconds(30));
  EXPECT_EQ(tail_two->lines().size(), LogTail::kLines);
  EXPECT_EQ(tail_two->lines().front(), "line 10");
  drain_.reset();
  ASSERT_EQ(lines_.size(), 32u);
  EXPECT_EQ(lines_[0], "pipelines/a/0: first");
  EXPECT_EQ(lines_[2], "pipelines/b/1: line 0");
}

TEST_F(LogDrainTest, AFloodIsDroppedAndCountedButNeverBlocks) {
  Pipe pipe = *make_pipe();
  const auto tail = drain_->add({"p", 0}, std::move(pipe.read_end));
  constexpr int kLines = 20000;
  for (int i = 0; i < kLines; ++i) {
    feed(pipe.write_end.get(), absl::StrCat("line ", i, "\n"));
  }
  pipe.write_end.reset();
  tail->wait_closed(absl::Seconds(60));
  EXPECT_EQ(tail->lines().back(), absl::StrCat("line ", kLines - 1));
  drain_.reset();
  ASSERT_EQ(lines_.size(), static_cast<size_t>(LineBudget::kBurst) + 1);
  EXPECT_EQ(lines_.back(), "p/0: (19000 lines dropped)");
}

}  // namespace
}  // namespace ferry
