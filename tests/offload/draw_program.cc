#include "tests/offload/draw_program.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/offload/program_statements.h"

namespace ferry {
namespace {

using Holder = ProgramAttribute::Holder;
using Layout = ProgramAttribute::Layout;
using Statements = std::vector<ProgramStatement>;

constexpr char kModuleName[] = "__torch__.program.";

ProgramStatement fixed(std::string code) { return {std::move(code), true}; }

// Draws one program.
class Drawer {
 public:
  explicit Drawer(uint64_t seed) : draws_(seed), statements_(draws_) {
    program_.seed = seed;
  }

  RandomProgram draw() {
    draw_oddities();
    if (has(ProgramOddity::kConstants)) {
      program_.constants = 1 + static_cast<int>(draws_.below(3));
    }
    program_.blocks = draws_.one_in(4) ? 3 : 2;
    program_.classes.push_back(interface_class());
    program_.functions = helpers();
    ProgramClass root;
    root.name = "Root";
    root.attributes = draw_attributes(2, false);
    add_stack("transformer", "T", true, &root);
    program_.dits = {"transformer"};
    if (draws_.one_in(20)) {
      add_stack("transformer_2", "U", true, &root);
      program_.dits.emplace_back("transformer_2");
    }
    if (draws_.one_in(3)) {
      add_stack("text_encoder", "E", false, &root);
      program_.encoders = {"text_encoder"};
    }
    if (draws_.one_in(5)) {
      add_vae(&root);
      program_.vaes = {"vae"};
    }
    add_root_methods(&root);
    program_.classes.push_back(std::move(root));
    return std::move(program_);
  }

 private:
  bool has(ProgramOddity oddity) const {
    return program_.oddities.count(oddity) > 0;
  }

  void draw_oddities() {
    const size_t kind = draws_.below(5);
    if (kind == 0) return;
    if (kind == 1) {
      program_.oddities.insert(
          static_cast<ProgramOddity>(draws_.below(kProgramOddities)));
      return;
    }
    static constexpr int kPercent[kProgramOddities] = {
        80, 30, 35, 25, 20, 25, 20, 25, 20, 12, 20, 40, 20, 30};
    for (int i = 0; i < kProgramOddities; ++i) {
      if (draws_.percent(static_cast<size_t>(kPercent[i]))) {
        program_.oddities.insert(static_cast<ProgramOddity>(i));
      }
    }
    if (!has(ProgramOddity::kAutograd)) return;
    // What gradients go through must not be written, nor live on.
    for (const ProgramOddity written :
         {ProgramOddity::kWrites, ProgramOddity::kSilentWrites,
          ProgramOddity::kSilentWriters, ProgramOddity::kStores,
          ProgramOddity::kCounters}) {
      program_.oddities.erase(written);
    }
  }

  static ProgramClass interface_class() {
    ProgramClass made;
    made.name = "BlockLike";
    made.is_interface = true;
    made.methods = {
        {"def forward(self, x: Tensor, c: Tensor) -> "
         "Tuple[Tensor, Tensor]:",
         {fixed("pass")}}};
    return made;
  }

  static std::vector<ProgramFunction> helpers() {
    return {{"def same(v: Tensor) -> Tensor:", {fixed("return v")}},
            {"def view_of(v: Tensor) -> Tensor:",
             {fixed("return torch.detach(torch.alias(v))")}},
            {"def write(v: Tensor) -> Tensor:",
             {fixed("return torch.mul_(v, 0.9)")}}};
  }

  std::string new_attribute() {
    const int number = attributes_++;
    return absl::StrCat("a", number / 10, number % 10);
  }

  // Ones that hold a tensor each, the first two in float.
  std::vector<ProgramAttribute> draw_attributes(size_t most, bool may_tie) {
    static const auto* const kDtypes = new std::vector<std::string>{
        "float",         "float",       "float", "float", "bfloat16",
        "float8_e4m3fn", "float8_e5m2", "int8",  "half",  "uint8"};
    static const auto* const kHolders = new std::vector<Holder>{
        Holder::kParameter, Holder::kBuffer, Holder::kAttribute,
        Holder::kList,      Holder::kDict,   Holder::kTuple};
    std::vector<ProgramAttribute> made = {
        tensor_attribute(new_attribute(), 'M'),
        tensor_attribute(new_attribute(), 'V', Holder::kBuffer)};
    for (size_t i = draws_.below(most + 1); i > 0; --i) {
      ProgramAttribute attribute = tensor_attribute(
          new_attribute(), "SVMM"[draws_.below(4)], draws_.among(*kHolders));
      attribute.dtype = draws_.among(*kDtypes);
      const auto layouts = attribute.shape == 'M' ? 4 : 1;
      attribute.layout = static_cast<Layout>(draws_.below(layouts));
      made.push_back(std::move(attribute));
    }
    if (may_tie && has(ProgramOddity::kTies) && draws_.one_in(2)) {
      made.push_back(tensor_attribute(new_attribute(), 'M', Holder::kBuffer));
      made.back().tie = "tied";
    }
    return made;
  }

  ProgramScope scope_of(const ProgramClass& made, const std::string& owner,
                        const ProgramClass* inner = nullptr) const {
    ProgramScope scope;
    scope.owner = owner;
    scope.owner_class = &made;
    scope.inner_class = inner;
    scope.oddities = program_.oddities;
    scope.constants = program_.constants;
    scope.is_differentiated = has(ProgramOddity::kAutograd);
    return scope;
  }

  void add_statements(const ProgramScope& scope, size_t most,
                      Statements* into) {
    for (size_t i = draws_.below(most + 1); i > 0; --i) {
      into->push_back(statements_.draw(scope));
    }
  }

  // A module inside of a block.
  ProgramClass draw_inner(const std::string& name) {
    ProgramClass made;
    made.name = name;
    made.attributes = draw_attributes(2, false);
    ProgramFunction forward{
        absl::StrCat("def forward(self, x: Tensor) -> Tensor:"), {}};
    add_statements(scope_of(made, "self"), 1, &forward.body);
    forward.body.push_back(fixed("return x"));
    made.methods.push_back(std::move(forward));
    return made;
  }

  void add_stores(ProgramClass* made) {
    if (!has(ProgramOddity::kStores)) return;
    const std::vector<ProgramAttribute> stores = {
        tensor_attribute("kept", 'V', Holder::kAttribute),
        tensor_attribute("kept_list", 'V', Holder::kList),
        tensor_attribute("kept_dict", 'V', Holder::kDict)};
    for (const ProgramAttribute& store : stores) {
      if (draws_.one_in(2)) made->attributes.push_back(store);
    }
  }

  void add_counters(ProgramClass* made) {
    if (!has(ProgramOddity::kCounters)) return;
    made->attributes.push_back(tensor_attribute("count", 'S', Holder::kInt));
    made->attributes.push_back(
        tensor_attribute("count_buffer", 'S', Holder::kBuffer));
    made->attributes.back().dtype = "int64";
  }

  void add_hooks(ProgramClass* made, const ProgramClass* inner) {
    if (!has(ProgramOddity::kHooks)) return;
    const std::string self = absl::StrCat("self: ", kModuleName, made->name);
    const ProgramScope scope = scope_of(*made, "self", inner);
    const size_t which = draws_.below(3);
    if (which != 1) {
      ProgramFunction before{
          absl::StrCat("def before(", self, ", input: Tuple[Tensor, Tensor]) ",
                       "-> Tuple[Tensor, Tensor]:"),
          {fixed("x, c, = input")}};
      before.body.push_back(statements_.draw(scope));
      before.body.push_back(fixed("return (x, c)"));
      made->pre_hooks = {"before"};
      made->methods.push_back(std::move(before));
    }
    if (which != 0) {
      ProgramFunction after{
          absl::StrCat("def after(", self, ", input: Tuple[Tensor, Tensor], ",
                       "output: Tuple[Tensor, Tensor]) -> ",
                       "Tuple[Tensor, Tensor]:"),
          {fixed("x, v, = output")}};
      after.body.push_back(statements_.draw(scope));
      after.body.push_back(fixed("return (x, v)"));
      made->hooks = {"after"};
      made->methods.push_back(std::move(after));
    }
  }

  // A class of blocks; all return x and another tensor.
  void add_block_class(const std::string& name) {
    ProgramClass made;
    made.name = name;
    made.attributes = draw_attributes(4, true);
    const std::string weight = made.attributes[0].name;
    const std::string bias = made.attributes[1].name;
    add_stores(&made);
    add_counters(&made);
    const bool has_inner = draws_.one_in(3);
    ProgramClass inner;
    if (has_inner) {
      inner = draw_inner(absl::StrCat("Inner", name));
      made.attributes.push_back(module_attribute("inner", inner.name));
    }
    const ProgramClass* const inner_class = has_inner ? &inner : nullptr;
    const ProgramScope scope = scope_of(made, "self", inner_class);
    ProgramFunction mix{"def mix(self, x: Tensor) -> Tensor:", {}};
    if (draws_.one_in(3)) add_statements(scope, 1, &mix.body);
    mix.body.push_back(fixed("return x"));
    ProgramFunction forward{
        "def forward(self, x: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:",
        {fixed(absl::StrCat("x = torch.add(x, torch.mul(torch.tanh(torch.add("
                            "torch.matmul(torch.add(x, c), self.",
                            weight, "), self.", bias, ")), 0.5))"))}};
    add_statements(scope, 2, &forward.body);
    if (has_inner) {
      forward.body.push_back({"x = (self.inner).forward(x)", false});
    }
    forward.body.push_back({"x = (self).mix(x)", false});
    forward.body.push_back(fixed("w = torch.mean(x)"));
    if (has(ProgramOddity::kReturnedViews)) {
      forward.body.push_back({statements_.draw_view(scope, "w"), false});
    }
    forward.body.push_back(fixed("return (torch.tanh(x), w)"));
    made.methods = {std::move(mix), std::move(forward)};
    add_hooks(&made, inner_class);
    if (has_inner) program_.classes.push_back(std::move(inner));
    program_.classes.push_back(std::move(made));
  }

  const ProgramClass& class_of(const std::string& name) const {
    for (const ProgramClass& made : program_.classes) {
      if (made.name == name) return made;
    }
    return program_.classes.front();
  }

  // How a stack runs a block: directly with its hooks, or through a function.
  std::string call_block(const ProgramClass& made, const std::string& block,
                         const std::string& name) {
    const std::string path = absl::StrCat(kModuleName, made.name);
    if (has(ProgramOddity::kFreeFunctions) && draws_.one_in(2)) {
      return absl::StrCat(name, ", w = ", kModuleName,
                          draws_.one_in(2) ? "run_like" : "run_" + made.name,
                          "(", block, ", x, c)");
    }
    std::string code = absl::StrCat("io = (x, c)");
    if (!made.pre_hooks.empty()) {
      absl::StrAppend(&code, "\nio = ", path, ".before(", block, ", (x, c))");
    }
    absl::StrAppend(&code, "\nix, ic, = io\nxw = (", block,
                    ").forward(ix, ic)");
    if (!made.hooks.empty()) {
      absl::StrAppend(&code, "\nxw = ", path, ".after(", block, ", io, xw)");
    }
    return absl::StrCat(code, "\n", name, ", w, = xw");
  }

  void add_block_functions(const ProgramClass& made) {
    ProgramFunction run{
        absl::StrCat("def run_", made.name, "(block: ", kModuleName, made.name,
                     ", x: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:"),
        {}};
    run.body.push_back(fixed("x, v, = (block).forward(x, c)"));
    add_statements(scope_of(made, "block"), 1, &run.body);
    run.body.push_back(fixed("return (x, v)"));
    program_.functions.push_back(std::move(run));
  }

  void add_run_like() {
    for (const ProgramFunction& function : program_.functions) {
      if (function.head.find("run_like") != std::string::npos) return;
    }
    program_.functions.push_back(
        {absl::StrCat("def run_like(block: ", kModuleName,
                      "BlockLike, x: Tensor, c: Tensor) -> "
                      "Tuple[Tensor, Tensor]:"),
         {fixed("return (block).forward(x, c)")}});
  }

  void add_stack(const std::string& name, const std::string& letter,
                 bool is_dit, ProgramClass* root) {
    std::vector<std::string> types = {absl::StrCat("Block", letter, "0")};
    if (draws_.one_in(8)) types.push_back(absl::StrCat("Block", letter, "1"));
    for (const std::string& type : types) {
      add_block_class(type);
      if (!has(ProgramOddity::kFreeFunctions)) continue;
      add_block_functions(class_of(type));
      add_run_like();
    }
    ProgramClass list;
    list.name = absl::StrCat("List", letter);
    for (int i = 0; i < program_.blocks; ++i) {
      list.attributes.push_back(module_attribute(
          absl::StrCat(i), types[static_cast<size_t>(i) % types.size()]));
    }
    program_.classes.push_back(list);
    ProgramClass stack;
    stack.name = absl::StrCat("Stack", letter);
    stack.attributes = draw_attributes(2, true);
    stack.attributes.push_back(module_attribute("blocks", list.name));
    const bool through_interface =
        has(ProgramOddity::kFreeFunctions) && draws_.one_in(3);
    if (through_interface) {
      stack.attributes.push_back(module_attribute("first", types[0]));
      stack.attributes.back().is_interface = true;
      stack.attributes.back().alias_of = "blocks.0";
    }
    stack.methods.push_back(draw_pass(stack, types, is_dit, through_interface));
    root->attributes.push_back(module_attribute(name, stack.name));
    program_.classes.push_back(std::move(stack));
  }

  // The numbers of the blocks in the order of a pass.
  std::vector<int> draw_order() {
    std::vector<int> order;
    const size_t way = draws_.below(8);
    program_.is_in_order &= way == 0 || way > 3;
    for (int i = 0; i < program_.blocks; ++i) {
      order.push_back(way == 1 ? program_.blocks - 1 - i : i);
      if (way == 2) order.push_back(i);
    }
    if (way == 3) order.push_back(0);
    return order;
  }

  ProgramFunction draw_pass(const ProgramClass& stack,
                            const std::vector<std::string>& types, bool is_dit,
                            bool through_interface) {
    const bool differentiates = is_dit && has(ProgramOddity::kAutograd);
    ProgramFunction pass{
        "def forward(self, x: Tensor, level: float) -> "
        "Tensor:",
        {}};
    Statements& body = pass.body;
    body.push_back(
        fixed("views = annotate(List[Tensor], [])\n"
              "c = torch.mul(torch.mean(x), torch.div(level, "
              "1000.))\nblocks = self.blocks\nz = x"));
    if (differentiates) {
      body.push_back(
          fixed("torch.set_grad_enabled(True)\n"
                "z = torch.requires_grad_(torch.clone(torch.detach(x)))\n"
                "x = torch.mul(z, 1.)\nc = torch.detach(c)"));
    }
    const ProgramScope scope = scope_of(stack, "self");
    if (draws_.one_in(2)) add_statements(scope, 1, &body);
    add_block_calls(types, through_interface, &body);
    body.push_back(
        {"for v in views:\n  x = torch.add(x, torch.mul(torch.mean("
         "torch.to(v, 6)), 0.05))",
         false});
    if (differentiates) {
      body.push_back(fixed(
          "g = torch.autograd.grad([torch.sum(torch.pow(x, 2))], [z])[0]\n"
          "torch.set_grad_enabled(False)\nx = torch.detach(x)\n"
          "if torch.__isnot__(g, None):\n"
          "  x = torch.add(x, torch.mul(unchecked_cast(Tensor, g), 0.1))"));
    }
    body.push_back(fixed("return torch.tanh(x)"));
    return pass;
  }

  void add_block_calls(const std::vector<std::string>& types,
                       bool through_interface, Statements* body) {
    const bool skips = draws_.one_in(8);
    const bool again = draws_.one_in(10);
    program_.is_in_order &= !again;
    for (const int i : draw_order()) {
      const ProgramClass& type =
          class_of(types[static_cast<size_t>(i) % types.size()]);
      const std::string block = absl::StrCat("getattr(blocks, \"", i, "\")");
      std::string code = through_interface && i == 0 && draws_.one_in(2)
                             ? std::string("x, w, = (self.first).forward(x, c)")
                             : call_block(type, block, "x");
      absl::StrAppend(&code, "\ntorch.append(views, w)");
      if (has(ProgramOddity::kOutsideReads) && draws_.one_in(3)) {
        const int other = static_cast<int>(
            draws_.below(static_cast<size_t>(program_.blocks)));
        read_outside(types, other, body);
      }
      if (skips && i % 2 == 1) code = indent("if torch.gt(level, 500.):", code);
      if (again) code = indent("for n in range(2):", code);
      body->push_back({std::move(code), false});
    }
  }

  static std::string indent(const std::string& head, const std::string& code) {
    return absl::StrCat(head, "\n  ",
                        absl::StrReplaceAll(code, {{"\n", "\n  "}}));
  }

  void read_outside(const std::vector<std::string>& types, int index,
                    Statements* body) {
    const ProgramClass& type =
        class_of(types[static_cast<size_t>(index) % types.size()]);
    const std::string block = absl::StrCat("getattr(blocks, \"", index, "\")");
    const ProgramAttribute* inner = nullptr;
    for (const ProgramAttribute& attribute : type.attributes) {
      if (attribute.name == "inner") inner = &attribute;
    }
    if (inner != nullptr && draws_.one_in(3)) {
      body->push_back(
          {absl::StrCat("x = (", block, ".inner).forward(x)"), false});
      return;
    }
    body->push_back(statements_.draw(scope_of(
        type, block, inner == nullptr ? nullptr : &class_of(inner->module))));
  }

  void add_vae(ProgramClass* root) {
    ProgramClass made;
    made.name = "Vae";
    made.attributes = draw_attributes(3, true);
    ProgramFunction forward{"def forward(self, x: Tensor) -> Tensor:", {}};
    add_statements(scope_of(made, "self"), 1, &forward.body);
    forward.body.push_back(fixed(absl::StrCat("return torch.matmul(x, self.",
                                              made.attributes[0].name, ")")));
    made.methods.push_back(std::move(forward));
    root->attributes.push_back(module_attribute("vae", made.name));
    program_.classes.push_back(std::move(made));
  }

  void add_root_methods(ProgramClass* root) {
    const std::string bias = root->attributes[1].name;
    ProgramScope scope = scope_of(*root, "self");
    ProgramFunction encode{"def encode(self, x: Tensor) -> Tensor:", {}};
    if (!program_.encoders.empty()) {
      encode.body.push_back(fixed("x = (self.text_encoder).forward(x, 1000.)"));
    }
    encode.body.push_back(
        fixed(absl::StrCat("return torch.add(x, self.", bias, ")")));
    ProgramFunction denoise{
        "def denoise(self, x: Tensor, level: Tensor) -> Tensor:",
        {fixed("number = float(level)")}};
    if (draws_.one_in(3)) add_statements(scope, 1, &denoise.body);
    if (program_.dits.size() > 1) {
      denoise.body.push_back(
          fixed("if torch.lt(number, 500.):\n"
                "  x = (self.transformer_2).forward(x, number)\nelse:\n"
                "  x = (self.transformer).forward(x, number)"));
    } else {
      denoise.body.push_back(
          fixed("x = (self.transformer).forward(x, number)"));
    }
    denoise.body.push_back(fixed("return x"));
    ProgramFunction decode{"def decode(self, x: Tensor) -> Tensor:", {}};
    if (!program_.vaes.empty()) {
      decode.body.push_back(fixed("x = (self.vae).forward(x)"));
    }
    decode.body.push_back(fixed("return torch.tanh(x)"));
    root->methods = {std::move(encode), std::move(denoise), std::move(decode)};
  }

  ProgramDraws draws_;
  ProgramStatements statements_;
  int attributes_ = 0;
  RandomProgram program_;
};

}  // namespace

RandomProgram draw_program(uint64_t seed) { return Drawer(seed).draw(); }

}  // namespace ferry
