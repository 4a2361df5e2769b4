#include "pipelines/images/exif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

// Reads a block as a TIFF reader does.
class Block {
 public:
  explicit Block(std::string data) : data_(std::move(data)) {}

  uint32_t number(size_t at, int bytes) const {
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value = value << 8 | static_cast<uint8_t>(data_.at(at + i));
    }
    return value;
  }

  // Where the directory at `at` has the entry of `tag`.
  size_t entry(size_t at, uint32_t tag) const {
    const size_t count = number(at, 2);
    EXPECT_EQ(number(at + 2 + 12 * count, 4), 0u) << "a further directory";
    for (size_t i = at + 2; i < at + 2 + 12 * count; i += 12) {
      if (number(i, 2) == tag) return i;
    }
    ADD_FAILURE() << "no tag " << tag;
    return at + 2;
  }

  // The bytes of an entry's value.
  std::string value(size_t entry) const {
    const uint32_t count = number(entry + 4, 4);
    const size_t at = count > 4 ? number(entry + 8, 4) : entry + 8;
    EXPECT_LE(at + count, data_.size());
    return data_.substr(at, count);
  }

  std::string software() const { return value(entry(first(), 0x0131)); }
  std::string comment() const { return value(entry(exif(), 0x9286)); }
  std::string version() const { return value(entry(exif(), 0x9000)); }
  size_t first() const { return number(4, 4); }
  size_t exif() const { return number(entry(first(), 0x8769) + 8, 4); }

 private:
  const std::string data_;
};

std::string bytes(absl::string_view text) { return std::string(text); }

TEST(ExifTest, HoldsTextAndSoftware) {
  // A name of odd and one of even length: what follows is aligned.
  for (const std::string name : {"Ferry", "Ferry1"}) {
    const auto exif = make_exif("a\nb", name);
    ASSERT_TRUE(exif.ok()) << exif.status();
    EXPECT_THAT(*exif, testing::StartsWith(bytes({"MM\0*", 4})));
    const Block block(*exif);
    EXPECT_EQ(block.software(), name + bytes({"\0", 1}));
    EXPECT_EQ(block.version(), "0232");
    EXPECT_EQ(block.comment(), bytes({"UNICODE\0\0a\0\n\0b", 14}));
    EXPECT_EQ(block.exif() % 2, 0u);
  }
}

TEST(ExifTest, WritesUtf16) {
  // One character of each length of UTF-8: U+E9, U+6771, U+1F98A.
  const auto exif = make_exif("\u00e9\u6771\U0001f98a", "Ferry");
  ASSERT_TRUE(exif.ok()) << exif.status();
  EXPECT_EQ(Block(*exif).comment(),
            bytes({"UNICODE\0\0\xe9\x67\x71\xd8\x3e\xdd\x8a", 16}));
  EXPECT_EQ(Block(*make_exif("", "Ferry")).comment(), bytes({"UNICODE\0", 8}));
}

TEST(ExifTest, RefusesWhatIsNoUtf8) {
  for (const char* text : {"\xff", "\xc0\x80", "\xed\xa0\x80", "a\xe2\x96"}) {
    EXPECT_THAT(std::string(make_exif(text, "Ferry").status().message()),
                HasSubstr("UTF-8"));
  }
}

}  // namespace
}  // namespace ferry
