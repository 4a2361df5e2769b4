#include "tests/offload/many_rings.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

std::vector<std::string> block_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kBlocksOfRing; ++i) names.push_back(absl::StrCat(i));
  return names;
}

ProgramStatement line(std::string code) { return {std::move(code), true}; }

ProgramClass make_class(std::string name,
                        std::vector<ProgramAttribute> attributes) {
  ProgramClass made;
  made.name = std::move(name);
  made.attributes = std::move(attributes);
  return made;
}

// A block, and a container of some.
void add_blocks(RandomProgram* program) {
  ProgramClass block = make_class("Scale", {tensor_attribute("w", 'V')});
  block.methods = {{"def forward(self, x: Tensor) -> Tensor:",
                    {line("return torch.tanh(torch.add(x, self.w))")}}};
  program->classes.push_back(std::move(block));
  ProgramClass list = make_class("List", {});
  for (const std::string& name : block_names()) {
    list.attributes.push_back(module_attribute(name, "Scale"));
  }
  program->classes.push_back(std::move(list));
}

// A module that runs its containers' blocks.
void add_component(const std::string& name,
                   const std::vector<std::string>& lists,
                   RandomProgram* program) {
  ProgramClass component = make_class(name, {});
  ProgramFunction forward{"def forward(self, x: Tensor) -> Tensor:", {}};
  for (const std::string& list : lists) {
    component.attributes.push_back(module_attribute(list, "List"));
    for (const std::string& block : block_names()) {
      forward.body.push_back(line(absl::StrCat(
          "x = (getattr(self.", list, ", \"", block, "\")).forward(x)")));
    }
  }
  forward.body.push_back(line("return x"));
  component.methods = {std::move(forward)};
  program->classes.push_back(std::move(component));
}

RandomProgram make_program(const std::vector<std::string>& lists,
                           const std::vector<std::string>& encoders) {
  RandomProgram program;
  program.seed = 2000 + lists.size() + encoders.size();
  program.blocks = kBlocksOfRing;
  program.dits = {"transformer"};
  program.encoders = encoders;
  program.encoder_lists = lists;
  add_blocks(&program);
  add_component("Dit", {"blocks"}, &program);
  add_component("Encoder", lists, &program);
  ProgramClass root =
      make_class("Root", {module_attribute("transformer", "Dit")});
  ProgramFunction encode{"def encode(self, x: Tensor) -> Tensor:", {}};
  for (const std::string& encoder : encoders) {
    root.attributes.push_back(module_attribute(encoder, "Encoder"));
    encode.body.push_back(
        line(absl::StrCat("x = (self.", encoder, ").forward(x)")));
  }
  encode.body.push_back(line("return x"));
  root.methods = {std::move(encode),
                  {"def denoise(self, x: Tensor, level: Tensor) -> Tensor:",
                   {line("return torch.add((self.transformer).forward(x), "
                         "torch.mul(level, 0.001))")}},
                  {"def decode(self, x: Tensor) -> Tensor:",
                   {line("return torch.tanh(x)")}}};
  program.classes.push_back(std::move(root));
  return program;
}

}  // namespace

RandomProgram many_stacks(int stacks) {
  std::vector<std::string> lists;
  for (int i = 0; i < stacks; ++i) lists.push_back(absl::StrCat("stack", i));
  return make_program(lists, {"text_encoder"});
}

RandomProgram many_encoders(int encoders) {
  std::vector<std::string> names = {"text_encoder"};
  for (int i = 2; i <= encoders; ++i) {
    names.push_back(absl::StrCat("text_encoder_", i));
  }
  return make_program({"blocks"}, names);
}

}  // namespace ferry
