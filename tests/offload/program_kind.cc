#include "tests/offload/program_kind.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

using Holder = ProgramAttribute::Holder;

ProgramStatement line(std::string code) { return {std::move(code), true}; }

void add_lines(const std::string& code, std::vector<ProgramStatement>* body) {
  if (!code.empty()) body->push_back(line(code));
}

ProgramClass make_block(const ProgramKind& kind, const std::string& name) {
  ProgramClass made;
  made.name = name;
  made.attributes = {tensor_attribute("w", 'M', Holder::kParameter),
                     tensor_attribute("s", 'V', Holder::kBuffer),
                     tensor_attribute("e", 'M', Holder::kBuffer, kind.dtype)};
  if (kind.has_offset) {
    made.attributes.back().layout = ProgramAttribute::Layout::kOffset;
  }
  if (kind.is_attribute) made.attributes.back().holder = Holder::kAttribute;
  if (kind.keeps) {
    made.attributes.push_back(
        tensor_attribute("kept", 'V', Holder::kAttribute));
    made.attributes.push_back(
        tensor_attribute("kept_dict", 'V', Holder::kDict));
  }
  ProgramFunction forward{
      "def forward(self, x: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:",
      {line("x = torch.add(x, torch.tanh(torch.matmul(torch.add(x, c), "
            "self.w)))")}};
  add_lines(kind.forward_code, &forward.body);
  forward.body.push_back(line("return (torch.tanh(x), torch.mean(x))"));
  made.methods.push_back(std::move(forward));
  const std::string self = absl::StrCat("self: __torch__.program.", name);
  if (!kind.before_code.empty()) {
    ProgramFunction before{
        absl::StrCat("def before(", self, ", input: Tuple[Tensor, Tensor]) -> ",
                     "Tuple[Tensor, Tensor]:"),
        {line("x, c, = input")}};
    add_lines(kind.before_code, &before.body);
    before.body.push_back(line("return (x, c)"));
    made.methods.push_back(std::move(before));
    made.pre_hooks = {"before"};
  }
  if (!kind.after_code.empty()) {
    ProgramFunction after{
        absl::StrCat("def after(", self, ", input: Tuple[Tensor, Tensor], ",
                     "output: Tuple[Tensor, Tensor]) -> Tuple[Tensor, ",
                     "Tensor]:"),
        {line("x, v, = output")}};
    add_lines(kind.after_code, &after.body);
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

// Blocks in the order in which a stack runs them; of one that is not of the
// kind each once.
std::vector<int> order_of(const ProgramKind& kind, int blocks) {
  if (!kind.is_in_order()) return kind.run_order;
  std::vector<int> order;
  for (int i = 0; i < blocks; ++i) order.push_back(i);
  return order;
}

void add_stack(const ProgramKind& kind, const std::string& name,
               const std::string& letter, RandomProgram* program,
               ProgramClass* root) {
  const ProgramClass block = make_block(kind, "Block" + letter);
  ProgramFunction run{
      absl::StrCat("def run_", block.name, "(block: __torch__.program.",
                   block.name,
                   ", x: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:"),
      {}};
  add_lines(kind.function_code, &run.body);
  run.body.push_back(line("return (block).forward(x, c)"));
  program->functions.push_back(std::move(run));
  ProgramClass list;
  list.name = "List" + letter;
  for (int i = 0; i < program->blocks; ++i) {
    list.attributes.push_back(module_attribute(absl::StrCat(i), block.name));
  }
  ProgramClass stack;
  stack.name = "Stack" + letter;
  stack.attributes = {tensor_attribute("p", 'M', Holder::kParameter),
                      module_attribute("blocks", list.name)};
  ProgramFunction pass{
      "def forward(self, x: Tensor, level: Tensor) -> Tensor:",
      {line("x = torch.matmul(x, self.p)\n"
            "c = torch.detach(torch.mul(torch.mean(x), torch.div(level, "
            "1000.)))\nviews = torch.zeros([])\nz = x")}};
  if (kind.differentiates) {
    pass.body.push_back(
        line("torch.set_grad_enabled(True)\n"
             "z = torch.requires_grad_(torch.clone(torch.detach(x)))\n"
             "x = torch.mul(z, 1.)"));
  }
  for (const int index : order_of(kind, program->blocks)) {
    pass.body.push_back(line(call(block, index, kind.uses_interface)));
    add_lines(kind.result_code, &pass.body);
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
  root->attributes.push_back(module_attribute(name, stack.name));
  program->classes.push_back(block);
  program->classes.push_back(std::move(list));
  program->classes.push_back(std::move(stack));
}

}  // namespace

bool ProgramKind::is_in_order() const {
  return std::adjacent_find(run_order.begin(), run_order.end(),
                            std::greater_equal<>()) == run_order.end();
}

std::set<std::string> ProgramKind::streams(const RandomProgram& program) const {
  std::set<std::string> streamed;
  for (const bool of_encoder : {false, true}) {
    const bool is_own = of_encoder == is_encoder;
    std::set<std::string> names = {"w", "s", "e"};
    if (is_own && keeps) names.insert({"kept", "kept_dict[k]"});
    if (is_own) {
      for (const std::string& one : held) names.erase(one);
    }
    for (int i = 0; i < program.blocks; ++i) {
      for (const std::string& one : names) {
        streamed.insert(
            absl::StrCat(of_encoder ? "text_encoder" : "transformer",
                         ".blocks.", i, ".", one));
      }
    }
  }
  return streamed;
}

RandomProgram make_program(const ProgramKind& kind, uint64_t seed) {
  RandomProgram program;
  program.seed = seed;
  program.blocks =
      1 + *std::max_element(kind.run_order.begin(), kind.run_order.end());
  program.is_in_order = kind.is_in_order();
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
  const ProgramKind plain("plain");
  add_stack(kind.is_encoder ? plain : kind, "transformer", "T", &program,
            &root);
  add_stack(kind.is_encoder ? kind : plain, "text_encoder", "E", &program,
            &root);
  ProgramClass vae;
  vae.name = "Vae";
  vae.attributes = {tensor_attribute("p", 'M', Holder::kParameter)};
  vae.methods = {{"def forward(self, x: Tensor) -> Tensor:",
                  {line("return torch.matmul(x, self.p)")}}};
  root.attributes.push_back(module_attribute("vae", vae.name));
  program.classes.push_back(std::move(vae));
  root.methods = {
      {"def encode(self, x: Tensor) -> Tensor:",
       {line("return (self.text_encoder).forward(x, torch.tensor(1000.))")}},
      {"def denoise(self, x: Tensor, level: Tensor) -> Tensor:",
       {line("return (self.transformer).forward(x, level)")}},
      {"def decode(self, x: Tensor) -> Tensor:",
       {line("return torch.tanh((self.vae).forward(x))")}}};
  program.classes.push_back(std::move(root));
  return program;
}

}  // namespace ferry
