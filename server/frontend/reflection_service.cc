#include "server/frontend/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/errors.h"

namespace ferry {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

void set_not_found(const std::string& what,
                   ServerReflectionResponse* response) {
  auto* error = response->mutable_error_response();
  error->set_error_code(grpc::StatusCode::NOT_FOUND);
  error->set_error_message("not found: " + what);
}

// Adds a file and what it imports, each once.
void add_file(const FileDescriptor* file, std::set<std::string>* sent,
              FileDescriptorResponse* response) {
  if (!sent->insert(file->name()).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  proto.SerializeToString(response->add_file_descriptor_proto());
  for (int i = 0; i < file->dependency_count(); ++i) {
    add_file(file->dependency(i), sent, response);
  }
}

void set_file(const FileDescriptor* file, const std::string& what,
              std::set<std::string>* sent, ServerReflectionResponse* response) {
  if (file == nullptr) return set_not_found(what, response);
  // The file that was asked for comes also when the client has it.
  sent->erase(file->name());
  add_file(file, sent, response->mutable_file_descriptor_response());
}

void set_extension_numbers(const std::string& type,
                           ServerReflectionResponse* response) {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  const Descriptor* message = pool->FindMessageTypeByName(type);
  if (message == nullptr) return set_not_found(type, response);
  auto* numbers = response->mutable_all_extension_numbers_response();
  numbers->set_base_type_name(type);
  std::vector<const FieldDescriptor*> extensions;
  pool->FindAllExtensions(message, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    numbers->add_extension_number(extension->number());
  }
}

const FileDescriptor* find_extension_file(
    const grpc::reflection::v1alpha::ExtensionRequest& request) {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  const Descriptor* message =
      pool->FindMessageTypeByName(request.containing_type());
  if (message == nullptr) return nullptr;
  const FieldDescriptor* extension =
      pool->FindExtensionByNumber(message, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

}  // namespace

ReflectionService::ReflectionService(std::vector<std::string> services,
                                     CallLog* calls, StreamLimiter* streams)
    : services_(std::move(services)), calls_(calls), streams_(streams) {}

grpc::Status ReflectionService::ServerReflectionInfo(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<ServerReflectionResponse, ServerReflectionRequest>*
        stream) {
  const auto handler = [&](CallNotes&) -> absl::Status {
    const StreamLimiter::Ticket ticket = streams_->enter();
    if (!ticket) return too_many_streams(streams_->limit(), absl::Seconds(1));
    std::set<std::string> sent;
    ServerReflectionRequest request;
    while (stream->Read(&request)) {
      if (!stream->Write(answer(request, &sent))) break;
    }
    return absl::OkStatus();
  };
  return calls_->run(
      "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", *context,
      handler, LogLevel::kDebug);
}

ServerReflectionResponse ReflectionService::answer(
    const ServerReflectionRequest& request, std::set<std::string>* sent) const {
  const DescriptorPool* pool = DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      set_file(pool->FindFileByName(request.file_by_filename()),
               request.file_by_filename(), sent, &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      set_file(pool->FindFileContainingSymbol(request.file_containing_symbol()),
               request.file_containing_symbol(), sent, &response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      set_file(find_extension_file(request.file_containing_extension()),
               request.file_containing_extension().containing_type(), sent,
               &response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      set_extension_numbers(request.all_extension_numbers_of_type(), &response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services_) {
        response.mutable_list_services_response()->add_service()->set_name(
            name);
      }
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(
          grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message(
          "message_request: must be set");
      break;
  }
  return response;
}

}  // namespace ferry
