#include "tests/offload/program_kinds.h"

#include <utility>

namespace ferry {
namespace {

using Kind = ProgramKind;

constexpr char kReadE[] =
    "x = torch.add(x, torch.mul(torch.matmul(x, torch.to(self.e, 6)), 0.01))";
constexpr char kReadEOfBlock[] =
    "x = torch.add(x, torch.mul(torch.matmul(x, torch.to(block.e, 6)), 0.01))";
constexpr char kNoTape[] =
    "LibTorch's tracer cannot record what autograd saved";
constexpr char kAttributesOnly[] =
    "a trace writes no attribute, and what it holds beside parameters and "
    "buffers is a constant";

// A trace has no hooks and functions of its own: what they do is in the graph
// of the stack.
void add_hooks(std::vector<Kind>* kinds) {
  kinds->push_back(Kind("hook_of_encoder_reads_int8")
                       .in_encoder()
                       .of_type("int8")
                       .after(kReadE)
                       .holds({"e"}));
  kinds->push_back(Kind("hook_returns_a_view")
                       .after("v = torch.sum_to_size(self.s, [8])")
                       .holds({"s"}));
  kinds->push_back(
      Kind("hook_writes_a_buffer")
          .in_encoder()
          .after("torch.mul_(self.s, 0.9)\nx = torch.add(x, self.s)")
          .holds({"s"}));
  kinds->push_back(Kind("pre_hook_reads_float8")
                       .of_type("float8_e4m3fn")
                       .before(kReadE)
                       .holds({"e"}));
}

void add_silent_writers(std::vector<Kind>* kinds) {
  kinds->push_back(
      Kind("instance_norm_in_encoder")
          .in_encoder()
          .forward("y = torch.instance_norm(torch.unsqueeze(torch.t(x), 0), "
                   "None, None, self.s, torch.ones([8]), True, 0.1, 1e-05, "
                   "False)[0]\nx = torch.add(torch.t(y), self.s)")
          .holds({"s"}));
  kinds->push_back(
      Kind("batch_norm_on_a_row")
          .forward("y = torch.batch_norm(x, None, None, torch.select(self.e, "
                   "0, 1), torch.ones([8]), True, 0.1, 1e-05, False)\n"
                   "x = torch.add(y, torch.matmul(x, self.e))")
          .holds({"e"}));
  kinds->push_back(
      Kind("native_batch_norm_in_hook")
          .of_type("float8_e5m2")
          .after("y = torch.native_batch_norm(x, None, None, self.s, "
                 "torch.ones([8]), True, 0.1, 1e-05)[0]\n"
                 "x = torch.add(y, self.s)")
          .holds({"s"}));
}

void add_silent_views(std::vector<Kind>* kinds) {
  kinds->push_back(
      Kind("sum_to_size_written")
          .in_encoder()
          .forward("y = torch.sum_to_size(self.e, [8, 8])\n"
                   "y = torch.mul_(y, 0.9)\n"
                   "x = torch.add(torch.matmul(x, self.e), torch.mean(y))")
          .holds({"e"}));
  kinds->push_back(
      Kind("to_dense_int8_written")
          .of_type("int8")
          .forward(std::string("y = torch.add_(torch.to_dense(self.e), 1)\n") +
                   kReadE + "\nx = torch.add(x, torch.mul(torch.sum(y), 0.01))")
          .holds({"e"}));
  kinds->push_back(
      Kind("unsafe_split_float8_written")
          .of_type("float8_e4m3fn")
          .forward("y = torch.unsafe_split(self.e, 4)[1]\n"
                   "y = torch.copy_(y, torch.mean(x))\n"
                   "x = torch.add(x, torch.matmul(x, torch.to(self.e, 6)))\n"
                   "x = torch.add(x, torch.mean(torch.to(y, 6)))")
          .holds({"e"}));
  kinds->push_back(
      Kind("cartesian_prod_written")
          .in_encoder()
          .forward("y = torch.add_(torch.cartesian_prod([self.s]), 0.01)\n"
                   "x = torch.add(torch.add(x, self.s), y)")
          .holds({"s"}));
}

void add_functions(std::vector<Kind>* kinds) {
  kinds->push_back(Kind("function_reads_int8")
                       .in_encoder()
                       .of_type("int8")
                       .function(kReadEOfBlock)
                       .holds({"e"}));
  kinds->push_back(Kind("function_writes")
                       .forward("x = torch.add(x, self.s)")
                       .function("torch.mul_(torch.alias(block.s), 0.9)")
                       .holds({"s"}));
  kinds->push_back(Kind("function_of_an_interface")
                       .of_type("float8_e5m2")
                       .forward(kReadE)
                       .with(&Kind::uses_interface)
                       .no_trace("a trace calls modules, not interfaces"));
}

void add_written_state(std::vector<Kind>* kinds) {
  kinds->push_back(Kind("buffer_counts")
                       .in_encoder()
                       .of_type("int8")
                       .forward("torch.add_(torch.select(self.s, 0, 0), 0.1)\n"
                                "x = torch.add(x, self.s)")
                       .holds({"s"}));
  kinds->push_back(Kind("attribute_is_replaced")
                       .forward("x = torch.add(x, self.kept)\n"
                                "self.kept = torch.alias(self.s)")
                       .with(&Kind::keeps)
                       .holds({"s", "kept"})
                       .no_trace(kAttributesOnly));
  kinds->push_back(Kind("dict_keeps_a_view")
                       .in_encoder()
                       .of_type("float8_e4m3fn")
                       .forward("x = torch.add(x, (self.kept_dict)[\"k\"])\n"
                                "torch._set_item(self.kept_dict, \"k\", "
                                "torch.slice(self.s, 0, 0, 8, 1))")
                       .with(&Kind::keeps)
                       .holds({"s", "kept_dict[k]"})
                       .no_trace(kAttributesOnly));
  // Traced, it is a constant of the block's graph.
  kinds->push_back(Kind("attribute_is_written")
                       .with(&Kind::is_attribute)
                       .forward("torch.mul_(torch.select(self.e, 0, 2), 0.9)\n"
                                "x = torch.add(x, torch.matmul(x, self.e))")
                       .holds({"e"}));
}

void add_random_operators(std::vector<Kind>* kinds) {
  kinds->push_back(
      Kind("randn_like_in_encoder")
          .in_encoder()
          .forward("x = torch.add(x, torch.mul(torch.randn_like(self.s), "
                   "0.1))"));
  kinds->push_back(
      Kind("bernoulli_of_int8")
          .of_type("int8")
          .forward("y = torch.bernoulli(torch.sigmoid(torch.to(self.e, 6)))\n"
                   "x = torch.add(x, torch.matmul(x, y))"));
  kinds->push_back(
      Kind("dropout_in_dit")
          .of_type("float8_e4m3fn")
          .forward("x = torch.dropout(torch.add(x, self.s), 0.3, True)"));
}

void add_gradients(std::vector<Kind>* kinds) {
  kinds->push_back(Kind("gradient_through_int8")
                       .of_type("int8")
                       .forward(kReadE)
                       .with(&Kind::differentiates)
                       .holds({"w", "e"})
                       .no_trace(kNoTape));
  kinds->push_back(Kind("gradient_through_float8")
                       .of_type("float8_e4m3fn")
                       .forward(kReadE)
                       .with(&Kind::differentiates)
                       .holds({"w", "e"})
                       .no_trace(kNoTape));
  kinds->push_back(Kind("gradient_beside_an_encoder")
                       .forward("x = torch.mul(x, torch.linear(x, self.e))")
                       .with(&Kind::differentiates)
                       .holds({"w", "e"})
                       .no_trace(kNoTape));
}

// What as_strided counts from is the start of a storage, which an image moves.
void add_absolute_offsets(std::vector<Kind>* kinds) {
  kinds->push_back(
      Kind("as_strided_counts_from_the_start")
          .forward("v = torch.as_strided(torch.select(self.e, 0, 3), [2, 2], "
                   "[2, 1], 1)\n"
                   "x = torch.add(x, torch.mul(torch.mean(v), 0.1))")
          .holds({"e"}));
  kinds->push_back(
      Kind("as_strided_of_what_a_hook_got")
          .in_encoder()
          .of_type("int8")
          .after("y = torch.alias(torch.slice(self.e, 0, 2, 4, 1))\n"
                 "v = torch.to(torch.as_strided(y, [8], [1], 3), 6)\n"
                 "x = torch.add(x, torch.mul(v, 0.01))")
          .holds({"e"}));
  kinds->push_back(
      Kind("storage_offset_is_a_number")
          .of_type("float8_e4m3fn")
          .forward("n = torch.storage_offset(torch.select(self.e, 0, 5))\n"
                   "m = torch.storage_offset(self.s)\n"
                   "x = torch.add(x, torch.mul(self.s, "
                   "torch.add(torch.mul(n, 0.01), torch.mul(m, 0.02))))")
          .holds({"s", "e"})
          .no_trace("the number is a constant of a trace"));
  kinds->push_back(
      Kind("as_strided_from_behind_the_start")
          .in_encoder()
          .of_type("bfloat16")
          .forward("v = torch.as_strided(self.e, [2, 2], [2, 1], 1)\n"
                   "x = torch.add(x, torch.mul(torch.to(torch.mean(v), 6), "
                   "0.1))")
          .with(&Kind::has_offset)
          .holds({"e"}));
  kinds->push_back(
      Kind("as_strided_of_what_a_block_returned")
          .after("v = torch.select(self.e, 0, 3)")
          .with(&Kind::has_offset)
          .result("x = torch.add(x, torch.mul(torch.mean(torch.as_strided(v, "
                  "[2, 2], [2, 1], 6)), 0.1))")
          .holds({"e"}));
}

// Ranks cannot gather for such blocks, and of so many `auto` would.
void add_orders(std::vector<Kind>* kinds) {
  kinds->push_back(Kind("encoder_runs_twice")
                       .in_encoder()
                       .of_type("int8")
                       .forward(kReadE)
                       .order({0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  kinds->push_back(Kind("blocks_run_backwards")
                       .of_type("float8_e5m2")
                       .forward(kReadE)
                       .order({5, 4, 3, 2, 1, 0}));
  kinds->push_back(Kind("block_runs_first_and_last")
                       .forward(kReadE)
                       .order({0, 1, 2, 3, 4, 5, 0}));
  kinds->push_back(Kind("encoder_runs_the_second_first")
                       .in_encoder()
                       .of_type("bfloat16")
                       .forward(kReadE)
                       .order({1, 0, 2, 3, 4, 5}));
  kinds->push_back(Kind("dit_refines_in_the_end")
                       .of_type("int8")
                       .forward(kReadE)
                       .order({0, 1, 2, 3, 4, 5, 4, 5}));
}

}  // namespace

std::vector<NamedProgram> program_kinds() {
  std::vector<Kind> kinds;
  add_hooks(&kinds);
  add_silent_writers(&kinds);
  add_silent_views(&kinds);
  add_functions(&kinds);
  add_written_state(&kinds);
  add_random_operators(&kinds);
  add_gradients(&kinds);
  add_absolute_offsets(&kinds);
  add_orders(&kinds);
  std::vector<NamedProgram> programs;
  for (Kind& kind : kinds) {
    RandomProgram program = make_program(kind, 1000 + programs.size());
    programs.push_back({std::move(kind), std::move(program)});
  }
  return programs;
}

}  // namespace ferry
