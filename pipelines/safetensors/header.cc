#include "pipelines/safetensors/header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/json/git_lfs.h"
#include "pipelines/json/strict_json.h"
#include "pipelines/safetensors/problems.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr int64_t kLengthBytes = 8;
// As deep as the reference implementation reads what it has no use for.
constexpr int kDepth = 128;
constexpr char kMetadata[] = "__metadata__";

std::optional<int64_t> to_int64(const nlohmann::json& value) {
  // What is negative, has a point or is too large for 64 bits is none.
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

// Nothing unless it is a list of such numbers.
std::optional<std::vector<int64_t>> to_list(const nlohmann::json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const nlohmann::json& item : value) {
    const std::optional<int64_t> number = to_int64(item);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// Nothing when it has no 64 bits.
std::optional<int64_t> dense_bytes(const std::vector<int64_t>& shape,
                                   int64_t element) {
  int64_t bytes = element;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// Does the work of parse_safetensors_header().
class Reader {
 public:
  // The data takes `data_bytes` bytes from `data_offset` of the file.
  Reader(int64_t data_offset, int64_t data_bytes)
      : data_offset_(data_offset), data_bytes_(data_bytes) {}

  absl::StatusOr<std::vector<SafetensorsEntry>> run(
      const nlohmann::json& header) {
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        check_metadata(value);
      } else {
        add(name, value);
      }
    }
    if (problems_.empty()) check_coverage();
    RETURN_IF_ERROR(problems_.status());
    for (SafetensorsEntry& entry : entries_) entry.offset += data_offset_;
    return std::move(entries_);
  }

 private:
  template <typename... Parts>
  void refuse(const std::string& name, const Parts&... parts) {
    problems_.add(absl::StrCat("tensor ", quote_name(name), ": ", parts...));
  }

  void check_metadata(const nlohmann::json& value) {
    const bool is_right =
        value.is_null() ||
        (value.is_object() &&
         std::all_of(value.begin(), value.end(),
                     [](const nlohmann::json& v) { return v.is_string(); }));
    if (!is_right) problems_.add("__metadata__ is no object of strings");
  }

  void add(const std::string& name, const nlohmann::json& value) {
    if (!value.is_object()) {
      refuse(name, "is no object with dtype, shape and data_offsets");
      return;
    }
    SafetensorsEntry entry;
    entry.name = name;
    const bool has_dtype = read_dtype(value, &entry);
    const bool has_shape = read_shape(value, &entry);
    const bool has_offsets = read_offsets(value, &entry);
    if (has_dtype && has_shape && has_offsets) check_bytes(entry);
    entries_.push_back(std::move(entry));
  }

  bool read_dtype(const nlohmann::json& value, SafetensorsEntry* entry) {
    const auto found = value.find("dtype");
    if (found == value.end() || !found->is_string()) {
      refuse(entry->name, "has no dtype (a string)");
      return false;
    }
    const auto& text = found->get_ref<const std::string&>();
    const auto dtype = parse_safetensors_dtype(text);
    if (!dtype) {
      refuse(entry->name, "has the dtype ", quote_name(text), "; known are ",
             safetensors_dtype_names());
      return false;
    }
    entry->dtype = *dtype;
    return true;
  }

  bool read_shape(const nlohmann::json& value, SafetensorsEntry* entry) {
    const auto found = value.find("shape");
    auto shape = found == value.end() ? std::nullopt : to_list(*found);
    if (!shape) {
      refuse(entry->name,
             "has no shape (a list of integers from 0 to 2^63 - 1)");
      return false;
    }
    entry->shape = *std::move(shape);
    return true;
  }

  bool read_offsets(const nlohmann::json& value, SafetensorsEntry* entry) {
    const auto found = value.find("data_offsets");
    const auto offsets = found == value.end() ? std::nullopt : to_list(*found);
    if (!offsets || offsets->size() != 2) {
      refuse(entry->name,
             "has no data_offsets (two integers from 0 to 2^63 - 1)");
      return false;
    }
    const int64_t begin = (*offsets)[0];
    const int64_t end = (*offsets)[1];
    if (begin > end) {
      refuse(entry->name, "ends at byte ", end, ", before it begins at ",
             begin);
      return false;
    }
    if (end > data_bytes_) {
      refuse(entry->name, "ends at byte ", end, " of the data, of which the ",
             "file holds ", data_bytes_, ": it is truncated, or not this one");
      return false;
    }
    entry->offset = begin;
    entry->bytes = end - begin;
    return true;
  }

  void check_bytes(const SafetensorsEntry& entry) {
    const auto needed = dense_bytes(entry.shape, element_bytes(entry.dtype));
    if (needed == entry.bytes) return;
    const std::string shape = absl::StrCat(
        to_string(entry.dtype), " [", absl::StrJoin(entry.shape, ", "), "]");
    if (!needed) {
      refuse(entry.name, "has more bytes than 2^63: ", shape);
    } else {
      refuse(entry.name, "takes ", entry.bytes, " bytes, but ", shape,
             " needs ", *needed);
    }
  }

  // Each byte of the data belongs to one tensor.
  void check_coverage() {
    std::sort(entries_.begin(), entries_.end(),
              [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                return std::tie(a.offset, a.bytes, a.name) <
                       std::tie(b.offset, b.bytes, b.name);
              });
    int64_t covered = 0;
    const std::string* last = nullptr;
    for (const SafetensorsEntry& entry : entries_) {
      if (entry.offset > covered) {
        refuse(entry.name, "begins at byte ", entry.offset, ", and bytes ",
               covered, " to ", entry.offset, " belong to no tensor");
      } else if (entry.offset < covered) {
        refuse(entry.name, "begins at byte ", entry.offset,
               " and overlaps tensor ", quote_name(*last), ", which ends at ",
               covered);
      }
      if (entry.offset + entry.bytes >= covered) {
        covered = entry.offset + entry.bytes;
        last = &entry.name;
      }
    }
    if (covered < data_bytes_) {
      problems_.add(absl::StrCat("the last ", data_bytes_ - covered,
                                 " bytes belong to no tensor"));
    }
  }

  const int64_t data_offset_;
  const int64_t data_bytes_;
  std::vector<SafetensorsEntry> entries_;
  Problems problems_;
};

}  // namespace

absl::StatusOr<int64_t> safetensors_header_end(absl::string_view start,
                                               int64_t file_bytes) {
  if (file_bytes < kLengthBytes || start.size() < size_t{kLengthBytes}) {
    return absl::InvalidArgumentError(
        absl::StrCat("is truncated: it has ", file_bytes,
                     " bytes, and its header's length takes 8"));
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(start[i]);
  }
  if (length > uint64_t{kMaxSafetensorsHeaderBytes}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is no safetensors file: its header would have ", length,
        " bytes, and at most ", kMaxSafetensorsHeaderBytes, " are allowed"));
  }
  const auto header = static_cast<int64_t>(length);
  if (header > file_bytes - kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("is truncated: its header has ", header, " bytes, and ",
                     file_bytes - kLengthBytes, " follow the length"));
  }
  return kLengthBytes + header;
}

absl::StatusOr<std::vector<SafetensorsEntry>> parse_safetensors_header(
    absl::string_view start, int64_t file_bytes) {
  if (is_git_lfs_pointer(start)) {
    return absl::InvalidArgumentError(kGitLfsDefect);
  }
  ASSIGN_OR_RETURN(const int64_t end,
                   safetensors_header_end(start, file_bytes));
  const absl::string_view text =
      start.substr(kLengthBytes, static_cast<size_t>(end - kLengthBytes));
  auto header = parse_strict_json(text, kDepth);
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header ", header.status().message()));
  }
  return Reader(end, file_bytes - end).run(*header);
}

}  // namespace ferry
