#include "platform/distributed/gloo/gloo_rendezvous.h"

#include <gloo/rendezvous/store.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/attr.h>
#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/deadline.h"
#include "platform/os/tcp_socket.h"

namespace ferry {
namespace {

// Gloo waits so many times longer than it is told when it connects.
constexpr int kConnectFactor = 5;

// Ends Gloo's rendezvous; the store keeps why.
class StoreFailed final : public std::exception {
 public:
  const char* what() const noexcept override { return "the store failed"; }
};

// Our store, as Gloo sees it. Gloo asks for the ranks one after the other, in
// order, and connects with each before it asks for the next.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  GlooStore(ferry::Store& store, absl::Duration timeout)
      : store_(store), timeout_(timeout), deadline_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    check(store_.set(full(key), absl::string_view(data.data(), data.size())));
  }
  std::vector<char> get(const std::string& key) override {
    asked_for_ = key;
    const absl::StatusOr<std::string> value =
        store_.get(full(key), deadline_.left());
    check(value.status());
    return {value->begin(), value->end()};
  }
  // get() waits.
  void wait(const std::vector<std::string>& /*keys*/) override {}

  const absl::Status& status() const { return status_; }
  // Whom Gloo waited for when it failed.
  std::string describe() const {
    return absl::StrCat("rank ", asked_for_, " after ",
                        absl::FormatDuration(timeout_));
  }
  bool is_late() const { return deadline_.has_passed(); }

 private:
  static std::string full(const std::string& key) {
    return absl::StrCat("gloo/", key);
  }
  void check(const absl::Status& status) {
    if (status.ok()) return;
    status_ = status;
    throw StoreFailed();
  }

  ferry::Store& store_;
  const absl::Duration timeout_;
  const Deadline deadline_;
  std::string asked_for_;
  absl::Status status_;
};

absl::Status check_sigpipe() {
  struct sigaction action = {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 &&
      action.sa_handler == SIG_IGN) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "Gloo: SIGPIPE must be ignored, else a rank dies with its peer");
}

// Asked before Gloo is, which leaks memory where it fails.
absl::Status check_place(const GlooOptions& options) {
  if (options.interface.empty()) {
    return bind_tcp({options.address, 0}).status();
  }
  if (::if_nametoindex(options.interface.c_str()) != 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("there is none of this name");
}

absl::StatusOr<std::shared_ptr<gloo::transport::Device>> make_device(
    const GlooOptions& options) {
  const std::string what = absl::StrCat(
      "Gloo cannot listen at ",
      options.interface.empty() ? "address" : "interface", " \"",
      options.interface.empty() ? options.address : options.interface,
      "\"; it must be one of this host: ");
  if (const absl::Status status = check_place(options); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(what, status.message()));
  }
  gloo::transport::tcp::attr attributes;
  attributes.iface = options.interface;
  if (options.interface.empty()) attributes.hostname = options.address;
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(what, error.what()));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<gloo::rendezvous::Context>> connect_gloo(
    Store& store, int rank, int size, const GlooOptions& options) {
  RETURN_IF_ERROR(check_sigpipe());
  ASSIGN_OR_RETURN(std::shared_ptr<gloo::transport::Device> device,
                   make_device(options));
  GlooStore gloo_store(store, options.timeout);
  try {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    const int64_t milliseconds =
        absl::ToInt64Milliseconds(options.timeout) / kConnectFactor;
    context->setTimeout(
        std::chrono::milliseconds(std::max<int64_t>(milliseconds, 1)));
    context->connectFullMesh(gloo_store, device);
    return context;
  } catch (const StoreFailed&) {
    return absl::Status(gloo_store.status().code(),
                        absl::StrCat("rank ", rank, " of ", size,
                                     " did not find ", gloo_store.describe(),
                                     ": ", gloo_store.status().message()));
  } catch (const std::exception& error) {
    const std::string message =
        absl::StrCat("rank ", rank, " of ", size, " could not connect with ",
                     gloo_store.describe(), ": ", error.what());
    if (gloo_store.is_late()) return absl::DeadlineExceededError(message);
    return absl::UnavailableError(message);
  }
}

}  // namespace ferry
