#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ferry {

// What a pipeline of the byte-identity matrix is like, and how it is run: one
// value of each dimension. The last two, strategy and slots, are not the
// pipeline's.
struct StreamCase {
  enum class Blocks { kSharedType, kOwnTypes, kTraced };
  enum class Dtype {
    kFloat,
    kDouble,
    kHalf,
    kBFloat16,
    kFloat8,
    kInt8,
    kComplex,
    kBool
  };
  enum class Layout { kContiguous, kTransposed, kOffset, kExpanded, kScalar };
  // Where a block keeps its extra tensor. Traced blocks have a constant in the
  // place of a list, dict or tuple; of Float8 an attribute, since LibTorch
  // cannot compare constants of that type.
  enum class Holder {
    kParameter,
    kBuffer,
    kAttribute,
    kList,
    kDict,
    kTuple,
    kSubmodule
  };
  // What else holds a block's weights.
  enum class Tie { kNone, kInside, kBetweenBlocks, kOutside };
  // What blocks write: nothing, a buffer, a buffer through a view, an
  // attribute.
  enum class Writes { kNothing, kBuffer, kView, kAttribute };
  // What blocks return beside their result: nothing, or a view of a weight.
  enum class Output { kPlain, kTuple, kDict, kList };
  enum class Order {
    kInOrder,
    kReversed,
    kTwice,
    kSkipping,
    kChanging,
    kRepeatedPass,
    kFailing
  };
  // Other rings: a second DiT, blocks of an encoder.
  enum class Others { kNone, kDit, kEncoder, kBoth };
  enum class Executor { kSimple, kLegacy };
  // Blocks, blocks with a third of the DiTs' staying, components.
  enum class Strategy { kLayerwise, kResidentLayers, kModelLevel };

  Blocks blocks = Blocks::kSharedType;
  Dtype dtype = Dtype::kFloat;
  Layout layout = Layout::kContiguous;
  Holder holder = Holder::kBuffer;
  Tie tie = Tie::kNone;
  Writes writes = Writes::kNothing;
  Output output = Output::kPlain;
  Order order = Order::kInOrder;
  Others others = Others::kNone;
  Executor executor = Executor::kSimple;
  int block_count = 4;
  Strategy strategy = Strategy::kLayerwise;
  int slots = 2;
  // Of the weights: equal for the cases of one pipeline.
  uint64_t model = 1;
  // Of the latents.
  uint64_t input = 1;

  // Blocks of each DiT that stay on the device.
  int resident_blocks() const {
    return strategy == Strategy::kResidentLayers ? block_count / 3 : 0;
  }
  // One block alone is not streamed.
  bool streams() const {
    return strategy == Strategy::kModelLevel ||
           block_count - resident_blocks() > 1;
  }
  // Traces cannot set attributes.
  bool writes_state() const {
    return writes != Writes::kNothing &&
           !(writes == Writes::kAttribute && blocks == Blocks::kTraced);
  }
  bool has_second_dit() const {
    return others == Others::kDit || others == Others::kBoth;
  }
  bool has_encoder() const {
    return others == Others::kEncoder || others == Others::kBoth;
  }

  static constexpr size_t kDimensions = 13;
  // Number of values of each dimension.
  static const std::array<int, kDimensions>& sizes();
  static StreamCase from_indices(const std::array<int, kDimensions>& indices);
  // For messages: numbers in the order above.
  std::string to_string() const;
  std::array<int, kDimensions> indices() const;
};

// At least `count` different cases, always the same ones, in which every pair
// of values of two dimensions occurs. A pipeline has several cases, which
// follow each other.
std::vector<StreamCase> make_stream_cases(size_t count);

}  // namespace ferry
