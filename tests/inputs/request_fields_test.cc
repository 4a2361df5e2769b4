// Every field of every request of the API, over the wire, at its bounds and
// far beyond: whatever comes, the answer is the right one, it names the field,
// and the daemon serves on.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ferry/v1/generation_service.pb.h"
#include "ferry/v1/pipeline_service.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/inputs/field_rows.h"
#include "tests/inputs/probes.h"
#include "tests/inputs/raw_call.h"
#include "tests/inputs/wire.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using ::testing::UnorderedElementsAreArray;

using Form = Probe::Form;

// Methods of ferry.v1 by full name.
std::map<std::string, const MethodDescriptor*> find_methods() {
  std::map<std::string, const MethodDescriptor*> methods;
  for (const FileDescriptor* file :
       {v1::GenerateRequest::descriptor()->file(),
        v1::GetPipelineRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const MethodDescriptor* method = file->service(i)->method(j);
        methods[absl::StrCat(file->service(i)->full_name(), "/",
                             method->name())] = method;
      }
    }
  }
  return methods;
}

// Paths of a message's fields, those of the messages in it too. What Protobuf
// defines without bounds is one field.
void add_paths(const Descriptor& message, const std::string& prefix,
               std::set<std::string>* paths) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string path = absl::StrCat(prefix, field.name());
    paths->insert(path);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
        field.message_type()->full_name() != "google.protobuf.Struct") {
      add_paths(*field.message_type(), path + ".", paths);
    }
  }
}

// The fields from the request down to the one that a path names.
std::vector<const FieldDescriptor*> resolve(const Descriptor& request,
                                            const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  const Descriptor* message = &request;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    fields.push_back(message->FindFieldByName(std::string(name)));
    if (fields.back() == nullptr) return {};
    message = fields.back()->message_type();
  }
  return fields;
}

TEST(FieldRowsTest, EveryFieldHasOneRow) {
  std::map<std::string, std::set<std::string>> missing;
  for (const auto& [name, method] : find_methods()) {
    add_paths(*method->input_type(), "", &missing[name]);
  }
  ASSERT_EQ(missing.size(), 12u);
  for (const FieldRow& row : field_rows()) {
    if (row.field.empty()) {
      EXPECT_EQ(missing.erase(row.method), 1u) << row.method;
    } else {
      EXPECT_EQ(missing[row.method].erase(row.field), 1u)
          << row.method << " has no field " << row.field << ", or two rows";
    }
  }
  for (const auto& [method, fields] : missing) {
    EXPECT_THAT(fields, testing::IsEmpty())
        << "fields of " << method << " without a row in field_rows.cc";
  }
}

class RequestFieldsTest : public SharedDaemonFixture<RequestFieldsTest>,
                          public testing::WithParamInterface<FieldRow> {
 public:
  static Daemon::Options options() {
    Daemon::Options options;
    options.pipelines = {{"tiny", make_package()}};
    options.flags = {"--max_receive_bytes=1Mi"};
    return options;
  }

  static void SetUpTestSuite() {
    SharedDaemonFixture<RequestFieldsTest>::SetUpTestSuite();
    if (HasFatalFailure()) return;
    GenerateCall call(generation(), base_request());
    ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
    job_name_ = call.job().name();
  }

  static void TearDownTestSuite() {
    expect_sound_log(daemon().log());
    SharedDaemonFixture<RequestFieldsTest>::TearDownTestSuite();
  }

 protected:
  // The smallest generation.
  static v1::GenerateRequest base_request() {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_height(16);
    request.mutable_spec()->set_width(16);
    request.mutable_spec()->set_num_inference_steps(1);
    return request;
  }

  static std::string base_of(const FieldRow& row) {
    if (!absl::EndsWith(row.method, "/Generate")) return "";
    v1::GenerateRequest request = base_request();
    request.set_validate_only(true);
    return request.SerializeAsString();
  }

  void SetUp() override {
    SharedDaemonFixture<RequestFieldsTest>::SetUp();
    channel_ = daemon().new_channel();
  }

  void TearDown() override {
    channel_.reset();
    SharedDaemonFixture<RequestFieldsTest>::TearDown();
  }

  RawAnswer call(const FieldRow& row, absl::string_view request) {
    return call_raw(channel_, "/" + row.method, {request});
  }

  // Sends every probe of a field.
  void check_field(const FieldRow& row, const Descriptor& request,
                   const std::string& path) {
    const auto fields = resolve(request, path);
    ASSERT_FALSE(fields.empty()) << path;
    ProbeValues values = row.values;
    for (std::string& text : values.texts) {
      if (text == kJobPlaceholder) text = job_name_;
    }
    const std::vector<Probe> probes = make_probes(*fields.back(), values);
    ASSERT_FALSE(probes.empty()) << "no probes for the type of " << path;
    for (Probe probe : probes) {
      SCOPED_TRACE(absl::StrCat(path, ": ", probe.label));
      std::string wire = probe.wire;
      for (auto outer = fields.rbegin() + 1; outer != fields.rend(); ++outer) {
        wire = wire_bytes((*outer)->number(), wire);
      }
      if (probe.text == job_name_) probe.text = kJobPlaceholder;
      check_probe(row, fields, probe, base_of(row) + wire);
    }
  }

  void check_probe(const FieldRow& row,
                   const std::vector<const FieldDescriptor*>& fields,
                   const Probe& probe, const std::string& request) {
    const RawAnswer answer = call(row, request);
    switch (probe.form) {
      case Form::kTyped: {
        const Verdict verdict = row.verdict(probe);
        expect_verdict(answer.status, verdict);
        if (!verdict.fields.empty() || !answer.status.ok()) return;
        // What passes the check runs, too, if it is given the time.
        if (absl::EndsWith(row.method, "/Generate") &&
            !absl::StartsWith(row.field, "queue_timeout")) {
          const RawAnswer run = call(row, request + wire_varint(6, 0));
          expect_verdict(run.status, {});
        }
        return;
      }
      case Form::kMalformed:
      case Form::kNotUtf8:
        expect_unparsable(answer.status, probe.form == Form::kNotUtf8
                                             ? fields.back()->full_name()
                                             : std::string());
        return;
      case Form::kOtherWireType:
      case Form::kUnknownInside:
        expect_unknown_field(answer.status, row, fields, probe);
    }
  }

  static void expect_sound(const grpc::Status& status) {
    EXPECT_NE(status.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_NE(status.error_code(), grpc::StatusCode::UNKNOWN);
    EXPECT_LE(status.error_message().size(), 1024u);
    EXPECT_LE(status.error_details().size(), 4096u);
    if (status.ok()) return;
    EXPECT_EQ(parse_details(status).domain, "ferry.v1") << describe(status);
  }

  static void expect_verdict(const grpc::Status& status,
                             const Verdict& verdict) {
    expect_sound(status);
    EXPECT_EQ(status.error_code(), verdict.code) << describe(status);
    const ErrorDetails details = parse_details(status);
    EXPECT_EQ(details.reason, verdict.reason) << describe(status);
    const auto violated = details.violated_fields();
    const std::set<std::string> unique(violated.begin(), violated.end());
    EXPECT_THAT(unique, UnorderedElementsAreArray(verdict.fields))
        << describe(status);
  }

  static void expect_unparsable(const grpc::Status& status,
                                const std::string& field) {
    Verdict verdict{
        grpc::StatusCode::INVALID_ARGUMENT, "UNPARSABLE_REQUEST", {}};
    if (!field.empty()) verdict.fields = {field};
    expect_verdict(status, verdict);
  }

  // To Protobuf it is a field that the API does not have.
  static void expect_unknown_field(
      const grpc::Status& status, const FieldRow& row,
      const std::vector<const FieldDescriptor*>& fields, const Probe& probe) {
    expect_sound(status);
    if (row.field.empty()) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
      return;
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << describe(status);
    // An entry of a map keeps nothing unknown: the key is missing.
    if (fields.back()->containing_type()->options().map_entry()) return;
    std::string owner;
    for (const FieldDescriptor* field : fields) {
      if (field == fields.back() && probe.form == Form::kOtherWireType) break;
      absl::StrAppend(&owner, field->name(), field->is_repeated() ? "[0]" : "",
                      ".");
    }
    const int number = probe.form == Form::kOtherWireType
                           ? fields.back()->number()
                           : kUnknownField;
    EXPECT_THAT(parse_details(status).violated_fields(),
                testing::Contains(absl::StrCat(owner, number)))
        << describe(status);
  }

  // Nothing that was sent forges a line, floods the log or is an error of the
  // server's.
  static void expect_sound_log(const std::string& log) {
    for (const absl::string_view line : absl::StrSplit(log, '\n')) {
      if (line.empty()) continue;
      EXPECT_LE(line.size(), 32u << 10) << line.substr(0, 200);
      const auto json = nlohmann::json::parse(line, nullptr, false);
      ASSERT_TRUE(json.is_object()) << line.substr(0, 200);
      EXPECT_NE(json.value("level", ""), "error") << line.substr(0, 1000);
    }
  }

 private:
  static inline std::string job_name_;

  std::shared_ptr<grpc::Channel> channel_;
};

TEST_P(RequestFieldsTest, GetsTheRightAnswer) {
  const FieldRow& row = GetParam();
  const MethodDescriptor* method = find_methods().at(row.method);
  std::set<std::string> paths = {row.field};
  if (row.field.empty()) {
    paths.clear();
    add_paths(*method->input_type(), "", &paths);
  }
  for (const std::string& path : paths) {
    check_field(row, *method->input_type(), path);
  }
  EXPECT_EQ(daemon().get_pipeline(kPipeline).name(), kPipeline);
}

INSTANTIATE_TEST_SUITE_P(All, RequestFieldsTest,
                         testing::ValuesIn(field_rows()),
                         [](const testing::TestParamInfo<FieldRow>& info) {
                           const std::vector<std::string> parts =
                               absl::StrSplit(info.param.method, '/');
                           return absl::StrReplaceAll(
                               absl::StrCat(parts.back(),
                                            info.param.field.empty() ? "" : "_",
                                            info.param.field),
                               {{".", "_"}});
                         });

}  // namespace
}  // namespace ferry
