// What comes over a connection beside well-formed calls: headers, sizes,
// numbers of messages, methods that are not there, bytes that are no HTTP/2.
// The daemon answers what can be answered and serves on.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/inputs/raw_call.h"
#include "tests/inputs/wire.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using grpc::ClientContext;
using grpc::StatusCode;
using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kGetPipelineMethod[] = "/ferry.v1.PipelineService/GetPipeline";
constexpr char kGenerateMethod[] = "/ferry.v1.GenerationService/Generate";
constexpr size_t kMaxReceiveBytes = 1 << 20;

class HostileConnectionsTest
    : public SharedDaemonFixture<HostileConnectionsTest> {
 public:
  static Daemon::Options options() {
    Daemon::Options options;
    options.pipelines = {{"tiny", make_package()}};
    options.flags = {absl::StrCat("--max_receive_bytes=", kMaxReceiveBytes)};
    return options;
  }

 protected:
  using Prepare = std::function<void(ClientContext& context)>;

  static RawAnswer call(const std::string& method,
                        const std::vector<absl::string_view>& requests,
                        const Prepare& prepare = {}) {
    const RawAnswer answer =
        call_raw(daemon().new_channel(), method, requests, prepare);
    EXPECT_NE(answer.status.error_code(), StatusCode::INTERNAL)
        << describe(answer.status);
    EXPECT_NE(answer.status.error_code(), StatusCode::UNKNOWN)
        << describe(answer.status);
    return answer;
  }

  static RawAnswer get_pipeline(const Prepare& prepare) {
    static const std::string request = wire_bytes(1, "pipelines/tiny");
    return call(kGetPipelineMethod, {request}, prepare);
  }

  static void expect_serving() {
    EXPECT_EQ(daemon().get_pipeline("pipelines/tiny").name(), "pipelines/tiny");
  }

  void TearDown() override {
    expect_serving();
    SharedDaemonFixture<HostileConnectionsTest>::TearDown();
  }
};

TEST_F(HostileConnectionsTest, HeadersOfAnyKind) {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes.push_back(static_cast<char>(i));
  const std::vector<Prepare> harmless = {
      [&](ClientContext& context) {
        context.AddMetadata("x-any-bin", all_bytes);
      },
      [](ClientContext& context) { context.AddMetadata("x-empty", ""); },
      [](ClientContext& context) {
        for (int i = 0; i < 64; ++i) context.AddMetadata("x-twice", "v");
      },
      [](ClientContext& context) {
        context.AddMetadata("x-long", std::string(8 << 10, 'v'));
      },
      [](ClientContext& context) {
        context.AddMetadata("traceparent", "00-zz-zz-01");
      },
      [](ClientContext& context) {
        context.AddMetadata("user-agent", "%s%n \\\" ");
      },
      [](ClientContext& context) { context.set_authority(""); },
      [](ClientContext& context) {
        context.set_authority("a/../b?c#d@e:99999");
      },
      [](ClientContext& context) {
        context.set_authority(std::string(4096, 'a'));
      },
  };
  for (const Prepare& prepare : harmless) {
    const RawAnswer answer = get_pipeline(prepare);
    EXPECT_TRUE(answer.status.ok()) << describe(answer.status);
    EXPECT_THAT(answer.messages, SizeIs(1));
  }
}

TEST_F(HostileConnectionsTest, HeadersBeyondTheLimit) {
  for (const size_t size : {size_t{17 << 10}, size_t{1 << 20}}) {
    const RawAnswer answer = get_pipeline([size](ClientContext& context) {
      context.AddMetadata("x-large", std::string(size, 'v'));
    });
    EXPECT_THAT(answer.status.error_code(),
                AnyOf(StatusCode::RESOURCE_EXHAUSTED, StatusCode::UNAVAILABLE))
        << describe(answer.status);
    expect_serving();
  }
}

TEST_F(HostileConnectionsTest, MessagesUpToTheLimit) {
  const size_t frame =
      wire_bytes(1, std::string(kMaxReceiveBytes, 'x')).size() -
      kMaxReceiveBytes;
  const std::string fits =
      wire_bytes(1, std::string(kMaxReceiveBytes - frame, 'x'));
  ASSERT_EQ(fits.size(), kMaxReceiveBytes);
  EXPECT_EQ(call(kGetPipelineMethod, {fits}).status.error_code(),
            StatusCode::INVALID_ARGUMENT);
  const std::string too_large = fits + "\x08\x01";
  EXPECT_EQ(call(kGetPipelineMethod, {too_large}).status.error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(call(kGenerateMethod, {too_large}).status.error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
}

// 64 MiB of zeros are small on the wire.
TEST_F(HostileConnectionsTest, CompressedMessagesCountAsTheyAre) {
  const std::string large(64 << 20, '\0');
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const auto compress = [algorithm](ClientContext& context) {
      context.set_compression_algorithm(algorithm);
    };
    EXPECT_EQ(call(kGetPipelineMethod, {large}, compress).status.error_code(),
              StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_TRUE(get_pipeline(compress).status.ok());
  }
}

TEST_F(HostileConnectionsTest, AnyNumberOfMessages) {
  const std::string request = wire_bytes(1, "pipelines/tiny");
  const RawAnswer none = call(kGetPipelineMethod, {});
  EXPECT_EQ(none.status.error_code(), StatusCode::INVALID_ARGUMENT)
      << describe(none.status);
  EXPECT_EQ(parse_details(none.status).reason, "UNPARSABLE_REQUEST");
  const RawAnswer none_streamed = call(kGenerateMethod, {});
  EXPECT_EQ(none_streamed.status.error_code(), StatusCode::INVALID_ARGUMENT)
      << describe(none_streamed.status);
  // A message of no bytes is an empty request.
  EXPECT_EQ(parse_details(call(kGetPipelineMethod, {""}).status).reason,
            "INVALID_FIELD");
  EXPECT_EQ(parse_details(call(kGenerateMethod, {""}).status).reason,
            "INVALID_FIELD");
  // gRPC reads one.
  const RawAnswer two = call(kGetPipelineMethod, {request, request});
  EXPECT_TRUE(two.status.ok()) << describe(two.status);
}

TEST_F(HostileConnectionsTest, MethodsThatAreNotThere) {
  for (const std::string& method :
       {std::string("/ferry.v1.GenerationService/Nothing"),
        std::string("/ferry.v1.Nothing/Generate"),
        std::string("/ferry.worker.v1.WorkerService/LoadPipeline"),
        std::string("/"), std::string("//"), std::string("/a/b/c/d"),
        std::string("/ferry.v1.GenerationService/Generate/"),
        std::string("/ferry.v1.GenerationService/../Generate"),
        "/" + std::string(4096, 'm')}) {
    SCOPED_TRACE(method);
    const RawAnswer answer = call(method, {""});
    EXPECT_EQ(answer.status.error_code(), StatusCode::UNIMPLEMENTED)
        << describe(answer.status);
    EXPECT_THAT(answer.messages, IsEmpty());
  }
}

// A message that is legal and cannot be taken apart in bounded depth.
TEST_F(HostileConnectionsTest, NestingWithoutEnd) {
  // Struct.fields["x"].struct_value.fields["x"]…, 2,000 deep, and as lists.
  for (const int value_field : {5, 6}) {
    std::string value;
    for (int i = 0; i < 2000; ++i) {
      // A Value in a list stands by itself, in a Struct in an entry.
      value = wire_bytes(
          value_field,
          value_field == 6
              ? wire_bytes(1, value)
              : wire_bytes(1, wire_bytes(1, "x") + wire_bytes(2, value)));
    }
    const std::string request = wire_bytes(
        1, wire_bytes(
               19, wire_bytes(1, wire_bytes(1, "x") + wire_bytes(2, value))));
    const RawAnswer answer = call(kGenerateMethod, {request});
    EXPECT_EQ(answer.status.error_code(), StatusCode::INVALID_ARGUMENT)
        << describe(answer.status);
    EXPECT_EQ(parse_details(answer.status).reason, "UNPARSABLE_REQUEST");
  }
}

// Several members of a oneof: the last one counts, none of them crashes.
TEST_F(HostileConnectionsTest, MembersOfAOneofTogether) {
  const std::string value = wire_varint(1, 0) + wire_fixed64(2, 1) +
                            wire_bytes(3, "x") + wire_varint(4, 1) +
                            wire_bytes(5, "") + wire_bytes(6, "") +
                            wire_bytes(5, wire_bytes(1, wire_bytes(1, "y")));
  v1::GenerateRequest base = make_request();
  const std::string request =
      base.SerializeAsString() +
      wire_bytes(1, wire_bytes(19, wire_bytes(1, wire_bytes(1, "x") +
                                                     wire_bytes(2, value))));
  const RawAnswer answer = call(kGenerateMethod, {request});
  EXPECT_EQ(parse_details(answer.status).reason, "FIELD_NOT_SUPPORTED")
      << describe(answer.status);
}

// Sends bytes over a connection of its own and reads until the server closes
// it, or is silent for a moment.
void send_bytes(const std::string& address, absl::string_view bytes) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(parts.back(), &port)) << address;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(fd, 0);
  const timeval patience{0, 100'000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(static_cast<uint16_t>(port));
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&server), sizeof(server)),
      0);
  // Fails when the server has seen enough.
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    char buffer[4096];
    while (recv(fd, buffer, sizeof(buffer), 0) > 0) {
    }
  }
  close(fd);
}

TEST_F(HostileConnectionsTest, BytesThatAreNoHttp2) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\x04\0\0\0\0\0", 9);
  std::string all_bytes;
  for (int i = 0; i < 4096; ++i) all_bytes.push_back(static_cast<char>(i * 7));
  const std::vector<std::string> attempts = {
      "\n",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00", 7),
      all_bytes,
      preface.substr(0, 10),
      preface,
      preface + all_bytes,
      preface + settings + std::string("\xFF\xFF\xFF\x01\x04\0\0\0\x01", 9),
      // A header block that refers to an entry that is not there.
      preface + settings + std::string("\0\0\x01\x01\x05\0\0\0\x01\xFE", 10),
      // Data of a stream that was not opened; a window of no bytes.
      preface + settings + std::string("\0\0\x01\0\x01\0\0\0\x01x", 10),
      preface + settings + std::string("\0\0\x04\x08\0\0\0\0\0\0\0\0\0", 13),
      preface + settings + std::string("\0\0\x08\x06\0\0\0\0\x05pingping", 17),
  };
  for (const std::string& address :
       {daemon().address(), daemon().health_address()}) {
    for (const std::string& bytes : attempts) send_bytes(address, bytes);
  }
}

}  // namespace
}  // namespace ferry
