#include "tests/offload/program_kinds.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace ferry {
namespace {

using Holder = ProgramAttribute::Holder;

// What makes a program one of its kind: lines of the places that they stand in.
struct Kind {
  const char* name = "";
  bool is_encoder = false;
  // Of the block's tensor `e`, [8, 8]; its buffer `s` is a float [8].
  const char* dtype = "float";
  const char* forward = "";
  // Of a hook before and behind the block: x, self.
  const char* before = "";
  const char* after = "";
  // Of a function that gets the block as an argument: x, block.
  const char* function = "";
  // The block is called through an interface of it.
  bool uses_interface = false;
  // Gradients of the pass.
  bool differentiates = false;
  std::vector<int> order = {0, 1, 2};
  // The block keeps what it says in `kept` and `kept_dict`.
  bool keeps = false;
  // `e` begins behind the start of its storage.
  bool has_offset = false;
  // Of the stack, with what the block returned: x, v.
  const char* result = "";
};

constexpr char kReadE[] =
    "x = torch.add(x, torch.mul(torch.matmul(x, torch.to(self.e, 6)), 0.01))";

std::vector<Kind> kinds() {
  return {
      {"hook_of_encoder_reads_int8", true, "int8", "", "", kReadE},
      {"hook_returns_a_view", false, "float", "", "",
       "v = torch.sum_to_size(self.s, [8])"},
      {"hook_writes_a_buffer", true, "float", "", "",
       "torch.mul_(self.s, 0.9)\nx = torch.add(x, self.s)"},
      {"pre_hook_reads_float8", false, "float8_e4m3fn", "", kReadE},
      {"instance_norm_in_encoder", true, "float",
       "y = torch.instance_norm(torch.unsqueeze(torch.t(x), 0), None, None, "
       "self.s, torch.ones([8]), True, 0.1, 1e-05, False)[0]\n"
       "x = torch.add(torch.t(y), self.s)"},
      {"batch_norm_on_a_row", false, "float",
       "y = torch.batch_norm(x, None, None, torch.select(self.e, 0, 1), "
       "torch.ones([8]), True, 0.1, 1e-05, False)\n"
       "x = torch.add(y, torch.matmul(x, self.e))"},
      {"native_batch_norm_in_hook", false, "float8_e5m2", "", "",
       "y = torch.native_batch_norm(x, None, None, self.s, torch.ones([8]), "
       "True, 0.1, 1e-05)[0]\nx = torch.add(y, self.s)"},
      {"sum_to_size_written", true, "float",
       "torch.mul_(torch.sum_to_size(self.e, [8, 8]), 0.9)\n"
       "x = torch.matmul(x, self.e)"},
      {"to_dense_int8_written", false, "int8",
       "torch.add_(torch.to_dense(self.e), 1)\n"
       "x = torch.add(x, torch.mul(torch.matmul(x, torch.to(self.e, 6)), "
       "0.01))"},
      {"unsafe_split_float8_written", false, "float8_e4m3fn",
       "torch.copy_(torch.unsafe_split(self.e, 4)[1], torch.mean(x))\n"
       "x = torch.add(x, torch.matmul(x, torch.to(self.e, 6)))"},
      {"cartesian_prod_written", true, "float",
       "torch.add_(torch.cartesian_prod([self.s]), 0.01)\n"
       "x = torch.add(x, self.s)"},
      {"function_reads_int8", true, "int8", "", "", "",
       "x = torch.add(x, torch.mul(torch.matmul(x, torch.to(block.e, 6)), "
       "0.01))"},
      {"function_writes", false, "float", "x = torch.add(x, self.s)", "", "",
       "torch.mul_(torch.alias(block.s), 0.9)"},
      {"function_of_an_interface", false, "float8_e5m2", kReadE, "", "", "",
       true},
      {"buffer_counts", true, "int8",
       "torch.add_(torch.select(self.s, 0, 0), 0.1)\nx = torch.add(x, self.s)"},
      {"attribute_is_replaced",
       false,
       "float",
       "x = torch.add(x, self.kept)\nself.kept = torch.alias(self.s)",
       "",
       "",
       "",
       false,
       false,
       {0, 1, 2},
       true},
      {"dict_keeps_a_view",
       true,
       "float8_e4m3fn",
       "x = torch.add(x, (self.kept_dict)[\"k\"])\n"
       "torch._set_item(self.kept_dict, \"k\", torch.slice(self.s, 0, 0, 8, "
       "1))",
       "",
       "",
       "",
       false,
       false,
       {0, 1, 2},
       true},
      {"randn_like_in_encoder", true, "float",
       "x = torch.add(x, torch.mul(torch.randn_like(self.s), 0.1))"},
      {"bernoulli_of_int8", false, "int8",
       "y = torch.bernoulli(torch.sigmoid(torch.to(self.e, 6)))\n"
       "x = torch.add(x, torch.matmul(x, y))"},
      {"dropout_in_dit", false, "float8_e4m3fn",
       "x = torch.dropout(torch.add(x, self.s), 0.3, True)"},
      {"gradient_through_int8", false, "int8", kReadE, "", "", "", false, true},
      {"gradient_through_float8", false, "float8_e4m3fn", kReadE, "", "", "",
       false, true},
      {"gradient_beside_an_encoder", false, "float",
       "x = torch.mul(x, torch.linear(x, self.e))", "", "", "", false, true},
      {"as_strided_counts_from_the_start", false, "float",
       "v = torch.as_strided(torch.select(self.e, 0, 3), [2, 2], [2, 1], 1)\n"
       "x = torch.add(x, torch.mul(torch.mean(v), 0.1))"},
      {"as_strided_of_what_a_hook_got", true, "int8", "", "",
       "y = torch.alias(torch.slice(self.e, 0, 2, 4, 1))\n"
       "v = torch.to(torch.as_strided(y, [8], [1], 3), 6)\n"
       "x = torch.add(x, torch.mul(v, 0.01))"},
      {"storage_offset_is_a_number", false, "float8_e4m3fn",
       "n = torch.storage_offset(torch.select(self.e, 0, 5))\n"
       "m = torch.storage_offset(self.s)\n"
       "x = torch.add(x, torch.mul(self.s, torch.add(torch.mul(n, 0.01), "
       "torch.mul(m, 0.02))))"},
      {"as_strided_from_behind_the_start",
       true,
       "bfloat16",
       "v = torch.as_strided(self.e, [2, 2], [2, 1], 1)\n"
       "x = torch.add(x, torch.mul(torch.to(torch.mean(v), 6), 0.1))",
       "",
       "",
       "",
       false,
       false,
       {0, 1, 2},
       false,
       true},
      {"as_strided_of_what_a_block_returned",
       false,
       "float",
       "",
       "",
       "v = torch.select(self.e, 0, 3)",
       "",
       false,
       false,
       {0, 1, 2},
       false,
       true,
       "x = torch.add(x, torch.mul(torch.mean(torch.as_strided(v, [2, 2], "
       "[2, 1], 6)), 0.1))"},
      {"encoder_runs_twice",
       true,
       "int8",
       kReadE,
       "",
       "",
       "",
       false,
       false,
       {0, 0, 1, 1, 2, 2}},
      {"blocks_run_backwards",
       false,
       "float8_e5m2",
       kReadE,
       "",
       "",
       "",
       false,
       false,
       {2, 1, 0}},
      {"block_runs_first_and_last",
       false,
       "float",
       kReadE,
       "",
       "",
       "",
       false,
       false,
       {0, 1, 2, 0}},
  };
}

ProgramStatement line(std::string code) { return {std::move(code), true}; }

void add_lines(const char* code, std::vector<ProgramStatement>* body) {
  if (*code != '\0') body->push_back(line(code));
}

ProgramAttribute tensor(std::string name, char shape, Holder holder,
                        std::string dtype = "float") {
  ProgramAttribute attribute;
  attribute.name = std::move(name);
  attribute.shape = shape;
  attribute.holder = holder;
  attribute.dtype = std::move(dtype);
  return attribute;
}

ProgramAttribute module(std::string name, std::string made) {
  ProgramAttribute attribute;
  attribute.name = std::move(name);
  attribute.holder = Holder::kModule;
  attribute.module = std::move(made);
  return attribute;
}

ProgramClass make_block(const Kind& kind, const std::string& name) {
  ProgramClass made;
  made.name = name;
  made.attributes = {tensor("w", 'M', Holder::kParameter),
                     tensor("s", 'V', Holder::kBuffer),
                     tensor("e", 'M', Holder::kBuffer, kind.dtype)};
  if (kind.has_offset) {
    made.attributes.back().layout = ProgramAttribute::Layout::kOffset;
  }
  if (kind.keeps) {
    made.attributes.push_back(tensor("kept", 'V', Holder::kAttribute));
    made.attributes.push_back(tensor("kept_dict", 'V', Holder::kDict));
  }
  ProgramFunction forward{
      "def forward(self, x: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:",
      {line("x = torch.add(x, torch.tanh(torch.matmul(torch.add(x, c), "
            "self.w)))")}};
  add_lines(kind.forward, &forward.body);
  forward.body.push_back(line("return (torch.tanh(x), torch.mean(x))"));
  made.methods.push_back(std::move(forward));
  const std::string self = absl::StrCat("self: __torch__.program.", name);
  if (*kind.before != '\0') {
    ProgramFunction before{
        absl::StrCat("def before(", self, ", input: Tuple[Tensor, Tensor]) -> ",
                     "Tuple[Tensor, Tensor]:"),
        {line("x, c, = input")}};
    add_lines(kind.before, &before.body);
    before.body.push_back(line("return (x, c)"));
    made.methods.push_back(std::move(before));
    made.pre_hooks = {"before"};
  }
  if (*kind.after != '\0') {
    ProgramFunction after{
        absl::StrCat("def after(", self, ", input: Tuple[Tensor, Tensor], ",
                     "output: Tuple[Tensor, Tensor]) -> Tuple[Tensor, ",
                     "Tensor]:"),
        {line("x, v, = output")}};
    add_lines(kind.after, &after.body);
    after.body.push_back(line("return (x, v)"));
    made.methods.push_back(std::move(after));
    made.hooks = {"after"};
  }
  return made;
}

std::string call(const ProgramClass& block, int index, bool through_interface) {
  const std::string path = absl::StrCat("__torch__.program.", block.name);
  const std::string callee =
      through_interface
          ? std::string("__torch__.program.run_like(b, i, ic)")
          : absl::StrCat("__torch__.program.run_", block.name, "(b, i, ic)");
  return absl::StrCat(
      "b = getattr(self.blocks, \"", index, "\")\nio = ",
      block.pre_hooks.empty() ? std::string("(x, c)")
                              : absl::StrCat(path, ".before(b, (x, c))"),
      "\ni, ic, = io\no = ", callee, "\n",
      block.hooks.empty() ? std::string()
                          : absl::StrCat("o = ", path, ".after(b, io, o)\n"),
      "x, v, = o\nviews = torch.add(views, torch.mean(v))");
}

void add_stack(const Kind& kind, const std::string& name,
               const std::string& letter, RandomProgram* program,
               ProgramClass* root) {
  const ProgramClass block = make_block(kind, "Block" + letter);
  ProgramFunction run{
      absl::StrCat("def run_", block.name, "(block: __torch__.program.",
                   block.name,
                   ", x: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:"),
      {}};
  add_lines(kind.function, &run.body);
  run.body.push_back(line("return (block).forward(x, c)"));
  program->functions.push_back(std::move(run));
  ProgramClass list;
  list.name = "List" + letter;
  for (int i = 0; i < program->blocks; ++i) {
    list.attributes.push_back(module(absl::StrCat(i), block.name));
  }
  ProgramClass stack;
  stack.name = "Stack" + letter;
  stack.attributes = {tensor("p", 'M', Holder::kParameter),
                      module("blocks", list.name)};
  ProgramFunction pass{
      "def forward(self, x: Tensor, level: float) -> Tensor:",
      {line("x = torch.matmul(x, self.p)\n"
            "c = torch.detach(torch.mul(torch.mean(x), torch.div(level, "
            "1000.)))\nviews = torch.zeros([])\nz = x")}};
  if (kind.differentiates) {
    pass.body.push_back(
        line("torch.set_grad_enabled(True)\n"
             "z = torch.requires_grad_(torch.clone(torch.detach(x)))\n"
             "x = torch.mul(z, 1.)"));
  }
  for (const int index : kind.order) {
    pass.body.push_back(line(call(block, index, kind.uses_interface)));
    add_lines(kind.result, &pass.body);
  }
  if (kind.differentiates) {
    pass.body.push_back(
        line("g = torch.autograd.grad([torch.sum(torch.pow(x, 2))], [z])[0]\n"
             "torch.set_grad_enabled(False)\n"
             "x = torch.detach(x)\nviews = torch.detach(views)\n"
             "if torch.__isnot__(g, None):\n"
             "  x = torch.add(x, torch.mul(unchecked_cast(Tensor, g), 0.1))"));
  }
  pass.body.push_back(
      line("return torch.tanh(torch.add(x, torch.mul(views, 0.1)))"));
  stack.methods.push_back(std::move(pass));
  root->attributes.push_back(module(name, stack.name));
  program->classes.push_back(block);
  program->classes.push_back(std::move(list));
  program->classes.push_back(std::move(stack));
}

RandomProgram make_program(const Kind& kind, uint64_t seed) {
  RandomProgram program;
  program.seed = seed;
  program.blocks = 3;
  program.is_in_order = kind.order == std::vector<int>{0, 1, 2};
  if (kind.keeps) program.oddities.insert(ProgramOddity::kStores);
  program.dits = {"transformer"};
  program.encoders = {"text_encoder"};
  program.vaes = {"vae"};
  ProgramClass like;
  like.name = "BlockLike";
  like.is_interface = true;
  like.methods = {
      {"def forward(self, x: Tensor, c: Tensor) -> "
       "Tuple[Tensor, Tensor]:",
       {line("pass")}}};
  program.classes.push_back(std::move(like));
  program.functions.push_back(
      {"def run_like(block: __torch__.program.BlockLike, x: Tensor, c: "
       "Tensor) -> Tuple[Tensor, Tensor]:",
       {line("return (block).forward(x, c)")}});
  ProgramClass root;
  root.name = "Root";
  const Kind plain;
  add_stack(kind.is_encoder ? plain : kind, "transformer", "T", &program,
            &root);
  add_stack(kind.is_encoder ? kind : plain, "text_encoder", "E", &program,
            &root);
  ProgramClass vae;
  vae.name = "Vae";
  vae.attributes = {tensor("p", 'M', Holder::kParameter)};
  vae.methods = {{"def forward(self, x: Tensor) -> Tensor:",
                  {line("return torch.matmul(x, self.p)")}}};
  root.attributes.push_back(module("vae", vae.name));
  program.classes.push_back(std::move(vae));
  root.methods = {{"def encode(self, x: Tensor) -> Tensor:",
                   {line("return (self.text_encoder).forward(x, 1000.)")}},
                  {"def denoise(self, x: Tensor, level: float) -> Tensor:",
                   {line("return (self.transformer).forward(x, level)")}},
                  {"def decode(self, x: Tensor) -> Tensor:",
                   {line("return torch.tanh((self.vae).forward(x))")}}};
  program.classes.push_back(std::move(root));
  return program;
}

}  // namespace

std::vector<NamedProgram> program_kinds() {
  std::vector<NamedProgram> programs;
  for (const Kind& kind : kinds()) {
    programs.push_back({kind.name, make_program(kind, 1000 + programs.size())});
  }
  return programs;
}

}  // namespace ferry
