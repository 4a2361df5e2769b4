#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "platform/base/check.h"
#include "tests/offload/program_operators.h"
#include "tests/offload/random_program.h"

namespace ferry {

// Random numbers that are the same with every standard library.
class ProgramDraws {
 public:
  explicit ProgramDraws(uint64_t seed) : random_(seed) {}

  // 0 to `bound` - 1. REQUIRES: bound > 0.
  size_t below(size_t bound) {
    FERRY_CHECK_GT(bound, 0u);
    return random_() % bound;
  }
  bool one_in(size_t chance) { return below(chance) == 0; }
  bool percent(size_t chance) { return below(100) < chance; }
  // REQUIRES: !items.empty(), as below() checks.
  template <typename Item>
  const Item& among(const std::vector<Item>& items) {
    return items[below(items.size())];
  }

 private:
  std::mt19937_64 random_;
};

// Where statements stand, and what they may do there.
struct ProgramScope {
  // The expression of the module whose tensors they use: "self", "block".
  std::string owner = "self";
  // Of that module, and of its child `inner`; null where it has none.
  const ProgramClass* owner_class = nullptr;
  const ProgramClass* inner_class = nullptr;
  // Oddities of the program that may stand here.
  std::set<ProgramOddity> oddities;
  // Constants that graphs have: CONSTANTS.c0 …
  int constants = 0;
  // x may not be written: gradients go through it.
  bool is_differentiated = false;
};

// Draws statements that take x, a float tensor [2, 8], use tensors of a module,
// and leave another x. Each one is good without the others.
class ProgramStatements {
 public:
  explicit ProgramStatements(ProgramDraws& draws) : draws_(draws) {}

  // A read, or one of the oddities of the scope.
  ProgramStatement draw(const ProgramScope& scope);
  // Lines that make `name` a view of one of the scope's tensors.
  std::string draw_view(const ProgramScope& scope, const std::string& name);
  // A condition that depends on x.
  std::string draw_condition();
  std::string new_name();

 private:
  // A tensor at hand.
  struct Value {
    std::string name;
    char shape = 'A';
    bool is_float = true;
    bool is_writable = true;
  };

  void line(const std::string& text);
  // Names the result of an expression.
  std::string assign(const std::string& expression);
  std::string take_lines();

  Value fetch(const ProgramScope& scope);
  Value fetch_attribute(const std::string& owner,
                        const ProgramAttribute& attribute);
  // One of two, which of them depends on x.
  void merge_with(const ProgramScope& scope, Value* value);
  // Through a list, a dict, a function, a loop.
  void pass_around(Value* value);
  bool apply(const std::vector<TensorOperator>& operators, Value* value);
  void view(size_t most, Value* value);
  void make_float(Value* value);
  void add_to_x(const Value& value);

  void read(const ProgramScope& scope);
  void write_fresh(const ProgramScope& scope);
  void write_own(const ProgramScope& scope, bool silently);
  void write_by_silent_writer(const ProgramScope& scope);
  void store(const ProgramScope& scope);
  void use_random(const ProgramScope& scope);
  void count(const ProgramScope& scope);
  void use_constant(const ProgramScope& scope);
  void differentiate(const ProgramScope& scope);

  ProgramDraws& draws_;
  int names_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace ferry
