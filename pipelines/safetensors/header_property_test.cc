// Headers of random tensors are read as they were written, and a header with
// one wrong number is refused.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipelines/safetensors/header.h"
#include "pipelines/safetensors/testing/safetensors_writer.h"

namespace ferry {
namespace {

constexpr int kRounds = 400;

class RandomFile {
 public:
  explicit RandomFile(uint64_t seed) : random_(seed) {
    const size_t count = draw(12);
    for (size_t i = 0; i < count; ++i) {
      SafetensorsEntry entry;
      entry.name = absl::StrCat("block.", draw(9), ".w", i);
      entry.dtype = static_cast<SafetensorsDtype>(draw(16));
      entry.bytes = element_bytes(entry.dtype);
      for (size_t d = draw(5); d > 0; --d) {
        entry.shape.push_back(static_cast<int64_t>(draw(6)));
        entry.bytes *= entry.shape.back();
      }
      entry.offset = bytes;
      bytes += entry.bytes;
      entries.push_back(entry);
    }
  }

  size_t draw(size_t count) { return random_() % count; }

  // In an order that has nothing to do with the data's.
  nlohmann::json header() {
    nlohmann::json json = nlohmann::json::object();
    for (const SafetensorsEntry& entry : entries) {
      json[entry.name] = {
          {"dtype", std::string(to_string(entry.dtype))},
          {"shape", entry.shape},
          {"data_offsets", {entry.offset, entry.offset + entry.bytes}}};
    }
    return json;
  }

  std::vector<SafetensorsEntry> entries;
  int64_t bytes = 0;

 private:
  std::mt19937_64 random_;
};

absl::StatusOr<std::vector<SafetensorsEntry>> parse(const std::string& header,
                                                    int64_t data_bytes) {
  const std::string start = with_header_length(header);
  return parse_safetensors_header(
      start, static_cast<int64_t>(start.size()) + data_bytes);
}

TEST(SafetensorsHeaderProperty, WhatIsWrittenIsRead) {
  for (uint64_t seed = 0; seed < kRounds; ++seed) {
    RandomFile file(seed);
    const std::string text =
        file.header().dump(static_cast<int>(file.draw(3)) - 1);
    const auto parsed = parse(text, file.bytes);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
    ASSERT_EQ(parsed->size(), file.entries.size());
    std::map<std::string, const SafetensorsEntry*> by_name;
    for (const SafetensorsEntry& entry : *parsed) by_name[entry.name] = &entry;
    for (const SafetensorsEntry& expected : file.entries) {
      const auto found = by_name.find(expected.name);
      ASSERT_NE(found, by_name.end()) << expected.name;
      EXPECT_EQ(found->second->dtype, expected.dtype);
      EXPECT_EQ(found->second->shape, expected.shape);
      EXPECT_EQ(found->second->bytes, expected.bytes);
      EXPECT_EQ(found->second->offset,
                expected.offset + static_cast<int64_t>(text.size()) + 8);
    }
  }
}

TEST(SafetensorsHeaderProperty, OneWrongNumberIsFound) {
  int refused = 0;
  for (uint64_t seed = 0; seed < kRounds; ++seed) {
    RandomFile file(seed);
    if (file.entries.empty() || file.bytes == 0) continue;
    nlohmann::json header = file.header();
    // One that has bytes, so that every change matters.
    size_t index = file.draw(file.entries.size());
    while (file.entries[index].bytes == 0) {
      index = (index + 1) % file.entries.size();
    }
    nlohmann::json& entry = header[file.entries[index].name];
    const int64_t change = 1 + static_cast<int64_t>(file.draw(3));
    switch (file.draw(4)) {
      case 0:
        entry["shape"].push_back(change + 1);
        break;
      case 1:
        entry["data_offsets"][0] = file.entries[index].offset + change;
        break;
      case 2:
        entry["data_offsets"][1] =
            file.entries[index].offset + file.entries[index].bytes + change;
        break;
      default:
        header.erase(file.entries[index].name);
        break;
    }
    EXPECT_FALSE(parse(header.dump(), file.bytes).ok()) << header.dump();
    ++refused;
  }
  EXPECT_GT(refused, kRounds / 2);
}

TEST(SafetensorsHeaderProperty, EveryTruncationIsFound) {
  RandomFile file(3);
  const std::string start = with_header_length(file.header().dump()) +
                            std::string(static_cast<size_t>(file.bytes), 'x');
  for (size_t bytes = 0; bytes < start.size(); ++bytes) {
    EXPECT_FALSE(parse_safetensors_header(start.substr(0, bytes),
                                          static_cast<int64_t>(bytes))
                     .ok())
        << bytes;
  }
  EXPECT_TRUE(
      parse_safetensors_header(start, static_cast<int64_t>(start.size())).ok());
}

}  // namespace
}  // namespace ferry
