#include "server/core/known_fields.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

namespace ferry {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// `prefix` stands before the names of the message's fields. Protobuf has
// bounded the depth when it parsed the message.
std::optional<FieldViolation> find_below(const Message& message,
                                         const std::string& prefix) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown =
      reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    const int number = unknown.field(0).number();
    return FieldViolation{
        FieldViolation::Kind::kUnknown,
        absl::StrCat(prefix, number),
        absl::StrCat("field number ", number, " is unknown to this server"),
        {}};
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    // An entry of a map keeps no unknown fields, a value of one could.
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string path = absl::StrCat(prefix, field->name());
    if (!field->is_repeated()) {
      auto found =
          find_below(reflection.GetMessage(message, field), path + ".");
      if (found.has_value()) return found;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      auto found = find_below(reflection.GetRepeatedMessage(message, field, i),
                              absl::StrCat(path, "[", i, "]."));
      if (found.has_value()) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<FieldViolation> find_unknown_field(const Message& message) {
  return find_below(message, "");
}

absl::Status check_known_fields(const Message& request) {
  const std::optional<FieldViolation> unknown = find_unknown_field(request);
  return unknown.has_value() ? field_errors({*unknown}) : absl::OkStatus();
}

}  // namespace ferry
