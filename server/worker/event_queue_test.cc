#include "server/worker/event_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/time/time.h"

namespace ferry {
namespace {

using worker::v1::RunGenerationResponse;
using Popped = EventQueue::Popped;

constexpr absl::Duration kGenerous = absl::Minutes(1);

RunGenerationResponse chunk(const std::string& data) {
  RunGenerationResponse event;
  event.mutable_output_chunk()->set_data(data);
  return event;
}

TEST(EventQueue, HandsEventsOverInOrderAndThenTheEnd) {
  EventQueue queue(1 << 20);
  RunGenerationResponse event;
  EXPECT_EQ(queue.pop(absl::ZeroDuration(), &event), Popped::kNothingYet);
  queue.push(chunk("a"));
  queue.push(chunk("b"));
  queue.finish(absl::DataLossError("odd"));
  for (const char* data : {"a", "b"}) {
    ASSERT_EQ(queue.pop(kGenerous, &event), Popped::kEvent);
    EXPECT_EQ(event.output_chunk().data(), data);
  }
  EXPECT_EQ(queue.pop(kGenerous, &event), Popped::kEnd);
  EXPECT_EQ(queue.status(), absl::DataLossError("odd"));
}

TEST(EventQueue, AWriterWaitsForRoomUntilNobodyReads) {
  EventQueue queue(1);
  std::thread writer([&] {
    for (const char* data : {"a", "b", "c", "d"}) queue.push(chunk(data));
    queue.finish(absl::OkStatus());
  });
  RunGenerationResponse event;
  ASSERT_EQ(queue.pop(kGenerous, &event), Popped::kEvent);
  queue.abandon();
  writer.join();
  EXPECT_EQ(queue.pop(kGenerous, &event), Popped::kEnd);
  EXPECT_TRUE(queue.status().ok());
}

TEST(EventQueueDeathTest, NothingComesAfterTheEnd) {
  EventQueue queue(1 << 20);
  queue.push(chunk("a"));
  EXPECT_DEATH((void)queue.status(), "check failed: finished_");
  queue.finish(absl::OkStatus());
  EXPECT_DEATH((void)queue.status(), "events_.empty");
  EXPECT_DEATH(queue.push(chunk("b")), "check failed: !finished_");
  EXPECT_DEATH(queue.finish(absl::OkStatus()), "check failed: !finished_");
}

}  // namespace
}  // namespace ferry
