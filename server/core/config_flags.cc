#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/core/config_loader.h"
#include "server/core/proto_time.h"

namespace ferry {
namespace {

using google::protobuf::FieldDescriptor;

absl::Status flag_error(absl::string_view name, absl::string_view rule,
                        absl::string_view value) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, ": must be ", rule, ", got \"", value, "\""));
}

bool parse_bytes(absl::string_view text, int64_t* result) {
  int shift = 0;
  if (absl::ConsumeSuffix(&text, "Ki")) {
    shift = 10;
  } else if (absl::ConsumeSuffix(&text, "Mi")) {
    shift = 20;
  } else if (absl::ConsumeSuffix(&text, "Gi")) {
    shift = 30;
  }
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0 ||
      number > (INT64_MAX >> shift)) {
    return false;
  }
  *result = number << shift;
  return true;
}

absl::Status set_duration(absl::string_view name, absl::string_view value,
                          const FieldDescriptor* field,
                          config::v1::ServerConfig* config) {
  absl::Duration duration;
  if (!absl::ParseDuration(value, &duration) ||
      duration == absl::InfiniteDuration() ||
      duration == -absl::InfiniteDuration()) {
    return flag_error(name, "a duration such as 1m30s", value);
  }
  config->GetReflection()
      ->MutableMessage(config, field)
      ->CopyFrom(to_proto(duration));
  return absl::OkStatus();
}

absl::Status set_scalar(absl::string_view name, absl::string_view value,
                        const FieldDescriptor* field,
                        config::v1::ServerConfig* config) {
  const google::protobuf::Reflection* reflection = config->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool flag = false;
      if (!absl::SimpleAtob(value, &flag)) {
        return flag_error(name, "true or false", value);
      }
      reflection->SetBool(config, field, flag);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t number = 0;
      if (!absl::SimpleAtoi(value, &number)) {
        return flag_error(name, "an integer", value);
      }
      reflection->SetInt32(config, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number = 0;
      if (!absl::SimpleAtod(value, &number)) {
        return flag_error(name, "a number", value);
      }
      reflection->SetDouble(config, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t number = 0;
      const bool bytes =
          absl::EndsWith(name, "_bytes") || absl::EndsWith(name, "_memory");
      if (bytes ? !parse_bytes(value, &number)
                : !absl::SimpleAtoi(value, &number)) {
        return flag_error(
            name, bytes ? "a number of bytes such as 64Mi" : "an integer",
            value);
      }
      reflection->SetInt64(config, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return set_duration(name, value, field, config);
    default:
      reflection->SetString(config, field, std::string(value));
      return absl::OkStatus();
  }
}

absl::Status set_pipelines(absl::string_view value,
                           config::v1::ServerConfig* config) {
  std::map<std::string, config::v1::PipelineConfig> known;
  for (const auto& pipeline : config->pipelines()) {
    known.emplace(pipeline.name(), pipeline);
  }
  config->clear_pipelines();
  for (const absl::string_view entry : absl::StrSplit(value, ',')) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    if (parts.first.empty() || parts.second.empty()) {
      return flag_error("pipeline", "NAME=DIR[,NAME=DIR…]", value);
    }
    config::v1::PipelineConfig& pipeline = *config->add_pipelines();
    pipeline = known[parts.first];
    pipeline.set_name(parts.first);
    pipeline.set_path(parts.second);
  }
  return absl::OkStatus();
}

using SetNumber = void (config::v1::PipelineConfig::*)(int32_t);

// N for every pipeline, or NAME=N[,NAME=N…].
absl::Status set_for_pipelines(absl::string_view name, absl::string_view value,
                               SetNumber set,
                               config::v1::ServerConfig* config) {
  int32_t number = 0;
  if (absl::SimpleAtoi(value, &number)) {
    for (auto& pipeline : *config->mutable_pipelines()) {
      (pipeline.*set)(number);
    }
    return absl::OkStatus();
  }
  for (const absl::string_view entry : absl::StrSplit(value, ',')) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    if (!absl::SimpleAtoi(parts.second, &number)) {
      return flag_error(name, "N or NAME=N[,NAME=N…]", value);
    }
    bool found = false;
    for (auto& pipeline : *config->mutable_pipelines()) {
      if (pipeline.name() != parts.first) continue;
      (pipeline.*set)(number);
      found = true;
    }
    if (!found) return flag_error(name, "of a served pipeline", entry);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status apply_flag(absl::string_view name, absl::string_view value,
                        config::v1::ServerConfig* config) {
  if (name == "pipeline") return set_pipelines(value, config);
  if (name == "ranks") {
    return set_for_pipelines(name, value,
                             &config::v1::PipelineConfig::set_ranks, config);
  }
  if (name == "external_ranks") {
    return set_for_pipelines(
        name, value, &config::v1::PipelineConfig::set_external_ranks, config);
  }
  const FieldDescriptor* field =
      config->GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr || field->is_repeated()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": there is no such setting"));
  }
  return set_scalar(name, value, field, config);
}

std::vector<std::string> config_flag_names() {
  std::vector<std::string> names = {"pipeline", "ranks", "external_ranks"};
  const auto* descriptor = config::v1::ServerConfig::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    if (!descriptor->field(i)->is_repeated()) {
      names.push_back(descriptor->field(i)->name());
    }
  }
  return names;
}

}  // namespace ferry
