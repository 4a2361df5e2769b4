#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define FERRY_CONCAT_INNER(a, b) a##b
#define FERRY_CONCAT(a, b) FERRY_CONCAT_INNER(a, b)

// Returns from the function when `expression` is an error.
#define RETURN_IF_ERROR(expression)                                   \
  do {                                                                \
    if (absl::Status ferry_status = (expression); !ferry_status.ok()) \
      return ferry_status;                                            \
  } while (false)

// Assigns the value of a StatusOr, or returns its error.
#define ASSIGN_OR_RETURN(lhs, expression)                               \
  ASSIGN_OR_RETURN_INNER(FERRY_CONCAT(ferry_status_or_, __LINE__), lhs, \
                         expression)
#define ASSIGN_OR_RETURN_INNER(name, lhs, expression) \
  auto name = (expression);                           \
  if (!name.ok()) return std::move(name).status();    \
  lhs = *std::move(name)
