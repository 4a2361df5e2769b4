#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace ferry {

// One value of one field, to be sent.
struct Probe {
  enum class Form {
    // A value of the field's type.
    kTyped,
    // The field's number with another wire type: to Protobuf another, unknown
    // field.
    kOtherWireType,
    // A message of the field's type with a field in it that is not in the API.
    kUnknownInside,
    // Bytes that end before the message does, or a varint without an end.
    kMalformed,
    // A string that is no UTF-8.
    kNotUtf8,
  };

  std::string label;
  Form form = Form::kTyped;
  // The field as it stands in its message.
  std::string wire;

  // The value of a typed probe: an integer, bool or enum as it arrives; a
  // double; a string or bytes; of a repeated field, the number of its elements.
  int64_t integer = 0;
  double real = 0;
  std::string text;
  int64_t count = 1;
};

// What is special about one field: values beside those that every field of its
// type gets.
struct ProbeValues {
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  // Elements of a repeated field.
  std::vector<int64_t> counts;
};

// Field number that no message of the API has.
constexpr int kUnknownField = 900;

// Everything that is sent for a field: `values`, the extremes of its type, and
// what is malformed.
std::vector<Probe> make_probes(const google::protobuf::FieldDescriptor& field,
                               const ProbeValues& values);

}  // namespace ferry
