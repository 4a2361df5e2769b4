#include "platform/os/bound_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace ferry {
namespace {

TEST(BoundSocket, ListensAtItsAddressOnceItsOwnerWants) {
  const absl::StatusOr<BoundSocket> bound = bind_to_loopback();
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_TRUE(fcntl(bound->fd.get(), F_GETFD) & FD_CLOEXEC);
  int port = 0;
  ASSERT_TRUE(
      absl::SimpleAtoi(absl::StripPrefix(bound->address, "127.0.0.1:"), &port));
  EXPECT_GT(port, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const auto dial = [&] {
    const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connect(client.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)) == 0;
  };
  EXPECT_FALSE(dial());
  EXPECT_EQ(errno, ECONNREFUSED);
  ASSERT_EQ(listen(bound->fd.get(), 8), 0);
  EXPECT_TRUE(dial());
}

TEST(BoundSocket, EachHasAPortOfItsOwn) {
  const auto first = bind_to_loopback();
  const auto second = bind_to_loopback();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->address, second->address);
}

}  // namespace
}  // namespace ferry
