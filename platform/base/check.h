#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"

// FERRY_CHECK(condition), FERRY_CHECK_EQ(a, b), _NE, _LT, _LE, _GT, _GE: end
// the process unless it is so, in every build, with the file, the line, the
// expression and, of two values, what they are:
//
//   offload/block_ring.cc:91: check failed: block < blocks_.size() (7 and 4)
//
// For what only a mistake in our own program can bring about, such as a call
// that its REQUIRES forbids. What a user, a peer or the environment does wrong
// is an absl::Status. Operands are evaluated once; a check that holds costs a
// comparison and allocates nothing. Any thread. (LibTorch and glog have macros
// called CHECK.)
#define FERRY_CHECK(condition)                                   \
  do {                                                           \
    if (ABSL_PREDICT_FALSE(!(condition))) {                      \
      ::ferry::check_failed(__FILE__, __LINE__, #condition, ""); \
    }                                                            \
  } while (false)

#define FERRY_CHECK_EQ(a, b) FERRY_CHECK_COMPARE(==, a, b)
#define FERRY_CHECK_NE(a, b) FERRY_CHECK_COMPARE(!=, a, b)
#define FERRY_CHECK_LT(a, b) FERRY_CHECK_COMPARE(<, a, b)
#define FERRY_CHECK_LE(a, b) FERRY_CHECK_COMPARE(<=, a, b)
#define FERRY_CHECK_GT(a, b) FERRY_CHECK_COMPARE(>, a, b)
#define FERRY_CHECK_GE(a, b) FERRY_CHECK_COMPARE(>=, a, b)

#define FERRY_CHECK_COMPARE(op, a, b)                             \
  do {                                                            \
    const auto& ferry_check_a = (a);                              \
    const auto& ferry_check_b = (b);                              \
    if (ABSL_PREDICT_FALSE(!(ferry_check_a op ferry_check_b))) {  \
      ::ferry::check_failed(                                      \
          __FILE__, __LINE__, #a " " #op " " #b,                  \
          ::ferry::checked_values(ferry_check_a, ferry_check_b)); \
    }                                                             \
  } while (false)

namespace ferry {

// Writes one line to standard error and aborts.
[[noreturn]] ABSL_ATTRIBUTE_COLD void check_failed(const char* file, int line,
                                                   const char* expression,
                                                   const std::string& values);

std::string checked_text(absl::string_view text);

// As a number where it is one, an enumerator too, or as a quoted text.
template <typename Value>
std::string checked_value(const Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<Value>) {
    return std::to_string(static_cast<std::underlying_type_t<Value>>(value));
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return std::to_string(value);
  } else if constexpr (std::is_convertible_v<const Value&, absl::string_view>) {
    return checked_text(value);
  } else if constexpr (std::is_pointer_v<Value>) {
    return std::to_string(reinterpret_cast<uintptr_t>(value));
  } else {
    return "a value";
  }
}

template <typename A, typename B>
ABSL_ATTRIBUTE_COLD std::string checked_values(const A& a, const B& b) {
  return " (" + checked_value(a) + " and " + checked_value(b) + ")";
}

}  // namespace ferry
