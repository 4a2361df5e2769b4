// What ferryctl shows: errors, values, tables, progress; and how it puts
// outputs together.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "client/error_report.h"
#include "client/exit_codes.h"
#include "client/flight_records_text.h"
#include "client/offload_text.h"
#include "client/output_collector.h"
#include "client/progress_display.h"
#include "client/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "platform/base/sha256.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class StoppedClock final : public Clock {
 public:
  absl::Time now() const override { return absl::UnixEpoch() + time; }
  absl::Duration monotonic() const override { return time; }
  absl::Duration time;
};

grpc::Status error_with(grpc::StatusCode code, const std::string& message,
                        const google::rpc::Status& details) {
  return grpc::Status(code, message, details.SerializeAsString());
}

TEST(ErrorReportTest, SaysCodeReasonAndMessage) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason("JOB_NOT_FOUND");
  details.add_details()->PackFrom(info);
  std::ostringstream err;
  EXPECT_EQ(report_error(error_with(grpc::StatusCode::NOT_FOUND,
                                    "no job is named jobs/1", details),
                         &err),
            kServerError + 5);
  EXPECT_EQ(err.str(), "NOT_FOUND JOB_NOT_FOUND: no job is named jobs/1\n");
}

TEST(ErrorReportTest, ListsFieldsAndTheRetryDelay) {
  google::rpc::Status details;
  google::rpc::BadRequest request;
  for (const char* field : {"spec.height", "spec.seed"}) {
    auto* violation = request.add_field_violations();
    violation->set_field(field);
    violation->set_description("must be positive");
  }
  details.add_details()->PackFrom(request);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(90);
  details.add_details()->PackFrom(retry);
  EXPECT_EQ(describe_error(error_with(grpc::StatusCode::INVALID_ARGUMENT,
                                      "2 fields are wrong", details)),
            "INVALID_ARGUMENT: 2 fields are wrong\n"
            "  spec.height: must be positive\n"
            "  spec.seed: must be positive\n"
            "  try again in 1m30s");
}

TEST(ErrorReportTest, TakesErrorsOfGrpcItselfAndEscapesThem) {
  const grpc::Status status(grpc::StatusCode::UNAVAILABLE, "gone\x1b[2J\nfine");
  EXPECT_EQ(describe_error(status), "UNAVAILABLE: gone\\u001b[2J\\nfine");
}

v1::OffloadReport streaming_report() {
  v1::OffloadReport report;
  report.set_strategy("layer_wise");
  report.set_reason("asked for");
  report.set_policy("strategy layer_wise");
  report.set_device("cuda:0");
  report.set_slots(2);
  report.set_resident_bytes(1 << 20);
  report.set_streamed_bytes(8 << 20);
  report.set_device_bytes(3 << 20);
  report.set_host_bytes(9 << 20);
  report.set_host_memory("pinned");
  report.set_total_h2d_bytes(int64_t{80} << 20);
  report.set_h2d_gbps(23.456);
  report.mutable_total_exposed_stall()->set_nanos(12345678);
  report.mutable_total_first_block_stall()->set_nanos(45678);
  report.set_total_demand_fetches(3);
  v1::WrittenState& steps = *report.add_written_state();
  steps.set_path("transformer.steps");
  steps.set_bytes(4096);
  steps.set_reason("written by aten::add_ in transformer.forward");
  v1::WrittenState& calls = *report.add_written_state();
  calls.set_path("vae.calls");
  calls.set_reason("written by prim::SetAttr in forward");
  report.set_written_count(5);
  v1::ComponentReport& dit = *report.add_components();
  dit.set_path("transformer");
  dit.set_role("dit");
  dit.set_placement("streamed");
  dit.set_blocks(8);
  dit.set_resident_blocks(2);
  dit.set_bytes(9 << 20);
  dit.add_notes("transformer.steps is written");
  report.add_notes("one encoder declares no blocks");
  v1::HeldWeights& held = *report.add_held_weights();
  held.set_path("transformer.blocks.1.weight");
  held.set_bytes(4096);
  held.set_reason("is used by transformer and vae");
  report.set_held_count(3);
  report.set_held_bytes(4096 + 100);
  v1::ComponentReport& vae = *report.add_components();
  vae.set_path("vae");
  vae.set_role("vae");
  vae.set_placement("resident");
  vae.set_bytes(2048);
  return report;
}

TEST(OffloadTextTest, ShowsAReportWithoutSayingAnythingTwice) {
  const v1::OffloadReport report = streaming_report();
  EXPECT_EQ(table(offload_rows(report)),
            "offload        layer_wise: asked for\n"
            "policy         strategy layer_wise\n"
            "device         cuda:0\n"
            "device memory  3.0 MiB, 1.0 MiB of them resident, 2 slots\n"
            "host memory    9.0 MiB, pinned\n"
            "note           one encoder declares no blocks\n"
            "written        5 tensors and attributes; each generation begins "
            "with the package's\n"
            "streamed       8.0 MiB that come and go\n"
            "copied         80.0 MiB at 23.5 GB/s\n"
            "waited         12.3ms for weights, of that 0 for first blocks; 3 "
            "blocks came late\n");
  EXPECT_EQ(component_table(report),
            "COMPONENT    ROLE  PLACEMENT  BLOCKS  RESIDENT  BYTES\n"
            "transformer  dit   streamed   8       2         9.0 MiB\n"
            "vae          vae   resident   -       -         2.0 KiB\n"
            "stays: transformer.steps is written\n"
            "not streamed: transformer.blocks.1.weight, 4.0 KiB, is used by "
            "transformer and vae\n"
            "and 2 more, 100 bytes\n"
            "written: transformer.steps, 4.0 KiB, written by aten::add_ in "
            "transformer.forward\n"
            "written: vae.calls, written by prim::SetAttr in forward\n"
            "written: and 3 more\n");
}

TEST(OffloadTextTest, LeavesOutWhatThereIsNot) {
  v1::OffloadReport report;
  report.set_strategy("none");
  report.set_reason("not asked for");
  EXPECT_EQ(offload_rows(report).size(), 3u);
  EXPECT_EQ(component_table(report), "");
  EXPECT_TRUE(offload_rows(v1::Timings()).empty());
}

TEST(OffloadTextTest, ShowsWhatOneGenerationTook) {
  v1::Timings timings;
  timings.set_h2d_bytes(1 << 20);
  timings.mutable_exposed_stall()->set_seconds(1);
  EXPECT_EQ(table(offload_rows(timings)),
            "copied  1.0 MiB\n"
            "waited  1s for weights, of that 0 for first blocks; 0 blocks came "
            "late\n");
}

TEST(TextFormatTest, ShowsValuesShortly) {
  EXPECT_EQ(short_duration(absl::Milliseconds(3240)), "3.2s");
  EXPECT_EQ(short_duration(absl::Seconds(59)), "59s");
  EXPECT_EQ(short_duration(absl::Seconds(65)), "1m05s");
  EXPECT_EQ(short_duration(absl::Minutes(123)), "2h03m");
  EXPECT_EQ(fine_duration(absl::Microseconds(12345)), "12.3ms");
  EXPECT_EQ(short_bytes(512), "512 B");
  EXPECT_EQ(short_bytes(3 << 19), "1.5 MiB");
  EXPECT_EQ(state_name(v1::Job::STATE_SUCCEEDED), "succeeded");
  EXPECT_EQ(stage_name(v1::Progress::STAGE_TEXT_ENCODE), "text_encode");
  google::protobuf::Timestamp time;
  EXPECT_EQ(short_time(time), "-");
  time.set_seconds(86400);
  EXPECT_EQ(short_time(time), "1970-01-02T00:00:00Z");
  EXPECT_EQ(table({{"NAME", "STATE"}, {"jobs/1", "running"}}),
            "NAME    STATE\njobs/1  running\n");
}

v1::Progress step(int step) {
  v1::Progress progress;
  progress.set_stage(v1::Progress::STAGE_DENOISE);
  progress.set_step(step);
  progress.set_total_steps(20);
  return progress;
}

TEST(ProgressDisplayTest, WritesOneLineAnEventElsewhere) {
  StoppedClock clock;
  std::ostringstream err;
  ProgressDisplay display(&err, false, clock);
  v1::Job job;
  job.set_name("jobs/1");
  job.set_pipeline("pipelines/demo");
  job.set_state(v1::Job::STATE_QUEUED);
  display.on_job(job);
  v1::Progress queued;
  queued.set_queue_position(2);
  display.on_progress(queued);
  display.on_progress(step(1));
  clock.time = absl::Seconds(2);
  display.on_progress(step(9));
  display.end_line();
  EXPECT_EQ(err.str(),
            "jobs/1 on pipelines/demo\nqueued\nqueued, 2 ahead\n"
            "denoise 1/20\ndenoise 9/20, 4.0 steps/s, 2.8s left\n");
}

TEST(ProgressDisplayTest, DrawsABarOnATerminal) {
  StoppedClock clock;
  std::ostringstream err;
  ProgressDisplay display(&err, true, clock);
  display.on_progress(step(10));
  EXPECT_THAT(err.str(), EndsWith("denoise [############............] 10/20"));
  EXPECT_THAT(err.str(), Not(HasSubstr("\n")));
  display.end_line();
  EXPECT_THAT(err.str(), EndsWith("\n"));
  // Nothing is left to end.
  const std::string before = err.str();
  display.end_line();
  EXPECT_EQ(err.str(), before);
}

TEST(ProgressDisplayTest, BelievesTheServersEstimate) {
  StoppedClock clock;
  std::ostringstream err;
  ProgressDisplay display(&err, false, clock);
  v1::Progress progress = step(5);
  progress.mutable_eta()->set_seconds(70);
  display.on_progress(progress);
  EXPECT_EQ(err.str(), "denoise 5/20, 1m10s left\n");
}

v1::OutputChunk chunk(int index, int64_t offset, const std::string& data) {
  v1::OutputChunk result;
  result.set_index(index);
  result.set_offset(offset);
  result.set_data(data);
  return result;
}

v1::OutputChunk last_chunk(int index, int64_t offset, const std::string& data,
                           const std::string& whole) {
  v1::OutputChunk result = chunk(index, offset, data);
  result.mutable_final_info()->set_index(index);
  result.mutable_final_info()->set_size_bytes(
      static_cast<int64_t>(whole.size()));
  result.mutable_final_info()->set_sha256(sha256_hex(whole));
  return result;
}

TEST(FlightRecordsTextTest, HasALineForEachOperationAndEachError) {
  v1::GetFlightRecordsResponse response;
  v1::RankFlightRecords& first = *response.add_ranks();
  v1::GroupFlightRecords& weights = *first.add_groups();
  weights.set_group("weights");
  v1::FlightRecord& ended = *weights.add_records();
  ended.set_number(41);
  ended.set_kind("all_gather");
  ended.set_bytes(1048576);
  ended.set_state(v1::FlightRecord::STATE_ENDED);
  ended.mutable_age()->set_nanos(32'200'000);
  ended.mutable_waited()->set_nanos(11'000);
  ended.mutable_took()->set_nanos(1'204'999);
  v1::FlightRecord& waits = *weights.add_records();
  waits.set_number(42);
  waits.set_kind("all_gather");
  waits.set_state(v1::FlightRecord::STATE_ENQUEUED);
  waits.mutable_age()->set_seconds(30);
  v1::RankFlightRecords& second = *response.add_ranks();
  second.set_index(1);
  second.mutable_error()->set_code(
      static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED));
  second.mutable_error()->set_message("did not answer within 1s\x1b[2J");
  EXPECT_EQ(flight_records_text(response),
            "RANK  GROUP    NUMBER  OPERATION   BYTES    STATE     AGE     "
            "WAITED  TOOK\n"
            "0     weights  #41     all_gather  1048576  ended     32.2ms  "
            "11us    1.204ms\n"
            "0     weights  #42     all_gather  0        enqueued  30s     "
            "-       -\n"
            "rank 1: DEADLINE_EXCEEDED: did not answer within "
            "1s\\u001b[2J\n");
}

TEST(OutputCollectorTest, PutsChunksTogether) {
  OutputCollector collector;
  EXPECT_FALSE(collector.add(chunk(0, 0, "ab"))->has_value());
  EXPECT_FALSE(collector.add(chunk(1, 0, "x"))->has_value());
  const auto output = collector.add(last_chunk(0, 2, "c", "abc"));
  ASSERT_TRUE(output.ok()) << output.status();
  ASSERT_TRUE(output->has_value());
  EXPECT_EQ((*output)->data, "abc");
  EXPECT_EQ((*collector.add(last_chunk(1, 1, "y", "xy")))->data, "xy");
}

TEST(OutputCollectorTest, RefusesWhatIsNotWhatTheServerSays) {
  OutputCollector gap;
  EXPECT_EQ(gap.add(chunk(0, 5, "ab")).status().code(),
            absl::StatusCode::kDataLoss);
  OutputCollector size;
  EXPECT_THAT(
      std::string(size.add(last_chunk(0, 0, "ab", "abc")).status().message()),
      HasSubstr("got 2 bytes of 3"));
  OutputCollector hash;
  EXPECT_THAT(
      std::string(hash.add(last_chunk(3, 0, "abd", "abc")).status().message()),
      AllOf(HasSubstr("output 3"), HasSubstr("SHA-256")));
}

TEST(OutputPathTest, PutsTheIndexBeforeTheExtension) {
  EXPECT_EQ(output_path("fox.png", 0, 1), "fox.png");
  EXPECT_EQ(output_path("fox.png", 0, 2), "fox-0.png");
  EXPECT_EQ(output_path("a.b/fox", 1, 2), "a.b/fox-1");
  EXPECT_EQ(output_path("./.fox", 1, 2), "./.fox-1");
}

}  // namespace
}  // namespace ferry
