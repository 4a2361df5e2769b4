#include "server/ipc/worker_hello.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/version.h"

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef";

WorkerHello some_hello() {
  WorkerHello hello;
  hello.token = kToken;
  hello.pipeline = "pipelines/demo";
  hello.rank = 3;
  hello.world_size = 4;
  hello.device_index = 1;
  hello.pid = 4711;
  hello.host = "ferry-0-3";
  hello.listen_host = "fe80::1";
  return hello;
}

std::string some_line() {
  return std::string(absl::StripSuffix(format_hello(some_hello()), "\n"));
}

TEST(WorkerHelloTest, GoesThereAsOneLine) {
  const std::string line = format_hello(some_hello());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto hello = parse_hello(some_line());
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->token, kToken);
  EXPECT_EQ(hello->pipeline, "pipelines/demo");
  EXPECT_EQ(hello->rank, 3);
  EXPECT_EQ(hello->world_size, 4);
  EXPECT_EQ(hello->device_index, 1);
  EXPECT_EQ(hello->pid, 4711);
  EXPECT_EQ(hello->host, "ferry-0-3");
  EXPECT_EQ(hello->listen_host, "fe80::1");
  EXPECT_EQ(format_hello(*hello), line);
}

TEST(WorkerHelloTest, NothingElseIsOne) {
  const std::string line = some_line();
  for (const std::string& other :
       {std::string(), std::string("GET / HTTP/1.1"), std::string(8, '\0'),
        std::string("ferry-worker"), line + " ", " " + line, line + " x=1",
        line + " x", line + " rank=3", line + "\r", line + "\xff",
        absl::StrCat(line, std::string(kMaxHelloBytes, 'x')),
        absl::StrReplaceAll(line, {{"rank=3", "rank=-1"}}),
        absl::StrReplaceAll(line, {{"rank=3", "rank=x"}}),
        absl::StrReplaceAll(line, {{"rank=3", "rank="}}),
        absl::StrReplaceAll(line, {{"rank=3", "rank=99999999999999999999"}}),
        absl::StrReplaceAll(line, {{" pid=4711", ""}})}) {
    const auto hello = parse_hello(other);
    EXPECT_EQ(hello.status().code(), absl::StatusCode::kInvalidArgument)
        << other;
    EXPECT_THAT(std::string(hello.status().message()), Not(HasSubstr(kToken)));
  }
}

TEST(WorkerHelloTest, AnotherVersionIsNamed) {
  const auto hello = parse_hello(
      absl::StrReplaceAll(some_line(), {{kVersion, "9.8.7-other"}}));
  EXPECT_THAT(std::string(hello.status().message()),
              AllOf(HasSubstr("ferry_worker 9.8.7-other"),
                    HasSubstr(absl::StrCat("ferryd ", kVersion))));
}

TEST(WorkerHelloTest, TheAnswerIsOneLine) {
  EXPECT_EQ(format_answer(absl::OkStatus()), "accepted\n");
  EXPECT_TRUE(parse_answer("accepted").ok());
  const std::string refusal =
      format_answer(absl::InvalidArgumentError("rank: must\nbe 1"));
  EXPECT_EQ(refusal, "refused rank: must be 1\n");
  const absl::Status status = parse_answer(absl::StripSuffix(refusal, "\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), "rank: must be 1");
  const std::string taken = format_answer(absl::AlreadyExistsError("taken"));
  EXPECT_EQ(taken, "wait taken\n");
  EXPECT_EQ(parse_answer(absl::StripSuffix(taken, "\n")),
            absl::UnavailableError("taken"));
  EXPECT_LE(format_answer(absl::InternalError(std::string(100000, 'x'))).size(),
            kMaxHelloBytes + 1);
  for (const char* line : {"", "HTTP/1.1 400 Bad Request", "accepted!"}) {
    EXPECT_EQ(parse_answer(line).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(WorkerHelloDeathTest, ALineHoldsNoTextThatWouldEndIt) {
  for (const char* text : {"", "two words", "line\n", "\xc3\xbc"}) {
    for (const auto field : {&WorkerHello::token, &WorkerHello::pipeline,
                             &WorkerHello::host, &WorkerHello::listen_host}) {
      WorkerHello hello = some_hello();
      hello.*field = text;
      EXPECT_DEATH((void)format_hello(hello),
                   "check failed: (!text->empty|is_printable)");
    }
  }
}

}  // namespace
}  // namespace ferry
