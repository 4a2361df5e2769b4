#include "pipelines/safetensors/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/safetensors/testing/safetensors_writer.h"

namespace ferry {
namespace {

using testing::HasSubstr;

// A file of this header, and of so many bytes of data.
absl::StatusOr<std::vector<SafetensorsEntry>> parse(const std::string& header,
                                                    int64_t data_bytes) {
  const std::string start = with_header_length(header);
  return parse_safetensors_header(
      start, static_cast<int64_t>(start.size()) + data_bytes);
}

std::string error_of(const std::string& header, int64_t data_bytes) {
  const auto parsed = parse(header, data_bytes);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
      << header;
  return std::string(parsed.status().message());
}

std::string tensor(const std::string& name, const std::string& dtype,
                   const std::string& shape, const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":[",
                      shape, "],\"data_offsets\":[", offsets, "]}");
}

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheirData) {
  const std::string header = absl::StrCat(
      "{\"__metadata__\":{\"format\":\"pt\"},",
      tensor("b", "BF16", "2, 3", "4, 16"), ",", tensor("a", "F32", "", "0, 4"),
      ",", tensor("none", "I64", "0, 7", "16, 16"), "}   ");
  const auto parsed = parse(header, 16);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 3u);
  const auto start = static_cast<int64_t>(header.size()) + 8;
  EXPECT_EQ((*parsed)[0].name, "a");
  EXPECT_EQ((*parsed)[0].shape, std::vector<int64_t>());
  EXPECT_EQ((*parsed)[0].offset, start);
  EXPECT_EQ((*parsed)[0].bytes, 4);
  EXPECT_EQ((*parsed)[1].name, "b");
  EXPECT_EQ((*parsed)[1].dtype, SafetensorsDtype::kBF16);
  EXPECT_EQ((*parsed)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*parsed)[1].offset, start + 4);
  EXPECT_EQ((*parsed)[1].bytes, 12);
  EXPECT_EQ((*parsed)[2].bytes, 0);
}

TEST(SafetensorsHeader, KnowsEveryType) {
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, int>>{{"BOOL", 1},
                                                {"U8", 1},
                                                {"I8", 1},
                                                {"F8_E4M3", 1},
                                                {"F8_E5M2", 1},
                                                {"U16", 2},
                                                {"I16", 2},
                                                {"F16", 2},
                                                {"BF16", 2},
                                                {"U32", 4},
                                                {"I32", 4},
                                                {"F32", 4},
                                                {"U64", 8},
                                                {"I64", 8},
                                                {"F64", 8},
                                                {"C64", 8}}) {
    const auto parsed = parse(
        absl::StrCat("{", tensor("t", name, "3", absl::StrCat("0,", 3 * bytes)),
                     "}"),
        3 * bytes);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(to_string((*parsed)[0].dtype), name);
    EXPECT_EQ(element_bytes((*parsed)[0].dtype), bytes);
  }
}

TEST(SafetensorsHeader, TakesWhatTheReferenceImplementationTakes) {
  const std::string plain = tensor("a", "U8", "1", "0,1");
  const std::string more =
      "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"
      "\"strides\":[1],\"note\":{\"x\":{\"y\":[[null,1.5]]}}}";
  for (const std::string& header :
       {absl::StrCat("{\"__metadata__\":null,", plain, "}"),
        absl::StrCat("{\"__metadata__\":{},", plain, "}"),
        absl::StrCat("{", more, "}"), absl::StrCat(" \n{", plain, "}"),
        absl::StrCat("{", plain, "}\t\r\n ")}) {
    const auto parsed = parse(header, 1);
    ASSERT_TRUE(parsed.ok()) << header << ": " << parsed.status();
    EXPECT_EQ(parsed->size(), 1u);
  }
  const auto empty = parse("{\"__metadata__\":null}", 0);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->empty());
}

TEST(SafetensorsHeader, NothingStandsBehindTheObject) {
  const std::string object =
      absl::StrCat("{", tensor("a", "U8", "1", "0,1"), "}");
  const int64_t end = static_cast<int64_t>(object.size()) + 1;
  EXPECT_EQ(error_of(object + std::string(1, '\0'), 1),
            absl::StrCat("the header is no JSON from byte ", end,
                         " on: it holds a NUL"));
  EXPECT_EQ(error_of(object + std::string("\0{\"b\":7}", 9), 1),
            absl::StrCat("the header is no JSON from byte ", end,
                         " on: it holds a NUL"));
  for (const char* rest : {"x", "{}", ",", "]", "null", "//"}) {
    EXPECT_THAT(error_of(object + rest, 1), HasSubstr("is no JSON from byte"))
        << rest;
  }
}

TEST(SafetensorsHeader, CallsAPointerAndAByteOrderMarkByName) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n";
  EXPECT_EQ(
      parse_safetensors_header(pointer, static_cast<int64_t>(pointer.size()))
          .status()
          .message(),
      "is a Git LFS pointer; fetch the file with git lfs pull");
  EXPECT_EQ(error_of("\xEF\xBB\xBF{}", 0),
            "the header begins with a byte order mark (BOM) of UTF-8; save it "
            "as UTF-8 without one");
}

TEST(SafetensorsHeader, AnEmptyFileHasNoTensors) {
  const auto parsed = parse("{}", 0);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->empty());
}

TEST(SafetensorsHeader, RefusesATruncatedOrHugeHeader) {
  const auto error = [](const std::string& start, int64_t bytes) {
    return std::string(
        parse_safetensors_header(start, bytes).status().message());
  };
  EXPECT_EQ(error("", 0),
            "is truncated: it has 0 bytes, and its header's length takes 8");
  EXPECT_EQ(error("1234567", 7),
            "is truncated: it has 7 bytes, and its header's length takes 8");
  EXPECT_EQ(error(with_header_length("{}").substr(0, 9), 9),
            "is truncated: its header has 2 bytes, and 1 follow the length");
  EXPECT_THAT(error(std::string(8, '\xFF'), 1000),
              HasSubstr("would have 18446744073709551615 bytes, and at most "
                        "100000000 are allowed"));
  // 100,000,001, in a file that is large enough for it.
  EXPECT_THAT(error(std::string("\x01\xE1\xF5\x05\0\0\0\0", 8), 1LL << 30),
              HasSubstr("would have 100000001 bytes"));
}

TEST(SafetensorsHeader, RefusesWhatIsNoHeader) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the header is no JSON from byte 1 on"},
      {"{", "the header is no JSON from byte 2 on"},
      {"{} x", "the header is no JSON from byte 4 on"},
      {"[]", "the header is no JSON object"},
      {"\"text\"", "the header is no JSON object"},
      {"{\"\xFF\":1}", "the header is no UTF-8"},
      {absl::StrCat("{\"a\":", std::string(200, '['), std::string(200, ']'),
                    "}"),
       "the header nests deeper than 128 levels"},
      {"{\"a\":1e999}", "the header holds a number without bounds"},
      {"{\"a\":1,\"a\":2}", "the header has the key \"a\" twice"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\"}}",
       "the header has the key \"dtype\" twice"},
      {"{\"__metadata__\":{\"a\":1}}", "__metadata__ is no object of strings"},
      {"{\"__metadata__\":7}", "__metadata__ is no object of strings"},
      {"{\"a\":7}",
       "tensor \"a\": is no object with dtype, shape and data_offsets"},
  };
  for (const auto& [header, told] : cases) {
    EXPECT_EQ(error_of(header, 0), told);
  }
}

TEST(SafetensorsHeader, NamesEveryFieldThatIsWrong) {
  EXPECT_EQ(error_of("{\"a\":{}}", 0),
            "tensor \"a\": has no dtype (a string); tensor \"a\": has no shape "
            "(a list of integers from 0 to 2^63 - 1); tensor \"a\": has no "
            "data_offsets (two integers from 0 to 2^63 - 1)");
  EXPECT_THAT(
      error_of(absl::StrCat("{", tensor("a", "F4", "1", "0,1"), "}"), 1),
      HasSubstr("tensor \"a\": has the dtype \"F4\"; known are BOOL, "
                "U8, "));
  EXPECT_THAT(error_of("{\"a\":{\"shape\":[[1]]}}", 0),
              HasSubstr("tensor \"a\": has no shape"));
  for (const char* shape : {"-1", "1.5", "1e3", "18446744073709551616",
                            "9223372036854775808", "\"1\"", "null"}) {
    EXPECT_THAT(
        error_of(absl::StrCat("{", tensor("a", "U8", shape, "0,1"), "}"), 1),
        HasSubstr("tensor \"a\": has no shape"))
        << shape;
    EXPECT_THAT(
        error_of(
            absl::StrCat("{", tensor("a", "U8", "1", absl::StrCat("0,", shape)),
                         "}"),
            1),
        HasSubstr("tensor \"a\": has no data_offsets"))
        << shape;
  }
  for (const char* offsets : {"", "0", "0,1,1"}) {
    EXPECT_THAT(
        error_of(absl::StrCat("{", tensor("a", "U8", "1", offsets), "}"), 1),
        HasSubstr("tensor \"a\": has no data_offsets"));
  }
}

TEST(SafetensorsHeader, TheBytesFitTheShape) {
  EXPECT_EQ(
      error_of(absl::StrCat("{", tensor("a", "F32", "2,3", "0,23"), "}"), 23),
      "tensor \"a\": takes 23 bytes, but F32 [2, 3] needs 24");
  EXPECT_EQ(
      error_of(
          absl::StrCat("{", tensor("a", "F32", "4294967296,4294967296", "0,4"),
                       "}"),
          4),
      "tensor \"a\": has more bytes than 2^63: F32 [4294967296, 4294967296]");
}

TEST(SafetensorsHeader, EachByteBelongsToOneTensor) {
  const auto error = [](const std::string& first, const std::string& second,
                        int64_t bytes) {
    return error_of(absl::StrCat("{", first, ",", second, "}"), bytes);
  };
  EXPECT_EQ(
      error(tensor("a", "U8", "4", "0,4"), tensor("b", "U8", "4", "3,7"), 7),
      "tensor \"b\": begins at byte 3 and overlaps tensor \"a\", which "
      "ends at 4");
  EXPECT_EQ(
      error(tensor("a", "U8", "8", "0,8"), tensor("b", "U8", "2", "2,4"), 8),
      "tensor \"b\": begins at byte 2 and overlaps tensor \"a\", which "
      "ends at 8");
  EXPECT_EQ(
      error(tensor("a", "U8", "4", "0,4"), tensor("b", "U8", "4", "6,10"), 10),
      "tensor \"b\": begins at byte 6, and bytes 4 to 6 belong to no "
      "tensor");
  EXPECT_EQ(
      error(tensor("a", "U8", "4", "0,4"), tensor("b", "U8", "4", "4,8"), 11),
      "the last 3 bytes belong to no tensor");
  EXPECT_THAT(
      error(tensor("a", "U8", "4", "0,4"), tensor("b", "U8", "4", "4,8"), 7),
      HasSubstr("tensor \"b\": ends at byte 8 of the data, of which "
                "the file holds 7: it is truncated"));
  EXPECT_EQ(error_of(absl::StrCat("{", tensor("a", "U8", "4", "4,0"), "}"), 4),
            "tensor \"a\": ends at byte 0, before it begins at 4");
}

TEST(SafetensorsHeader, TellsOfTheFirstAndCountsTheRest) {
  std::string header = "{";
  for (int i = 0; i < 500; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"t", i, "\":1");
  }
  const std::string error = error_of(header + "}", 0);
  EXPECT_LT(error.size(), 1500u);
  EXPECT_THAT(error, HasSubstr("; and 488 more"));
}

TEST(SafetensorsHeader, NamesOfTensorsCannotSpoilAMessage) {
  EXPECT_EQ(error_of("{\"a\\n\\u0007\\\"\":1}", 0),
            "tensor \"a\\n\\007\\\"\": is no object with dtype, shape and "
            "data_offsets");
  EXPECT_LT(error_of(absl::StrCat("{\"", std::string(100'000, 'x'), "\":1}"), 0)
                .size(),
            300u);
}

}  // namespace
}  // namespace ferry
