#include "tests/inputs/raw_call.h"

#include <chrono>

#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace ferry {
namespace {

// Blocks until the one operation that is under way has ended.
bool wait(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue.Next(&tag, &ok) && ok;
}

std::string flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

RawAnswer call_raw(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    const std::vector<absl::string_view>& requests,
    const std::function<void(grpc::ClientContext& context)>& prepare) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  if (prepare) prepare(context);
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  bool open = wait(queue);
  for (const absl::string_view request : requests) {
    if (!open) break;
    const grpc::Slice slice(request.data(), request.size());
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    open = wait(queue);
  }
  if (open) {
    call->WritesDone(nullptr);
    wait(queue);
  }
  RawAnswer answer;
  while (true) {
    grpc::ByteBuffer message;
    call->Read(&message, nullptr);
    if (!wait(queue)) break;
    answer.messages.push_back(flatten(message));
  }
  call->Finish(&answer.status, nullptr);
  wait(queue);
  queue.Shutdown();
  wait(queue);
  return answer;
}

}  // namespace ferry
