#include "server/core/job_registry.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "platform/base/check.h"
#include "platform/base/random_hex.h"
#include "platform/base/status_macros.h"
#include "server/core/errors.h"

namespace ferry {
namespace {

constexpr int kMaxPageSize = 1000;
constexpr int kDefaultPageSize = 50;
constexpr int64_t kMaxPageBytes = 512 << 10;
constexpr size_t kRememberedNames = 4096;
// Each wrong one makes a violation: a large request must not make millions.
constexpr int kMaxStates = 64;

struct ListQuery {
  int page_size = kDefaultPageSize;
  std::set<int> states;
  // Jobs with lower numbers only.
  int64_t before = INT64_MAX;
};

// The filter as text in page tokens.
std::string filter_text(const std::set<int>& states) {
  int bits = 0;
  for (const int state : states) bits |= 1 << state;
  return absl::StrFormat("%02x", bits);
}

absl::StatusOr<ListQuery> parse_query(const v1::ListJobsRequest& request,
                                      const std::string& incarnation) {
  std::vector<FieldViolation> violations;
  const auto invalid = [&](std::string field, std::string description) {
    violations.push_back({FieldViolation::Kind::kInvalid,
                          std::move(field),
                          std::move(description),
                          {}});
  };
  ListQuery query;
  if (request.page_size() < 0 || request.page_size() > kMaxPageSize) {
    invalid("page_size", absl::StrCat("must be 0 to ", kMaxPageSize, ", got ",
                                      request.page_size()));
  } else if (request.page_size() > 0) {
    query.page_size = request.page_size();
  }
  if (request.states_size() > kMaxStates) {
    invalid("states", absl::StrCat("must hold at most ", kMaxStates,
                                   " states, got ", request.states_size()));
    return field_errors(violations);
  }
  for (int i = 0; i < request.states_size(); ++i) {
    const v1::Job::State state = request.states(i);
    if (!v1::Job::State_IsValid(state) || state == v1::Job::STATE_UNSPECIFIED) {
      invalid(absl::StrCat("states[", i, "]"),
              absl::StrCat("must be a state of a job, got ",
                           static_cast<int>(state)));
    } else {
      query.states.insert(state);
    }
  }
  if (!violations.empty()) return field_errors(violations);
  if (!request.page_token().empty()) {
    absl::string_view token = request.page_token();
    if (!absl::ConsumePrefix(&token, incarnation) ||
        !absl::ConsumePrefix(&token, filter_text(query.states)) ||
        token.size() != 16 || !absl::SimpleHexAtoi(token, &query.before) ||
        query.before <= 0) {
      return invalid_page_token();
    }
  }
  return query;
}

}  // namespace

JobRegistry::JobRegistry(int max_finished)
    : max_finished_(static_cast<size_t>(max_finished)),
      incarnation_(random_hex(2)) {}

std::string JobRegistry::new_name() {
  return absl::StrCat("jobs/", random_hex(4));
}

void JobRegistry::add(std::shared_ptr<Job> job) {
  MutexLock lock(&mutex_);
  FERRY_CHECK(numbers_.emplace(job->name(), ++last_number_).second);
  jobs_.emplace(last_number_, std::move(job));
}

void JobRegistry::mark_finished(const Job& job) {
  // Destroyed without the lock held.
  std::shared_ptr<Job> forgotten;
  MutexLock lock(&mutex_);
  const auto number = numbers_.find(job.name());
  FERRY_CHECK(number != numbers_.end());
  finished_.push_back(number->second);
  if (finished_.size() <= max_finished_) return;
  const auto it = jobs_.find(finished_.front());
  FERRY_CHECK(it != jobs_.end());
  finished_.pop_front();
  forgotten = std::move(it->second);
  jobs_.erase(it);
  numbers_.erase(forgotten->name());
  expired_.push_back(forgotten->name());
  expired_set_.insert(forgotten->name());
  if (expired_.size() > kRememberedNames) {
    expired_set_.erase(expired_.front());
    expired_.pop_front();
  }
}

absl::StatusOr<std::shared_ptr<Job>> JobRegistry::find(
    const std::string& name) const {
  if (!absl::StartsWith(name, "jobs/")) {
    return invalid_field("name", "must be a job's name, jobs/{job}");
  }
  MutexLock lock(&mutex_);
  if (const auto it = numbers_.find(name); it != numbers_.end()) {
    return jobs_.at(it->second);
  }
  if (expired_set_.count(name) > 0) return job_expired(name);
  return job_not_found(name);
}

absl::StatusOr<v1::ListJobsResponse> JobRegistry::list(
    const v1::ListJobsRequest& request) const {
  ASSIGN_OR_RETURN(const ListQuery query, parse_query(request, incarnation_));
  v1::ListJobsResponse response;
  int64_t bytes = 0;
  int64_t last = 0;
  MutexLock lock(&mutex_);
  for (auto it = std::make_reverse_iterator(jobs_.lower_bound(query.before));
       it != jobs_.rend(); ++it) {
    v1::Job job = it->second->summary();
    if (!query.states.empty() && query.states.count(job.state()) == 0) {
      continue;
    }
    bytes += static_cast<int64_t>(job.ByteSizeLong());
    if (response.jobs_size() == query.page_size ||
        (response.jobs_size() > 0 && bytes > kMaxPageBytes)) {
      response.set_next_page_token(
          absl::StrCat(incarnation_, filter_text(query.states),
                       absl::StrFormat("%016x", last)));
      break;
    }
    last = it->first;
    *response.add_jobs() = std::move(job);
  }
  return response;
}

}  // namespace ferry
