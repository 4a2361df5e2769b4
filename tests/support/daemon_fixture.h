#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/closing_check.h"
#include "tests/support/daemon.h"

namespace ferry {

// A test that has daemons of its own. Each is closed at the test's end.
class DaemonFixture : public ::testing::Test {
 protected:
  // Starts ferryd and waits until it is ready. Throws when it does not get
  // ready, which ends and fails the test.
  Daemon& start_ready(const Daemon::Options& options) {
    Daemon& daemon = start(options);
    if (!daemon.wait_until_ready()) {
      throw std::runtime_error("ferryd does not get ready: " + daemon.log());
    }
    return daemon;
  }

  // Starts ferryd and waits for nothing.
  Daemon& start(const Daemon::Options& options) {
    daemon_ = std::make_unique<Daemon>(options);
    expected_exit_ = 0;
    return *daemon_;
  }

  // The daemon ends with another code than 0.
  void expect_exit(int code) { expected_exit_ = code; }

  void TearDown() override {
    if (daemon_ == nullptr) return;
    if (daemon_->process().is_running() && daemon_->ready_sockets() > 0 &&
        expected_exit_ == 0) {
      expect_idle(*daemon_);
    }
    expect_closes(*daemon_, expected_exit_);
  }

 private:
  std::unique_ptr<Daemon> daemon_;
  int expected_exit_ = 0;
};

// Tests that share one daemon: `Suite` derives from it and has a static
// `Daemon::Options options()`. After each test the daemon is idle, after the
// last one it is closed.
template <typename Suite>
class SharedDaemonFixture : public ::testing::Test {
 public:
  static void SetUpTestSuite() {
    daemon_ = new Daemon(Suite::options());
    ASSERT_TRUE(daemon_->wait_until_ready()) << daemon_->log();
  }

  static void TearDownTestSuite() {
    expect_closes(*daemon_);
    delete daemon_;
    daemon_ = nullptr;
  }

 protected:
  static Daemon& daemon() { return *daemon_; }
  static v1::GenerationService::Stub& generation() {
    return daemon_->generation();
  }

  void SetUp() override {
    ASSERT_TRUE(daemon_->process().is_running()) << daemon_->log();
  }
  void TearDown() override { expect_idle(*daemon_); }

 private:
  static inline Daemon* daemon_ = nullptr;
};

}  // namespace ferry
