#pragma once

#include <google/protobuf/message.h>

#include <ostream>

namespace ferry {

// Prints a message as JSON: indented, or as one line.
void print_json(const google::protobuf::Message& message, std::ostream* out);
void print_json_line(const google::protobuf::Message& message,
                     std::ostream* out);

}  // namespace ferry
