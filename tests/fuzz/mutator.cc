#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <iterator>

namespace ferry {
namespace {

// What is apt to be mishandled.
constexpr absl::string_view kTokens[] = {
    absl::string_view("\0", 1),
    "\xFF",
    "\xC0\x80",
    "\xED\xA0\x80",
    "\xE2\x80\xAE",
    "-1",
    "0",
    "2147483647",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "-0.0",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "\\",
    "\n",
    ":",
    ",",
    "..",
    "/",
    "true",
    "null",
    "%s%n",
    "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    "\xFF\xFF\xFF\xFF\x0F",
};

constexpr size_t kMaxBytes = 16 << 10;

}  // namespace

std::string Mutator::next() {
  std::string input = seeds_[draw(seeds_.size())];
  const size_t changes = 1 + draw(4);
  for (size_t i = 0; i < changes; ++i) mutate(&input);
  if (input.size() > kMaxBytes) input.resize(kMaxBytes);
  return input;
}

void Mutator::mutate(std::string* input) {
  const size_t place = draw(input->size() + 1);
  const size_t length = std::min(input->size() - place, draw(16) + 1);
  const auto token = [this] {
    return std::string(kTokens[draw(std::size(kTokens))]);
  };
  switch (draw(8)) {
    case 0:
      if (length > 0) (*input)[place] ^= static_cast<char>(1 << draw(8));
      break;
    case 1:
      if (length > 0) (*input)[place] = static_cast<char>(draw(256));
      break;
    case 2:
      input->insert(place, token());
      break;
    case 3:
      input->replace(place, length, token());
      break;
    case 4:
      input->erase(place, length);
      break;
    case 5:
      // Twice, or a few hundred times.
      for (size_t i = draw(2) == 0 ? 1 : draw(300); i > 0; --i) {
        input->insert(place, input->substr(place, length));
      }
      break;
    case 6:
      input->resize(place);
      break;
    case 7: {
      const std::string& other = seeds_[draw(seeds_.size())];
      input->replace(place, std::string::npos,
                     other.substr(draw(other.size() + 1)));
      break;
    }
  }
}

}  // namespace ferry
