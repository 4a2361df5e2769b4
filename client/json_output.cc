#include "client/json_output.h"

#include <google/protobuf/util/json_util.h>

#include <string>

namespace ferry {
namespace {

void print(const google::protobuf::Message& message, bool indented,
           std::ostream* out) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = indented;
  std::string text;
  // Fails for Any details of an unknown type only.
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) text = "{}";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  *out << text << std::endl;
}

}  // namespace

void print_json(const google::protobuf::Message& message, std::ostream* out) {
  print(message, true, out);
}

void print_json_line(const google::protobuf::Message& message,
                     std::ostream* out) {
  print(message, false, out);
}

}  // namespace ferry
