#include "server/worker/call_guarded.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

absl::Status internal_error(absl::string_view call, absl::string_view what) {
  return make_error(absl::StatusCode::kInternal, absl::StrCat(call, ": ", what),
                    {"INTERNAL", {}});
}

}  // namespace

absl::Status guarded_exception(absl::string_view call) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return make_error(absl::StatusCode::kResourceExhausted,
                      absl::StrCat(call, ": out of memory"),
                      {"GPU_OUT_OF_MEMORY", {}});
  } catch (const std::exception& error) {
    return internal_error(call, error.what());
  } catch (...) {
    return internal_error(call, "an exception of an unknown type");
  }
}

}  // namespace ferry
