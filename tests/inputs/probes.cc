#include "tests/inputs/probes.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tests/inputs/wire.h"

namespace ferry {
namespace {

using google::protobuf::FieldDescriptor;
using Form = Probe::Form;
using std::string_literals::operator""s;

// Below the receive limit of the daemon under test.
constexpr size_t kVeryLong = 512 << 10;
constexpr int64_t kVeryMany = 50'000;

// Valid UTF-8 that looks like something else, or like nothing.
std::vector<std::string> strange_texts() {
  std::string marks = "x";
  for (int i = 0; i < 100; ++i) marks += "\xCC\x81";
  return {
      "",
      "x",
      std::string(kVeryLong, 'x'),
      "\0"s,
      "a\0b"s,
      // The same word, composed and decomposed.
      "caf\xC3\xA9",
      "cafe\xCC\x81",
      // A zero-width space, a word joiner, a byte order mark.
      "ti\xE2\x80\x8Bny",
      "ti\xE2\x81\xA0ny",
      "\xEF\xBB\xBFtiny",
      // The rest from right to left.
      "\xE2\x80\xAEynit",
      // Cyrillic and full-width letters.
      "t\xD1\x96ny",
      "\xEF\xBD\x94\xEF\xBD\x89\xEF\xBD\x8E\xEF\xBD\x99",
      // The last character, one that is none, the replacement character.
      "\xF4\x8F\xBF\xBF",
      "\xEF\xBF\xBF",
      "\xEF\xBF\xBD",
      // What moves a terminal's cursor or forges a line of a log.
      "\x1B[2J\r\n{\"level\":\"error\"}\n",
      "\xE2\x80\xA8line\xC2\x85line",
      marks,
      // Odd spaces.
      " ",
      "\t\n",
      "\xC2\xA0\xE3\x80\x80",
      "../../etc/passwd",
      "%s%n%x",
  };
}

std::vector<std::string> invalid_texts() {
  return {
      // Longer than need be: NUL, '/', in two to four bytes.
      "\xC0\x80",
      "\xC1\xBF",
      "\xE0\x80\xAF",
      "\xF0\x80\x80\xAF",
      // Half a surrogate pair, and a whole one.
      "\xED\xA0\x80",
      "\xED\xA0\xBD\xED\xB8\x80",
      // Above the last character.
      "\xF4\x90\x80\x80",
      "\xF8\x88\x80\x80\x80",
      // Bytes that never stand in UTF-8, a tail without a head, and the
      // reverse.
      "\xFF",
      "\xFE",
      "\x80",
      "a\xC3",
      "a\xE2\x82",
      "\xF0\x9F\x94",
      std::string(4096, '\xFF'),
  };
}

std::string label_of(absl::string_view text) {
  std::string label = text.size() > 40 ? absl::StrCat(text.size(), " bytes of ")
                                       : std::string();
  for (const char c : text.substr(0, 40)) {
    if (c >= ' ' && c < 0x7F) {
      label += c;
    } else {
      absl::StrAppendFormat(&label, "\\x%02X", static_cast<unsigned char>(c));
    }
  }
  return absl::StrCat("\"", label, "\"");
}

class ProbeMaker {
 public:
  ProbeMaker(const FieldDescriptor& field, const ProbeValues& values)
      : number_(field.number()), field_(field), values_(values) {}

  std::vector<Probe> run() {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64:
        add_integers();
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        add_bools();
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        add_enums();
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        add_doubles();
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        add_texts();
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        add_messages();
        break;
      default:
        // A new type: nothing is sent, and the test says so.
        return {};
    }
    if (field_.is_repeated()) add_counts();
    add_malformed();
    return std::move(probes_);
  }

 private:
  Probe& add(std::string label, std::string wire, Form form = Form::kTyped) {
    probes_.emplace_back();
    probes_.back().label = std::move(label);
    probes_.back().wire = std::move(wire);
    probes_.back().form = form;
    return probes_.back();
  }

  void add_varint(std::string label, uint64_t sent, int64_t arrives) {
    add(std::move(label), wire_varint(number_, sent)).integer = arrives;
  }

  void add_integer(int64_t value) {
    add_varint(absl::StrCat(value), static_cast<uint64_t>(value), value);
  }

  void add_integers() {
    const bool is_short = field_.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    for (const int64_t value : values_.integers) add_integer(value);
    for (const int64_t value : {-1, 0, 1}) add_integer(value);
    add_integer(std::numeric_limits<int32_t>::min());
    add_integer(std::numeric_limits<int32_t>::max());
    if (is_short) {
      // Only the low half arrives.
      add_varint("2^32 + 16", (uint64_t{1} << 32) + 16, 16);
      add_varint("2^63", uint64_t{1} << 63, 0);
    } else {
      add_integer(std::numeric_limits<int64_t>::min());
      add_integer(std::numeric_limits<int64_t>::max());
    }
  }

  void add_bools() {
    add_integer(0);
    add_integer(1);
    add_varint("2", 2, 1);
    add_varint("2^64 - 1", std::numeric_limits<uint64_t>::max(), 1);
  }

  void add_enums() {
    const auto& type = *field_.enum_type();
    for (int i = 0; i < type.value_count(); ++i) {
      add_integer(type.value(i)->number());
    }
    add_integer(type.value(type.value_count() - 1)->number() + 1);
    add_integer(-1);
    add_integer(std::numeric_limits<int32_t>::min());
    add_integer(std::numeric_limits<int32_t>::max());
  }

  void add_double(double value) {
    add(absl::StrFormat("%.17g", value), wire_fixed64(number_, bits_of(value)))
        .real = value;
  }

  void add_doubles() {
    using Limits = std::numeric_limits<double>;
    for (const double value : values_.reals) add_double(value);
    for (const double value :
         {0.0, -0.0, 1.0, -1.0, Limits::min(), Limits::denorm_min(),
          -Limits::denorm_min(), Limits::max(), Limits::lowest(),
          Limits::epsilon(), Limits::infinity(), -Limits::infinity(),
          Limits::quiet_NaN(), -Limits::quiet_NaN()}) {
      add_double(value);
    }
    // Loading it could make it a quiet one: it travels as bits.
    add("signalling NaN", wire_fixed64(number_, 0x7FF0000000000001)).real =
        Limits::quiet_NaN();
  }

  void add_text(const std::string& text) {
    add(label_of(text), wire_bytes(number_, text)).text = text;
  }

  void add_texts() {
    for (const std::string& text : values_.texts) add_text(text);
    for (const std::string& text : strange_texts()) add_text(text);
    for (const std::string& text : invalid_texts()) {
      if (field_.type() == FieldDescriptor::TYPE_BYTES) {
        add_text(text);
      } else {
        add(label_of(text), wire_bytes(number_, text), Form::kNotUtf8);
      }
    }
  }

  void add_messages() {
    // An entry of a map has no unknown fields.
    if (field_.is_map()) return;
    add("empty", wire_bytes(number_, ""));
    add("unknown varint", wire_bytes(number_, wire_varint(kUnknownField, 1)),
        Form::kUnknownInside);
    add("unknown bytes", wire_bytes(number_, wire_bytes(kUnknownField, "x")),
        Form::kUnknownInside);
    add("unknown group", wire_bytes(number_, wire_group(kUnknownField)),
        Form::kUnknownInside);
    add("cut off inside", wire_bytes(number_, "\x0A\x05x"), Form::kMalformed);
    add("a group without an end", wire_bytes(number_, "\x0B"),
        Form::kMalformed);
    add("the end of no group", wire_bytes(number_, "\x0C"), Form::kMalformed);
    add("field number 0", wire_bytes(number_, "\x02\x01x"), Form::kMalformed);
  }

  void add_counts() {
    std::vector<int64_t> counts = values_.counts;
    counts.push_back(kVeryMany);
    for (const int64_t count : counts) {
      std::string wire;
      for (int64_t i = 0; i < count; ++i) wire += element(i);
      Probe& probe = add(absl::StrCat(count, " elements"), std::move(wire));
      probe.count = count;
      // As every element.
      probe.integer = 1;
      probe.real = 1;
    }
  }

  std::string element(int64_t index) const {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return wire_fixed64(number_, bits_of(1));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return wire_bytes(number_, field_.is_map()
                                       ? wire_bytes(1, absl::StrCat(index))
                                       : std::string());
      case FieldDescriptor::CPPTYPE_STRING:
        return wire_bytes(number_, "x");
      default:
        return wire_varint(number_, 1);
    }
  }

  void add_malformed() {
    const bool is_message =
        field_.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    add("fixed32", wire_fixed32(number_, 1), Form::kOtherWireType);
    add("a group", wire_group(number_), Form::kOtherWireType);
    if (is_message || field_.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      add("a varint", wire_varint(number_, 1), Form::kOtherWireType);
    } else if (!field_.is_repeated()) {
      add("bytes", wire_bytes(number_, "x"), Form::kOtherWireType);
    }
    // Cut off after the tag, in a length, and by a length beyond all bounds.
    const std::string tag = wire_varint(number_, 0);
    const absl::string_view bare(tag.data(), tag.size() - 1);
    add("a tag alone", std::string(bare), Form::kMalformed);
    add("a varint without end",
        absl::StrCat(bare, std::string(11, '\xFF'), "\x01"), Form::kMalformed);
    const std::string bytes = wire_bytes(number_, "");
    const absl::string_view bytes_tag(bytes.data(), bytes.size() - 1);
    add("a length beyond the end", absl::StrCat(bytes_tag, "\x7F", "x"),
        Form::kMalformed);
    add("a length of 2^31 - 1",
        absl::StrCat(bytes_tag, wire_number(0x7FFFFFFF)), Form::kMalformed);
    add("a length of 2^32 + 1",
        absl::StrCat(bytes_tag, wire_number((uint64_t{1} << 32) + 1), "x"),
        Form::kMalformed);
    add("wire type 7", wire_number(static_cast<uint64_t>(number_) << 3 | 7),
        Form::kMalformed);
  }

  const int number_;
  const FieldDescriptor& field_;
  const ProbeValues& values_;
  std::vector<Probe> probes_;
};

}  // namespace

std::vector<Probe> make_probes(const FieldDescriptor& field,
                               const ProbeValues& values) {
  return ProbeMaker(field, values).run();
}

}  // namespace ferry
