#include "platform/os/tcp_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kGenerous = absl::Seconds(30);
constexpr absl::Duration kMoment = absl::Milliseconds(20);

class TcpSocketTest : public ::testing::Test {
 protected:
  // Both ends of a connection to `host`, from `from`.
  std::pair<UniqueFd, UniqueFd> connect(const std::string& host,
                                        const std::string& from = "") {
    listener_ = *listen_tcp({host, 0});
    UniqueFd client = *connect_tcp(*local_address(listener_), from, kGenerous);
    pollfd wait = {listener_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&wait, 1, -1), 1);
    return {std::move(client), *accept_tcp(listener_)};
  }

  UniqueFd listener_;
};

TEST_F(TcpSocketTest, TellsTheAddressesOfBothEnds) {
  const auto [client, server] = connect("127.0.0.1", "127.0.0.2");
  EXPECT_EQ(local_address(client)->host, "127.0.0.2");
  EXPECT_EQ(peer_address(server)->host, "127.0.0.2");
  EXPECT_EQ(local_address(server)->host, "127.0.0.1");
  EXPECT_EQ(peer_address(client)->to_string(),
            local_address(listener_)->to_string());
}

TEST_F(TcpSocketTest, SeesTheEndWhileThereIsSomethingToRead) {
  auto [client, server] = connect("127.0.0.1");
  ASSERT_EQ(send(client.get(), "x", 1, 0), 1);
  EXPECT_FALSE(wait_for_end_of(server, kMoment));
  client.reset();
  EXPECT_TRUE(wait_for_end_of(server, kGenerous));
  char byte = 0;
  EXPECT_EQ(recv(server.get(), &byte, 1, 0), 1);
}

TEST_F(TcpSocketTest, SeesItsOwnEndOfAConnection) {
  const auto [client, server] = connect("127.0.0.1");
  shutdown(server.get(), SHUT_RDWR);
  EXPECT_TRUE(wait_for_end_of(server, kGenerous));
  EXPECT_TRUE(wait_for_end_of(client, kGenerous));
}

TEST_F(TcpSocketTest, WithoutAConnectionThereIsNoneToTake) {
  listener_ = *listen_tcp({"127.0.0.1", 0});
  EXPECT_TRUE(absl::IsUnavailable(accept_tcp(listener_).status()));
}

TEST_F(TcpSocketTest, SaysWhyNobodyCanBeReached) {
  listener_ = *listen_tcp({"127.0.0.1", 0});
  const HostPort address = *local_address(listener_);
  EXPECT_TRUE(absl::IsInvalidArgument(
      connect_tcp(address, "192.0.2.1", kGenerous).status()));
  listener_.reset();
  const absl::Status refused = connect_tcp(address, "", kGenerous).status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("refused"));
}

TEST_F(TcpSocketTest, ListensOnFreeAddressesOfThisHostOnly) {
  listener_ = *listen_tcp({"127.0.0.1", 0});
  EXPECT_TRUE(
      absl::IsUnavailable(listen_tcp(*local_address(listener_)).status()));
  const absl::Status foreign = listen_tcp({"192.0.2.1", 0}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(foreign));
  EXPECT_THAT(std::string(foreign.message()),
              HasSubstr("cannot listen on 192.0.2.1:0"));
}

TEST_F(TcpSocketTest, ListensAtItsAddressOnceItsOwnerWants) {
  const UniqueFd bound = *bind_tcp({"127.0.0.1", 0});
  EXPECT_TRUE(fcntl(bound.get(), F_GETFD) & FD_CLOEXEC);
  const HostPort address = *local_address(bound);
  EXPECT_EQ(address.host, "127.0.0.1");
  EXPECT_GT(address.port, 0);
  EXPECT_FALSE(connect_tcp(address, "", kGenerous).ok());
  ASSERT_EQ(listen(bound.get(), 8), 0);
  EXPECT_TRUE(connect_tcp(address, "", kGenerous).ok());
}

}  // namespace
}  // namespace ferry
