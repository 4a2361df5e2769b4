#include "platform/distributed/tcp_store/tcp_store.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/distributed/store.h"
#include "platform/distributed/testing/store_conformance.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kGenerous = absl::Seconds(60);

class TcpViews final : public StoreViews {
 public:
  Store& view(int rank) override { return rank == 0 ? *first_ : *second_; }

 private:
  std::unique_ptr<TcpStoreServer> server_ =
      *TcpStoreServer::start("127.0.0.1", 0);
  std::unique_ptr<TcpStore> first_ =
      *TcpStore::connect("127.0.0.1", server_->port(), kGenerous);
  std::unique_ptr<TcpStore> second_ =
      *TcpStore::connect("localhost", server_->port(), kGenerous);
};

INSTANTIATE_TEST_SUITE_P(Tcp, StoreConformanceTest, testing::Values([] {
                           return std::make_unique<TcpViews>();
                         }));

TEST(TcpStoreTest, ListensAtItsAddressOnly) {
  const auto server = *TcpStoreServer::start("127.0.0.2", 0);
  EXPECT_TRUE(TcpStore::connect("127.0.0.2", server->port(), kGenerous).ok());
  const absl::StatusOr<std::unique_ptr<TcpStore>> elsewhere =
      TcpStore::connect("127.0.0.1", server->port(), absl::Milliseconds(1));
  EXPECT_EQ(elsewhere.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(elsewhere.status().message()),
              HasSubstr("127.0.0.1:"));
}

TEST(TcpStoreTest, AnAddressThatIsNotThisHostsIsRefused) {
  for (const char* const address : {"192.0.2.1", "no-number", ""}) {
    const absl::Status status = TcpStoreServer::start(address, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

TEST(TcpStoreTest, APortThatIsTakenIsNamed) {
  const auto server = *TcpStoreServer::start("127.0.0.1", 0);
  const absl::Status status =
      TcpStoreServer::start("127.0.0.1", server->port()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST(TcpStoreTest, WhatTheServerWouldDropIsRefused) {
  const auto server = *TcpStoreServer::start("127.0.0.1", 0);
  const auto store = *TcpStore::connect("127.0.0.1", server->port(), kGenerous);
  EXPECT_EQ(store->set("key", std::string((8 << 20) + 1, 'x')).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->set(std::string(9000, 'k'), "value").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(store->set("key", std::string(8 << 20, 'x')).ok());
}

TEST(TcpStoreTest, AServerThatIsGoneIsUnavailable) {
  auto server = *TcpStoreServer::start("127.0.0.1", 0);
  const auto store = *TcpStore::connect("127.0.0.1", server->port(), kGenerous);
  ASSERT_TRUE(store->set("key", "value").ok());
  std::thread waits([&] {
    EXPECT_EQ(store->get("never", kGenerous).status().code(),
              absl::StatusCode::kUnavailable);
  });
  server.reset();
  waits.join();
  EXPECT_EQ(store->add("number", 1).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->set("key", "other").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->get("key", kGenerous).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ferry
