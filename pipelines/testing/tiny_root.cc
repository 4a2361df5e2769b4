#include "pipelines/testing/tiny_root.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "absl/time/time.h"
#include "pipelines/testing/tiny_state.h"
#include "platform/base/clock.h"

namespace ferry {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;
using Unit = std::shared_ptr<CompilationUnit>;

constexpr char kBlockType[] = "__torch__.tiny.Block";

at::Generator& generator() {
  thread_local at::Generator generator = at::detail::createCPUGenerator(7);
  return generator;
}

// Weights differ from each other, and are the same for every root.
at::Tensor weights(at::IntArrayRef shape, double scale) {
  return at::randn(shape, generator(), at::kFloat) * scale;
}

// Knows fork(), which the compiler's own names lack.
struct ForkResolver : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(
      const std::string& name, torch::jit::GraphFunction& function,
      const torch::jit::SourceRange& range) override {
    if (name == "fork") {
      return torch::jit::SpecialFormValue::create(c10::prim::fork);
    }
    return torch::jit::nativeResolver()->resolveValue(name, function, range);
  }
};

Module make_module(const Unit& unit, const std::string& name) {
  return Module(c10::QualifiedName("__torch__.tiny." + name), unit,
                /*shouldMangle=*/true);
}

void add_names(Module& module, const std::string& attribute,
               const std::vector<std::string>& names) {
  module.register_attribute(
      attribute, c10::ListType::ofStrings(),
      c10::List<std::string>(c10::ArrayRef<std::string>(names)));
}

using BlockAttributes = std::map<std::string, std::vector<std::string>>;

void add_block_attributes(Module& module, const std::string& attribute,
                          const BlockAttributes& attributes) {
  c10::Dict<std::string, c10::List<std::string>> dict;
  for (const auto& [path, names] : attributes) {
    dict.insert(path,
                c10::List<std::string>(c10::ArrayRef<std::string>(names)));
  }
  module.register_attribute(
      attribute,
      c10::DictType::create(c10::StringType::get(), c10::ListType::ofStrings()),
      dict);
}

void register_block_state(Module& block) {
  block.register_parameter("weight", weights({kTinyWidth, kTinyWidth}, 0.3),
                           false);
  block.register_parameter("bias", weights({kTinyWidth}, 0.1), false);
  block.register_buffer("scale", at::full({}, 0.5));
}

Module make_scripted_block(const Unit& unit, bool forking) {
  if (!forking) {
    if (const auto type = unit->get_class(c10::QualifiedName(kBlockType))) {
      Module block(unit, type);
      block.setattr("weight", weights({kTinyWidth, kTinyWidth}, 0.3));
      block.setattr("bias", weights({kTinyWidth}, 0.1));
      block.setattr("scale", at::full({}, 0.5));
      return block;
    }
  }
  Module block(
      c10::QualifiedName(forking ? "__torch__.tiny.ForkingBlock" : kBlockType),
      unit, /*shouldMangle=*/false);
  register_block_state(block);
  block.define(R"(
def mix(self, x):
    return torch.tanh(torch.matmul(x, self.weight) + self.bias)
)");
  if (forking) {
    block.define(R"(
def forward(self, x, t):
    return x + self.scale * torch.wait(fork(self.mix, x + t))
)",
                 std::make_shared<ForkResolver>());
  } else {
    block.define(R"(
def forward(self, x, t):
    return x + self.scale * self.mix(x + t)
)");
  }
  return block;
}

// How many products of identity matrices take `milliseconds` with one thread.
int64_t count_products(int milliseconds) {
  constexpr int kTries = 20;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  at::Tensor m = at::eye(256);
  absl::Duration shortest = absl::InfiniteDuration();
  for (int i = 0; i < kTries; ++i) {
    const absl::Duration start = Clock::real().monotonic();
    m = at::matmul(m, m);
    shortest = std::min(shortest, Clock::real().monotonic() - start);
  }
  at::set_num_threads(threads);
  return static_cast<int64_t>(
      absl::FDivDuration(absl::Milliseconds(milliseconds), shortest));
}

// A block with one more parameter, of which it adds the mean.
Module make_ballast_block(const Unit& unit,
                          const TinyPipelineOptions& options) {
  constexpr char kType[] = "__torch__.tiny.BallastBlock";
  const auto elements =
      options.ballast_bytes / static_cast<int64_t>(sizeof(float));
  const at::Tensor ballast =
      at::arange(elements, at::kFloat).remainder_(251).mul_(1e-4);
  if (const auto type = unit->get_class(c10::QualifiedName(kType))) {
    Module block(unit, type);
    block.setattr("weight", weights({kTinyWidth, kTinyWidth}, 0.3));
    block.setattr("bias", weights({kTinyWidth}, 0.1));
    block.setattr("ballast", ballast);
    block.setattr("scale", at::full({}, 0.5));
    return block;
  }
  Module block(c10::QualifiedName(kType), unit, /*shouldMangle=*/false);
  register_block_state(block);
  block.register_parameter("ballast", ballast, false);
  std::string code = R"(
def forward(self, x, t):
    y = torch.tanh(torch.matmul(x + t, self.weight) + self.bias)
)";
  if (options.block_ms > 0) {
    absl::StrAppend(
        &code, "    m = torch.eye(256)\n    for i in range(",
        count_products(options.block_ms),
        "):\n        m = torch.matmul(m, m)\n    y = y * m[0, 0]\n");
  }
  block.define(code +
               "    return x + self.scale * (y + self.ballast.mean())\n");
  return block;
}

// What the tracer sees of a block.
at::Tensor traced_forward(const Module& block, const at::Tensor& x,
                          const at::Tensor& t) {
  const at::Tensor mixed =
      at::tanh(at::matmul(x + t, block.attr("weight").toTensor()) +
               block.attr("bias").toTensor());
  return x + block.attr("scale").toTensor() * mixed;
}

void add_traced_method(const Unit& unit, Module& block,
                       const std::string& name) {
  const at::Tensor x = at::ones({2, 4, kTinyWidth});
  const at::Tensor t = at::ones({2, 1, kTinyWidth});
  const auto traced = torch::jit::tracer::trace(
      {x, t},
      [&](torch::jit::Stack inputs) {
        return torch::jit::Stack{
            traced_forward(block, inputs[0].toTensor(), inputs[1].toTensor())};
      },
      [](const torch::autograd::Variable&) { return std::string(); },
      /*strict=*/true, /*force_outplace=*/false, &block, {"x", "t"});
  block.type()->addMethod(unit->create_function(
      c10::QualifiedName(*block.type()->name(), name), traced.first->graph));
}

Module make_container(const Unit& unit, const std::vector<Module>& modules) {
  Module container = make_module(unit, "ModuleList");
  for (size_t i = 0; i < modules.size(); ++i) {
    container.register_module(absl::StrCat(i), modules[i]);
  }
  return container;
}

// Lines that run x through the blocks of a list, in this order; where it is
// empty, through all of them.
std::string run_blocks(const std::string& list, std::vector<int> order,
                       int blocks) {
  if (order.empty()) {
    order.resize(static_cast<size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
  }
  std::string code;
  for (const int block : order) {
    absl::StrAppend(&code, "    x = getattr(self.", list, ", \"", block,
                    "\").forward(x, t)\n");
  }
  return code;
}

// Lines that run x through the first block once more, below a timestep.
std::string run_again(double timestep) {
  if (timestep <= 0) return "";
  return absl::StrCat("    if float(timestep[0]) < ", timestep, ":\n        ",
                      "x = getattr(self.blocks, \"0\").forward(x, t)\n");
}

// Gives a component its state. The line that writes it, and changes x.
std::string remember(const TinyPipelineOptions& options, Module* module) {
  if (options.state.empty()) return "";
  add_tiny_state(options.state, module);
  return "    x = self.remember(x)\n";
}

Module make_dit(const Unit& unit, const TinyPipelineOptions& options) {
  std::vector<Module> blocks;
  for (int i = 0; i < options.blocks; ++i) {
    blocks.push_back(options.ballast_bytes > 0
                         ? make_ballast_block(unit, options)
                         : make_tiny_block(unit, options.traced,
                                           options.forking_block && i == 0));
  }
  if (options.tied) blocks[1].setattr("bias", blocks[0].attr("bias"));
  Module dit = make_module(unit, "Transformer");
  dit.register_module("blocks", make_container(unit, blocks));
  dit.register_parameter("proj_in", weights({4, kTinyWidth}, 0.5), false);
  dit.register_parameter("proj_out", weights({kTinyWidth, 4}, 0.3), false);
  dit.register_buffer("frequencies", weights({kTinyWidth}, 0.01));
  if (options.writes_parameter) {
    dit.register_parameter("passes", at::zeros({2}), false);
  }
  dit.define(absl::StrCat(
      R"(
def forward(self, latents, timestep, text):
)",
      options.writes_parameter ? "    self.passes.add_(1)\n" : "",
      R"(
    x = torch.matmul(latents.flatten(2).transpose(1, 2), self.proj_in)
    t = torch.sin(timestep.reshape(-1, 1, 1) * self.frequencies)
    t = t.to(latents.dtype) + text.unsqueeze(1)
)",
      run_blocks("blocks", options.block_order, options.blocks),
      run_again(options.again_below_timestep), remember(options, &dit), R"(
    x = torch.matmul(x, self.proj_out)
)",
      options.writes_parameter ? "    x = x + self.passes.sum() * 0.001\n" : "",
      R"(
    return x.transpose(1, 2).reshape(latents.shape)
)"));
  return dit;
}

// Its lists of blocks.
std::vector<std::string> encoder_stacks(const TinyPipelineOptions& options) {
  std::vector<std::string> stacks = {"blocks"};
  for (int i = 1; i < options.encoder_stacks; ++i) {
    stacks.push_back(absl::StrCat("blocks_", i));
  }
  return stacks;
}

Module make_text_encoder(const Unit& unit, const TinyPipelineOptions& options) {
  Module encoder = make_module(unit, "TextEncoder");
  encoder.register_parameter("table", weights({kTinyVocabulary, kTinyWidth}, 1),
                             false);
  std::string run_stacks;
  for (const std::string& stack : encoder_stacks(options)) {
    encoder.register_module(
        stack, make_container(unit, {make_tiny_block(unit, false),
                                     make_tiny_block(unit, false)}));
    run_stacks += run_blocks(stack, options.encoder_order, 2);
  }
  const std::string pool = options.attention_mask ? R"(
    m = mask.to(x.dtype).unsqueeze(2)
    return (x * m).sum(1) / m.sum(1)
)"
                                                  : R"(
    return x.mean(1)
)";
  encoder.define(absl::StrCat("def forward(self, ids",
                              options.attention_mask ? ", mask" : "", "):\n",
                              R"(
    x = torch.embedding(self.table, ids)
    t = x.mean(1).unsqueeze(1)
)",
                              run_stacks, remember(options, &encoder), pool));
  return encoder;
}

Module make_vae(const Unit& unit, const TinyPipelineOptions& options) {
  Module vae = make_module(unit, "Vae");
  vae.register_parameter("weight", weights({3, 4, 1, 1}, 0.5), false);
  vae.define(absl::StrCat(R"(
def forward(self, latents):
    x = torch.conv2d(latents, self.weight)
)",
                          remember(options, &vae), R"(
    x = torch.sigmoid(x)
    return x.repeat_interleave(8, 2).repeat_interleave(8, 3)
)"));
  return vae;
}

void declare_components(const Unit& unit, Module& root,
                        const TinyPipelineOptions& options) {
  std::vector<std::string> dits = {"transformer"};
  if (options.dits == 2) dits.push_back("transformer_2");
  add_names(root, "_dit_modules", dits);
  add_names(root, "_encoder_modules", {"text_encoder"});
  add_names(root, "_vae_modules", {"vae"});
  add_names(root, "_resident_modules", {});
  BlockAttributes block_attrs;
  for (const std::string& dit : dits) {
    block_attrs[dit] = {options.wrong_plan ? "layers" : "blocks"};
  }
  Module plan = make_module(unit, "OffloadPlan");
  add_block_attributes(plan, "block_attrs", block_attrs);
  add_block_attributes(plan, "encoder_block_attrs",
                       {{"text_encoder", encoder_stacks(options)}});
  add_names(plan, "resident_dit_paths", dits);
  if (options.replicated_encoder) {
    add_names(plan, "encoder_dlo_weight_replication", {"text_encoder"});
  }
  root.register_module("_offload_plan", plan);
}

std::string denoise_source(const TinyPipelineOptions& options) {
  if (options.short_denoise) {
    return "def denoise(self, latents, timestep):\n    return latents\n";
  }
  std::string code = R"(
def denoise(self, latents, timestep, conditioning: Dict[str, Tensor]):
    text = conditioning["text"]
    level = float(timestep[0])
    out = self.transformer.forward(latents, timestep, text)
)";
  if (options.dits == 2) {
    code += R"(
    if level < 500.0:
        out = self.transformer_2.forward(latents, timestep, text)
)";
  }
  if (options.guidance == "GUIDANCE_EMBEDDED") {
    code += R"(
    out = out * conditioning["guidance"].reshape(-1, 1, 1, 1).to(out.dtype)
)";
  }
  if (options.step_ms > 0) {
    absl::StrAppend(&code, "    m = self.identity\n    for i in range(",
                    count_products(options.step_ms),
                    "):\n        m = torch.matmul(m, self.identity)\n",
                    "    out = out * m[0, 0].to(out.dtype)\n");
  }
  absl::StrAppend(&code, "    if level < ", options.nan_below_timestep,
                  ":\n        out = out * float(\"nan\")\n");
  absl::StrAppend(
      &code, "    if level < ", options.raise_below_timestep,
      ":\n        out = torch.matmul(self.identity, self.identity[:3])\n");
  return code + "    return out\n";
}

}  // namespace

Module make_tiny_block(const Unit& unit, bool traced, bool forking) {
  if (!traced) return make_scripted_block(unit, forking);
  Module block = make_module(unit, "TracedBlock");
  register_block_state(block);
  add_traced_method(unit, block, "forward");
  add_traced_method(unit, block, "forward1");
  return block;
}

Module make_tiny_root(const TinyPipelineOptions& options) {
  const at::NoGradGuard no_grad;
  generator().set_current_seed(7);
  const auto unit = std::make_shared<CompilationUnit>();
  Module root = make_module(unit, "Pipeline");
  root.register_module("text_encoder", make_text_encoder(unit, options));
  root.register_module("vae", make_vae(unit, options));
  root.register_module("transformer", make_dit(unit, options));
  if (options.dits == 2) {
    root.register_module("transformer_2", make_dit(unit, options));
  }
  root.register_buffer("identity", at::eye(256));
  if (options.declared) declare_components(unit, root, options);
  const std::string inputs =
      options.attention_mask ? "input_ids, attention_mask" : "input_ids";
  const std::vector<std::pair<std::string, std::string>> methods = {
      {"encode_prompt",
       absl::Substitute(
           "def encode_prompt(self, $0) -> Dict[str, Tensor]:\n"
           "    return {\"text\": self.text_encoder.forward($0)}\n",
           inputs)},
      {"denoise", denoise_source(options)},
      {"decode",
       "def decode(self, latents):\n    return self.vae.forward(latents)\n"},
      {"latent_shape",
       "def latent_shape(self, batch: int, height: int, width: int, "
       "frames: int) -> List[int]:\n"
       "    return [batch, 4, height // 8, width // 8]\n"},
  };
  for (const auto& [name, source] : methods) {
    if (name == options.without_method) continue;
    const auto other = options.method_sources.find(name);
    root.define(other == options.method_sources.end() ? source : other->second);
  }
  if (options.half_weights) {
    for (const auto& parameter : root.parameters()) {
      parameter.set_data(parameter.to(at::kHalf));
    }
  }
  root.eval();
  return root;
}

}  // namespace ferry
