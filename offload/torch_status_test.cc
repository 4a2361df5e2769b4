#include "offload/torch_status.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "c10/util/Exception.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

template <typename Exception>
absl::Status status_of(const Exception& exception) {
  return call_torch("denoise", [&] { throw exception; });
}

TEST(TorchStatus, SuccessIsOk) {
  EXPECT_TRUE(call_torch("denoise", [] {}).ok());
}

TEST(TorchStatus, TakesTheLineAfterTheInterpretersTraceback) {
  const absl::Status status = status_of(std::runtime_error(
      "The following operation failed in the TorchScript interpreter.\n"
      "Traceback of TorchScript, serialized code (most recent call last):\n"
      "  File \"code/__torch__.py\", line 12, in denoise\n"
      "    x = torch.matmul(a, b)\n"
      "        ~~~~~~~~~~~~ <--- HERE\n"
      "\n"
      "Traceback of TorchScript, original code (most recent call last):\n"
      "  File \"/home/someone/model.py\", line 3, in denoise\n"
      "RuntimeError: mat1 and mat2 shapes cannot be multiplied\n"
      "and more\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(),
            "denoise: mat1 and mat2 shapes cannot be multiplied");
  EXPECT_EQ(get_error_info(status)->reason, "INTERNAL");
}

// Its lines are not indented.
TEST(TorchStatus, TakesTheLineAfterTheTracebackOfAFreeFunction) {
  const absl::Status status = status_of(std::runtime_error(
      "The following operation failed in the TorchScript interpreter.\n"
      "Traceback of TorchScript (most recent call last):\n"
      "  File \"<string>\", line 3\n"
      "\n"
      "def tie(weight):\n"
      "    return weight.sum()\n"
      "           ~~~~~~~~~~ <--- HERE\n"
      "\n"
      "def other(weight):\n"
      "RuntimeError: dit.blocks.3.weight: is used outside of dit.blocks.3\n"));
  EXPECT_EQ(status.message(),
            "denoise: dit.blocks.3.weight: is used outside of dit.blocks.3");
}

// As LibTorch writes it for a class of the program's own.
TEST(TorchStatus, TakesTheLineOfAnExceptionOfAnyClass) {
  const std::string traceback =
      "The following operation failed in the TorchScript interpreter.\n"
      "Traceback of TorchScript, serialized code (most recent call last):\n"
      "  File \"code/__torch__.py\", line 11, in forward\n"
      "def helper(x: Tensor) -> Tensor:\n"
      "    ops.prim.RaiseException(\"no: never\", \"__main__.MyError\")\n"
      "    ~~~~~~~~~~~~~~~~~~~~~~~ <--- HERE\n"
      "  else:\n"
      "    pass\n"
      "\n"
      "Traceback of TorchScript, original code (most recent call last):\n"
      "  File \"/tmp/t.py\", line 10, in forward\n"
      "def helper(x: torch.Tensor) -> torch.Tensor:\n"
      "        raise MyError(\"no: never\")\n"
      "        ~~~~~~~~~~~~~~~~~~~~~ <--- HERE\n"
      "    return x\n";
  const auto message_of = [&](const std::string& end) {
    return std::string(
        status_of(std::runtime_error(traceback + end)).message());
  };
  EXPECT_EQ(message_of("__main__.MyError: no: never\n"),
            "denoise: __main__.MyError: no: never");
  EXPECT_EQ(message_of("builtins.KeyError: a\nb: c\n"),
            "denoise: builtins.KeyError: a");
  EXPECT_EQ(message_of("__main__.MyError: \n"), "denoise: __main__.MyError:");
  EXPECT_EQ(message_of("RuntimeError: AssertionError: \n"),
            "denoise: AssertionError:");
  // What a fork threw is the message of who waits for it.
  EXPECT_EQ(message_of("RuntimeError: " + traceback + "__main__.MyError: no\n"),
            "denoise: __main__.MyError: no");
}

TEST(TorchStatus, LeavesBacktracesOut) {
  const absl::Status status = call_torch(
      "load", [] { TORCH_CHECK(false, "the file is odd\nsecond line"); });
  EXPECT_EQ(status.message(), "load: the file is odd");
}

TEST(TorchStatus, MemoryIsExhaustedHoweverItIsTold) {
  const absl::Status statuses[] = {
      status_of(std::bad_alloc()),
      status_of(std::runtime_error("RuntimeError: [enforce fail at "
                                   "alloc_cpu.cpp:121] DefaultCPUAllocator: "
                                   "can't allocate memory: you tried")),
      status_of(std::runtime_error("CUDA out of memory. Tried to allocate")),
      call_torch("denoise",
                 [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "no room"); }),
  };
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(get_error_info(status)->reason, "GPU_OUT_OF_MEMORY");
  }
}

TEST(TorchStatus, MessagesAreShortAndPrintable) {
  const absl::Status status =
      status_of(std::runtime_error("a\tb\x01" + std::string(1 << 20, 'x')));
  EXPECT_LE(status.message().size(), 512u);
  EXPECT_EQ(status.message().substr(0, 14), "denoise: a b x");
}

TEST(TorchStatus, UnknownAndEmptyExceptionsHaveAMessage) {
  EXPECT_EQ(status_of(std::runtime_error("")).message(),
            "denoise: an exception without a message");
  EXPECT_EQ(status_of(42).message(),
            "denoise: an exception of an unknown type");
}

TEST(TorchStatus, AThrownStatusSurvivesOtherExceptions) {
  const absl::Status status = call_torch("denoise", [] {
    try {
      throw_status(absl::DataLossError("the hook says no"));
    } catch (const std::exception&) {
      throw std::runtime_error("what the interpreter makes of it");
    }
  });
  EXPECT_EQ(status, absl::DataLossError("the hook says no"));
  EXPECT_EQ(status_of(std::runtime_error("next")).message(), "denoise: next");
}

}  // namespace
}  // namespace ferry
