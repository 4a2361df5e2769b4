#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/offload/random_program.h"

namespace ferry {

// What makes a program one of its kind: lines for the places of a program that
// has a DiT and an encoder of some blocks each, and a VAE. One of the two has
// blocks of the kind; those of the other have nothing odd. Blocks hold `w`
// [8, 8], `s` [8] and `e` [8, 8], the last one of the kind's data type.
struct ProgramKind {
  std::string name;
  bool is_encoder = false;
  std::string dtype = "float";
  // Of the block: self, x, c.
  std::string forward_code;
  // Of hooks before and behind it: self, x, c or v.
  std::string before_code;
  std::string after_code;
  // Of a function that gets the block as an argument: block, x, c.
  std::string function_code;
  // Of the stack, behind each block, with what that returned: x, v.
  std::string result_code;
  // The block is called through an interface of it.
  bool uses_interface = false;
  // Gradients of the pass.
  bool differentiates = false;
  // The block keeps what it says in `kept` and `kept_dict`.
  bool keeps = false;
  // `e` begins behind the start of its storage.
  bool has_offset = false;
  // `e` is an attribute, neither parameter nor buffer.
  bool is_attribute = false;
  // Blocks in the order in which they run.
  std::vector<int> run_order = {0, 1, 2};
  // Which tensors of the kind's blocks cannot stream.
  std::vector<std::string> held;
  // Why a trace cannot be of this kind; empty: it can.
  std::string untraceable;

  explicit ProgramKind(std::string kind_name) : name(std::move(kind_name)) {}

  // Each block runs once, the first one first.
  bool is_in_order() const;
  // Paths of the tensors of both components' blocks that stream when all do
  // that can.
  std::set<std::string> streams(const RandomProgram& program) const;

  ProgramKind& in_encoder() {
    is_encoder = true;
    return *this;
  }
  ProgramKind& of_type(std::string type) {
    dtype = std::move(type);
    return *this;
  }
  ProgramKind& forward(std::string code) {
    forward_code = std::move(code);
    return *this;
  }
  ProgramKind& before(std::string code) {
    before_code = std::move(code);
    return *this;
  }
  ProgramKind& after(std::string code) {
    after_code = std::move(code);
    return *this;
  }
  ProgramKind& function(std::string code) {
    function_code = std::move(code);
    return *this;
  }
  ProgramKind& result(std::string code) {
    result_code = std::move(code);
    return *this;
  }
  ProgramKind& order(std::vector<int> blocks) {
    run_order = std::move(blocks);
    return *this;
  }
  ProgramKind& holds(std::vector<std::string> names) {
    held = std::move(names);
    return *this;
  }
  ProgramKind& no_trace(std::string why) {
    untraceable = std::move(why);
    return *this;
  }
  ProgramKind& with(bool ProgramKind::*property) {
    this->*property = true;
    return *this;
  }
};

RandomProgram make_program(const ProgramKind& kind, uint64_t seed);

}  // namespace ferry
