#include "server/core/known_fields.h"

#include <string>

#include "ferry/v1/generation_service.pb.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

void add_unknown(google::protobuf::Message* message, int number) {
  message->GetReflection()->MutableUnknownFields(message)->AddVarint(number, 1);
}

std::string unknown_path(const google::protobuf::Message& message) {
  const auto found = find_unknown_field(message);
  return found.has_value() ? found->field : "";
}

TEST(KnownFieldsTest, KnownFieldsPass) {
  v1::GenerateRequest request;
  EXPECT_TRUE(check_known_fields(request).ok());
  request.mutable_spec()->set_prompt("x");
  request.mutable_spec()->mutable_output();
  request.mutable_spec()->add_lora_adapters()->set_name("a");
  (*request.mutable_labels())["k"] = "v";
  EXPECT_TRUE(check_known_fields(request).ok());
}

TEST(KnownFieldsTest, UnknownOnesAreNamedByTheirPath) {
  v1::GenerateRequest request;
  request.mutable_spec()->add_lora_adapters();
  add_unknown(request.mutable_spec()->add_lora_adapters(), 7);
  EXPECT_EQ(unknown_path(request), "spec.lora_adapters[1].7");
  add_unknown(request.mutable_spec(), 900);
  EXPECT_EQ(unknown_path(request), "spec.900");
  add_unknown(&request, 901);
  EXPECT_EQ(unknown_path(request), "901");
  const absl::Status status = check_known_fields(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("901"), std::string::npos);
}

TEST(KnownFieldsTest, MessagesInMapsAreSearched) {
  v1::GenerateRequest request;
  google::protobuf::Value value;
  add_unknown(&value, 9);
  (*request.mutable_spec()->mutable_extra_params()->mutable_fields())["x"] =
      value;
  EXPECT_EQ(unknown_path(request), "spec.extra_params.fields[0].value.9");
}

}  // namespace
}  // namespace ferry
