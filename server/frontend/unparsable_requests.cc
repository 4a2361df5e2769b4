#include "server/frontend/unparsable_requests.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "platform/base/logging.h"
#include "server/core/errors.h"
#include "server/ipc/foreign_logs.h"
#include "server/ipc/grpc_status.h"

namespace ferry {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

class UnparsableRequest final : public grpc::experimental::Interceptor {
 public:
  explicit UnparsableRequest(absl::string_view method) : method_(method) {}

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() == nullptr) {
      // Parsing has just failed, on this thread.
      unparsable_ = true;
      invalid_text_ = take_invalid_text_field();
    }
    // Another code is gRPC's own, such as that all its threads are busy.
    if (unparsable_ &&
        methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS) &&
        methods->GetSendStatus().error_code() == grpc::StatusCode::INTERNAL) {
      const absl::Status status = unparsable_request(invalid_text_);
      log_info("call", {{"grpc_method", method_},
                        {"grpc_code", absl::StatusCodeToString(status.code())},
                        {"error", status.message()}});
      methods->ModifySendStatus(to_grpc_status(status));
    }
    methods->Proceed();
  }

 private:
  const absl::string_view method_;
  bool unparsable_ = false;
  std::string invalid_text_;
};

}  // namespace

grpc::experimental::Interceptor* UnparsableRequests::CreateServerInterceptor(
    ServerRpcInfo* info) {
  // The others read their requests as they please.
  if (info->type() != ServerRpcInfo::Type::UNARY &&
      info->type() != ServerRpcInfo::Type::SERVER_STREAMING) {
    return nullptr;
  }
  return new UnparsableRequest(absl::StripPrefix(info->method(), "/"));
}

}  // namespace ferry
