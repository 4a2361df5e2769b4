#include "server/worker/call_guarded.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "platform/base/error_info.h"

namespace ferry {
namespace {

template <typename Exception>
absl::Status status_of(const Exception& exception) {
  return call_guarded("LoadPipeline",
                      [&]() -> absl::Status { throw exception; });
}

TEST(CallGuarded, ReturnsWhatTheFunctionReturns) {
  EXPECT_TRUE(call_guarded("x", [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(call_guarded("x", [] { return absl::DataLossError("odd"); }),
            absl::DataLossError("odd"));
}

TEST(CallGuarded, AnExceptionIsAnErrorOfTheCall) {
  const absl::Status memory = status_of(std::bad_array_new_length());
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.message(), "LoadPipeline: out of memory");
  EXPECT_EQ(get_error_info(memory)->reason, "GPU_OUT_OF_MEMORY");
  const absl::Status others[] = {
      status_of(std::system_error(EAGAIN, std::generic_category())),
      status_of(std::length_error("too long")),
      status_of(42),
  };
  for (const absl::Status& status : others) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(get_error_info(status)->reason, "INTERNAL");
  }
  EXPECT_EQ(others[0].message(),
            "LoadPipeline: Resource temporarily unavailable");
  EXPECT_EQ(others[1].message(), "LoadPipeline: too long");
  EXPECT_EQ(others[2].message(),
            "LoadPipeline: an exception of an unknown type");
}

}  // namespace
}  // namespace ferry
