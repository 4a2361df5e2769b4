#include "server/supervisor/ask_flight_records.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "platform/base/error_info.h"
#include "server/core/rpc_status.h"

namespace ferry {
namespace {

using Answer = absl::StatusOr<worker::v1::GetFlightRecordsResponse>;

Answer ask(GrpcRank* rank, std::chrono::system_clock::time_point deadline) {
  if (rank == nullptr) return absl::UnavailableError("is not connected yet");
  return rank->flight_records(deadline);
}

// One clause about the rank.
absl::Status explain(const absl::Status& error, absl::Duration timeout) {
  if (absl::IsDeadlineExceeded(error)) {
    return make_error(
        absl::StatusCode::kDeadlineExceeded,
        absl::StrCat("did not answer within ", absl::FormatDuration(timeout)),
        {"RANK_SILENT", {}});
  }
  return make_error(error.code(), error.message(), {"RANK_UNREACHABLE", {}});
}

}  // namespace

v1::GetFlightRecordsResponse ask_flight_records(const GroupConnections& group,
                                                absl::Duration timeout) {
  const auto deadline =
      std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout);
  std::vector<Answer> answers(group.ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < group.ranks.size(); ++i) {
    threads.emplace_back([&answers, &group, deadline, i] {
      answers[i] = ask(group.ranks[i].get(), deadline);
    });
  }
  for (std::thread& thread : threads) thread.join();

  v1::GetFlightRecordsResponse response;
  response.set_generation(group.generation);
  for (Answer& answer : answers) {
    v1::RankFlightRecords& rank = *response.add_ranks();
    rank.set_index(response.ranks_size() - 1);
    if (answer.ok()) {
      *rank.mutable_groups() = std::move(*answer->mutable_groups());
    } else {
      *rank.mutable_error() = to_rpc_status(explain(answer.status(), timeout));
    }
  }
  return response;
}

}  // namespace ferry
