#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace ferry {

// Makes text of unknown origin safe for one line of a log.
//
// Control characters (C0, DEL, C1), line separators and bytes that are no
// UTF-8 become escapes, so that nobody's text can forge or break a line; other
// text stays as it is. Thread-safe.

// Appends `text` between quotes as a JSON string. Bytes that are no UTF-8 show
// as the four characters \xNN.
void append_json_string(absl::string_view text, std::string* out);

// Appends `text` with escapes and without quotes.
void append_log_text(absl::string_view text, std::string* out);

// Appends `text` as a field's value: quoted when it is empty or holds a space,
// a quote or an equals sign.
void append_log_value(absl::string_view text, std::string* out);

}  // namespace ferry
