#include "server/ipc/grpc_status.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "platform/base/error_info.h"
#include "server/ipc/rpc_status.h"

namespace ferry {
namespace {

constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

google::rpc::Status details_of(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

template <typename Message>
std::optional<Message> find_detail(const google::rpc::Status& status) {
  for (const google::protobuf::Any& detail : status.details()) {
    Message message;
    if (detail.UnpackTo(&message)) return message;
  }
  return std::nullopt;
}

absl::Status with_violations(absl::Status status, int count,
                             const std::string& description) {
  google::rpc::BadRequest bad_request;
  for (int i = 0; i < count; ++i) {
    auto* violation = bad_request.add_field_violations();
    violation->set_field(absl::StrCat("spec.field_", i));
    violation->set_description(description);
  }
  status.SetPayload(kBadRequestUrl,
                    absl::Cord(bad_request.SerializeAsString()));
  return status;
}

TEST(GrpcStatusTest, OkStaysOkWithoutDetails) {
  const grpc::Status status = to_grpc_status(absl::OkStatus());
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.error_details(), "");
  EXPECT_TRUE(from_grpc_status(grpc::Status::OK).ok());
}

TEST(GrpcStatusTest, EveryCodeGoesThereAndBack) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    const grpc::Status there = to_grpc_status(status);
    EXPECT_EQ(there.error_code(), code);
    EXPECT_EQ(there.error_message(), "why");
    EXPECT_EQ(from_grpc_status(there).code(), status.code());
    EXPECT_EQ(from_grpc_status(there).message(), "why");
  }
}

TEST(GrpcStatusTest, AnErrorWithoutInfoIsNamedAfterItsCode) {
  const auto info = find_detail<google::rpc::ErrorInfo>(
      details_of(to_grpc_status(absl::UnknownError("boom"))));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason(), "UNKNOWN");
  EXPECT_EQ(info->domain(), "ferry.v1");
}

TEST(GrpcStatusTest, InfoAndDetailsSurviveTwoHops) {
  absl::Status status =
      make_error(absl::StatusCode::kInternal, "step 3 gave NaN",
                 {"NON_FINITE_OUTPUT", {{"step", "3"}}});
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(7);
  status.SetPayload(kRetryInfoUrl, absl::Cord(retry.SerializeAsString()));
  status = with_violations(status, 2, "too big");

  const grpc::Status once = to_grpc_status(status);
  const grpc::Status twice = to_grpc_status(from_grpc_status(once));
  EXPECT_EQ(once.error_details(), twice.error_details());
  EXPECT_EQ(twice.error_message(), "step 3 gave NaN");

  const google::rpc::Status details = details_of(twice);
  EXPECT_EQ(details.code(), 13);
  EXPECT_EQ(details.message(), "step 3 gave NaN");
  const auto info = find_detail<google::rpc::ErrorInfo>(details);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason(), "NON_FINITE_OUTPUT");
  EXPECT_EQ(info->metadata().at("step"), "3");
  EXPECT_EQ(
      find_detail<google::rpc::RetryInfo>(details)->retry_delay().seconds(), 7);
  EXPECT_EQ(
      find_detail<google::rpc::BadRequest>(details)->field_violations_size(),
      2);
}

TEST(GrpcStatusTest, PrivatePayloadsStayInside) {
  absl::Status status = absl::InternalError("x");
  status.SetPayload("ferry/Private", absl::Cord("secret"));
  const google::rpc::Status details = details_of(to_grpc_status(status));
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details(0).Is<google::rpc::ErrorInfo>());
}

TEST(GrpcStatusTest, KeepsAForeignErrorInfo) {
  google::rpc::ErrorInfo foreign;
  foreign.set_domain("example.com");
  foreign.set_reason("THEIRS");
  google::rpc::Status status;
  status.set_code(5);
  status.add_details()->PackFrom(foreign);
  const google::rpc::Status back = to_rpc_status(from_rpc_status(status));
  ASSERT_EQ(back.details_size(), 1);
  EXPECT_EQ(find_detail<google::rpc::ErrorInfo>(back)->domain(), "example.com");
}

TEST(GrpcStatusTest, GarbageInDetailsKeepsCodeAndMessage) {
  const absl::Status status = from_grpc_status(
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no", "\xff\xff\xff"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no");
}

TEST(GrpcStatusTest, StaysBelowFourKibibytes) {
  absl::Status status =
      make_error(absl::StatusCode::kInvalidArgument, std::string(100000, 'm'),
                 {std::string(500, 'R'), {}});
  ErrorInfo info{"INVALID_FIELD", {}};
  for (int i = 0; i < 100; ++i) {
    info.metadata[absl::StrCat("key", i)] = std::string(1000, 'v');
  }
  for (const absl::Status& base : {status, with_error_info(status, info)}) {
    const grpc::Status there =
        to_grpc_status(with_violations(base, 500, std::string(2000, 'd')));
    EXPECT_LE(there.error_message().size() + there.error_details().size(),
              kMaxStatusBytes);
    EXPECT_TRUE(
        find_detail<google::rpc::ErrorInfo>(details_of(there)).has_value());
  }
}

TEST(GrpcStatusTest, SaysHowManyViolationsWereCut) {
  const google::rpc::Status details = details_of(to_grpc_status(with_violations(
      absl::InvalidArgumentError("bad"), 200, "must be 1 to 5, got 9")));
  const auto bad_request = find_detail<google::rpc::BadRequest>(details);
  ASSERT_TRUE(bad_request.has_value());
  const int kept = bad_request->field_violations_size() - 1;
  EXPECT_GT(kept, 40);
  EXPECT_EQ(bad_request->field_violations(0).field(), "spec.field_0");
  EXPECT_EQ(bad_request->field_violations(kept).description(),
            absl::StrCat("and ", 200 - kept, " more"));
}

TEST(GrpcStatusTest, TextIsCutBetweenCharacters) {
  EXPECT_EQ(clean_text("abc", 3), "abc");
  EXPECT_EQ(clean_text("abcd", 3), "…");
  EXPECT_EQ(clean_text("äöü", 6), "äöü");
  EXPECT_EQ(clean_text("äöüß", 6), "ä…");
  EXPECT_EQ(clean_text("äöüß", 7), "äö…");
  EXPECT_EQ(clean_text("a\xff\xc0\x80z", 10), "a???z");
  // A surrogate, an overlong form, a lonely lead byte.
  EXPECT_EQ(clean_text("\xed\xa0\x80|\xe0\x80\x80|\xf0\x9f", 20), "???|???|??");
  EXPECT_EQ(clean_text("😀", 4), "😀");
}

TEST(GrpcStatusTest, MessagesThatAreNoUtf8AreRepaired) {
  const grpc::Status there =
      to_grpc_status(absl::InternalError("bad \xff byte"));
  EXPECT_EQ(there.error_message(), "bad ? byte");
  EXPECT_EQ(details_of(there).message(), "bad ? byte");
}

}  // namespace
}  // namespace ferry
