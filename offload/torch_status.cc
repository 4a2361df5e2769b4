#include "offload/torch_status.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "c10/util/Exception.h"
#include "platform/base/check.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

constexpr size_t kMaxMessageBytes = 512;
// Ends a line of the interpreter's traceback, below the code that failed.
constexpr absl::string_view kHere = "<--- HERE";
constexpr absl::string_view kAnyError = "RuntimeError: ";

// Set between throw_status() and the catch of the same thread.
thread_local std::optional<absl::Status> thrown_status;

bool tells_of_memory(absl::string_view text) {
  return absl::StrContains(text, "out of memory") ||
         absl::StrContains(text, "can't allocate memory") ||
         absl::StrContains(text, "not enough memory") ||
         absl::StrContains(text, "std::bad_alloc");
}

absl::Status out_of_memory(absl::string_view where) {
  return make_error(absl::StatusCode::kResourceExhausted,
                    absl::StrCat(where, ": out of device memory"),
                    {"GPU_OUT_OF_MEMORY", {}});
}

absl::Status internal_error(absl::string_view where, absl::string_view text) {
  const std::string message =
      absl::StrCat(where, ": ", shorten_error_text(text));
  return make_error(absl::StatusCode::kInternal,
                    absl::string_view(message).substr(0, kMaxMessageBytes),
                    {"INTERNAL", {}});
}

// Whether the line belongs to the interpreter's traceback.
bool is_traceback(absl::string_view line) {
  return line.empty() || absl::ascii_isspace(line.front()) ||
         absl::StartsWith(line, "The following operation failed") ||
         absl::StartsWith(line, "Traceback of TorchScript");
}

// Whether the line is the first one of an exception after a traceback: the name
// of its class, a colon and the message. Code that is not indented, as that of
// free functions, has something else before its first colon: "def f(x: Tensor".
bool begins_message(absl::string_view line) {
  const size_t colon = line.find(": ");
  return colon != absl::string_view::npos && colon > 0 &&
         std::all_of(line.begin(), line.begin() + colon, [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.';
         });
}

// The line that says what went wrong.
absl::string_view find_message(absl::string_view text) {
  // The last one, since the message of one exception may be the traceback of
  // another: that of a fork.
  if (const size_t here = text.rfind(kHere); here != absl::string_view::npos) {
    for (absl::string_view line : absl::StrSplit(text.substr(here), '\n')) {
      if (begins_message(line)) return line;
    }
  }
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!is_traceback(line)) return line;
  }
  return text;
}

}  // namespace

std::string shorten_error_text(absl::string_view text) {
  absl::string_view chosen = find_message(text);
  absl::ConsumePrefix(&chosen, kAnyError);
  std::string line(chosen.substr(0, kMaxMessageBytes));
  for (char& c : line) {
    if (absl::ascii_iscntrl(c)) c = ' ';
  }
  absl::StripAsciiWhitespace(&line);
  return line.empty() ? "an exception without a message" : line;
}

absl::Status current_exception_status(absl::string_view where) {
  FERRY_CHECK(std::current_exception() != nullptr);
  if (thrown_status) {
    absl::Status status = *std::move(thrown_status);
    thrown_status.reset();
    return status;
  }
  try {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    return out_of_memory(where);
  } catch (const std::bad_alloc&) {
    return out_of_memory(where);
  } catch (const c10::Error& error) {
    const absl::string_view text = error.what_without_backtrace();
    return tells_of_memory(text) ? out_of_memory(where)
                                 : internal_error(where, text);
  } catch (const std::exception& error) {
    return tells_of_memory(error.what()) ? out_of_memory(where)
                                         : internal_error(where, error.what());
  } catch (...) {
    return internal_error(where, "an exception of an unknown type");
  }
}

void throw_status(absl::Status status) {
  thrown_status = std::move(status);
  throw std::runtime_error(std::string(thrown_status->message()));
}

void forget_thrown_status() { thrown_status.reset(); }

}  // namespace ferry
