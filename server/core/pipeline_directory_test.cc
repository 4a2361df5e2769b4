#include "server/core/pipeline_directory.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ferry {
namespace {

TEST(PipelineDirectoryTest, TheFirstOneIsTheDefault) {
  PipelineDirectory directory;
  EXPECT_FALSE(directory.find("").has_value());
  directory.add("pipelines/b");
  directory.add("pipelines/a");
  EXPECT_EQ(directory.find("")->name(), "pipelines/b");
  EXPECT_EQ(directory.find("pipelines/a")->state(),
            v1::Pipeline::STATE_LOADING);
  EXPECT_FALSE(directory.find("a").has_value());
  ASSERT_EQ(directory.list().size(), 2u);
  EXPECT_EQ(directory.list()[0].name(), "pipelines/a");
}

TEST(PipelineDirectoryTest, ListenersMayReadAndSeeEveryChangeInOrder) {
  PipelineDirectory directory;
  directory.add("pipelines/a");
  std::vector<int64_t> seen;
  directory.add_listener([&](const v1::Pipeline& pipeline) {
    EXPECT_EQ(directory.find("pipelines/a")->generation(),
              pipeline.generation());
    seen.push_back(pipeline.generation());
  });
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int n = 0; n < 25; ++n) {
        directory.update("pipelines/a", [](v1::Pipeline& pipeline) {
          pipeline.set_generation(pipeline.generation() + 1);
        });
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i + 1);
}

TEST(PipelineDirectoryTest, KeepsTheReportOfAPipelineThatIsReady) {
  PipelineDirectory directory;
  directory.add("pipelines/a");
  int changes = 0;
  directory.add_listener([&](const v1::Pipeline&) { ++changes; });
  v1::OffloadReport report;
  report.set_total_h2d_bytes(7);
  directory.set_offload("pipelines/a", 0, report);
  EXPECT_FALSE(directory.find("pipelines/a")->has_offload());
  directory.update("pipelines/a", [](v1::Pipeline& pipeline) {
    pipeline.set_state(v1::Pipeline::STATE_READY);
  });
  directory.set_offload("pipelines/a", 0, report);
  EXPECT_EQ(directory.find("pipelines/a")->offload().total_h2d_bytes(), 7);
  EXPECT_EQ(changes, 1);
}

TEST(PipelineDirectoryTest, ReportsOfRanksComeToOne) {
  PipelineDirectory directory;
  directory.add("pipelines/a");
  v1::OffloadReport report;
  report.set_host_bytes(100);
  directory.set_offloads("pipelines/a", {report, report, report});
  directory.update("pipelines/a", [](v1::Pipeline& pipeline) {
    pipeline.set_state(v1::Pipeline::STATE_READY);
  });
  report.set_total_h2d_bytes(7);
  directory.set_offload("pipelines/a", 2, report);
  directory.set_offload("pipelines/a", 0, report);
  EXPECT_EQ(directory.find("pipelines/a")->offload().host_bytes(), 300);
  EXPECT_EQ(directory.find("pipelines/a")->offload().total_h2d_bytes(), 14);
  // The next group begins at its own.
  directory.set_offloads("pipelines/a", {report});
  directory.set_offload("pipelines/a", 0, report);
  EXPECT_EQ(directory.find("pipelines/a")->offload().host_bytes(), 100);
}

TEST(PipelineDirectoryDeathTest, EndsTheProcessAtABrokenContract) {
  PipelineDirectory directory;
  directory.add("pipelines/a");
  const auto change = [](v1::Pipeline& /*pipeline*/) {};
  EXPECT_DEATH(directory.add("pipelines/a"), "check failed: is_new");
  EXPECT_DEATH(directory.update("pipelines/b", change),
               "found != pipelines_.end");
  EXPECT_DEATH(directory.set_offloads("pipelines/b", {}), "count\\(name\\)");
  EXPECT_DEATH(directory.set_offload("pipelines/b", 0, {}),
               "found != pipelines_.end");
  EXPECT_DEATH(directory.set_offload("pipelines/a", -1, {}),
               "rank >= 0 \\(-1 and 0\\)");
  directory.update("pipelines/a", change);
  EXPECT_DEATH(directory.add_listener([](const v1::Pipeline&) {}),
               "!has_changed_");
}

}  // namespace
}  // namespace ferry
