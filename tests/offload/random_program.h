#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ferry {

// Columns of what passes through the blocks of a program; x is [2, 8].
inline constexpr int64_t kProgramWidth = 8;
// Of a tensor in an image: no one is larger than what images are aligned to.
inline constexpr int64_t kTensorImageBytes = 256;

// What a program has that offloading could get wrong. A program without any is
// plain: what its blocks hold should stream.
enum class ProgramOddity {
  // Hooks, before or after a block, that use the block's tensors.
  kHooks,
  // Functions that get a block as an argument, or an interface of it.
  kFreeFunctions,
  // Writes in place of a block's tensors, also through views.
  kWrites,
  // The same through views that their schema does not tell.
  kSilentWrites,
  // Operators that write an argument, as their schema does not tell.
  kSilentWriters,
  // Tensors, or views of them, put into attributes, lists and dicts.
  kStores,
  // Reads of a block's tensors while the block does not run.
  kOutsideReads,
  // Results that are views of a block's tensors.
  kReturnedViews,
  // Tensors that blocks share.
  kTies,
  // Gradients of passes.
  kAutograd,
  // LibTorch's global generator.
  kRandom,
  // Integers that count, in attributes and buffers.
  kCounters,
  // Tensors that are constants of graphs.
  kConstants,
  // Gradients that begin and end within a method of a block, of one operator.
  kGradientBlocks,
};
inline constexpr int kProgramOddities = 14;

// An attribute of a class of a program.
struct ProgramAttribute {
  enum class Holder {
    kParameter,
    kBuffer,
    kAttribute,
    kList,
    kDict,
    kTuple,
    // An integer, 0.
    kInt,
    kModule
  };
  enum class Layout { kContiguous, kTransposed, kOffset, kExpanded };

  std::string name;
  Holder holder = Holder::kBuffer;
  // Of the tensor: "S" [], "V" [8], "M" [8, 8]; unused for modules.
  char shape = 'V';
  // As TorchScript writes it: "float", "bfloat16", "int8", "float8_e4m3fn" …
  std::string dtype = "float";
  Layout layout = Layout::kContiguous;
  // Not empty: it is the same tensor as all others that have this name.
  std::string tie;
  // The class of a module, of this program, and whether the attribute's type
  // is the interface of blocks.
  std::string module;
  bool is_interface = false;
  // Not empty: the module is not one of its own, but the one that this dotted
  // path from the same parent leads to.
  std::string alias_of;
};

ProgramAttribute tensor_attribute(
    std::string name, char shape,
    ProgramAttribute::Holder holder = ProgramAttribute::Holder::kParameter,
    std::string dtype = "float");
ProgramAttribute module_attribute(std::string name, std::string made);

// A line or a few of a function's body, not indented. Without those that are
// not fixed the function is a function still.
struct ProgramStatement {
  std::string code;
  bool is_fixed = false;
};

struct ProgramFunction {
  // From "def" to the colon.
  std::string head;
  std::vector<ProgramStatement> body;
};

struct ProgramClass {
  std::string name;
  std::vector<ProgramAttribute> attributes;
  std::vector<ProgramFunction> methods;
  // Names of methods.
  std::vector<std::string> hooks;
  std::vector<std::string> pre_hooks;
  // Methods without bodies; no attributes.
  bool is_interface = false;
};

// A TorchScript program, as the source in an archive has it. Root's methods:
//   encode(x), denoise(x, level: Tensor []), decode(x) -> Tensor [2, 8]
// A value.
struct RandomProgram {
  uint64_t seed = 0;
  std::set<ProgramOddity> oddities;
  std::vector<ProgramClass> classes;
  std::vector<ProgramFunction> functions;
  // Paths of components from the root.
  std::vector<std::string> dits;
  std::vector<std::string> encoders;
  std::vector<std::string> vaes;
  // The containers of each encoder's blocks; a DiT's is "blocks".
  std::vector<std::string> encoder_lists = {"blocks"};
  // How many float tensors [8] the graphs have as constants: CONSTANTS.c0 …
  int constants = 0;
  int blocks = 0;
  // Each pass runs blocks once, in order; it may leave some out.
  bool is_in_order = true;
  // Attributes that no method names are left out.
  bool is_stripped = false;

  bool is_plain() const { return oddities.empty(); }
  // Whether a block has any.
  bool has_hooks() const;
  // What its tensors need in an image, each kTensorImageBytes.
  int64_t image_bytes() const;
  // The text of __torch__/program.py. All names are in __torch__.program.
  std::string source() const;
  // Statements that can be left out.
  size_t removable() const;
  // Without the `index`-th of them. REQUIRES: index < removable().
  RandomProgram without(size_t index) const;
};

// Names of what a program has, for messages.
std::string to_string(const std::set<ProgramOddity>& oddities);

}  // namespace ferry
