#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipelines/torchscript/weight_sources.h"

namespace ferry {

class OffloadableModule;

// Named tensors that encode_prompt makes and denoise takes.
using Conditioning = std::map<std::string, at::Tensor>;

// The root module of a pipeline: a TorchScript archive, loaded, checked and
// with hook points in the methods of its components and blocks.
//
// Ownership: owns the modules and the hook registries.
// Threads: not thread-safe; calls inside a TorchScope (torch_settings.h).
// Errors: load() names the file and what is wrong in it. A call that fails
//   returns the status of the exception or of the hook, resets all hooks, and
//   leaves the module usable.
class RootModule {
 public:
  struct Options {
    // Floating parameters are converted to it; nothing: they run as stored.
    std::optional<c10::ScalarType> compute_dtype;
    // Of an archive that holds the structure only.
    WeightSources weights;
    // One for each tokenizer: whether encode_prompt takes a mask after the ids.
    std::vector<bool> attention_masks;
  };

  // Reads `package/file`, and the weight files; errors name the file.
  // Parameters see weight files where they are mapped; those that methods write
  // until the first method runs.
  static absl::StatusOr<std::unique_ptr<RootModule>> load(
      const std::filesystem::path& package, const std::string& file,
      const Options& options);

  ~RootModule();

  // Brings back what the package holds of all that methods write (buffers,
  // attributes, lists, dicts), and seeds LibTorch's global generators for this
  // generation (seed_generators.h): whatever ran before, equal calls that
  // follow return equal bytes. State lives on from call to call until the next
  // one. The device's errors.
  absl::Status begin_generation(int64_t seed);

  // Inputs are brought to the device of the weights; results lie there.

  // `inputs`: for each tokenizer int64 ids [batch, tokens], then its mask.
  // Every tensor of the result has the batch as its first dimension.
  absl::StatusOr<Conditioning> encode_prompt(
      const std::vector<at::Tensor>& inputs);
  // `latents` as latent_shape() says, in compute_dtype(); `timestep` float32
  // [batch]. Returns the model's output, shaped as the latents.
  absl::StatusOr<at::Tensor> denoise(const at::Tensor& latents,
                                     const at::Tensor& timestep,
                                     const Conditioning& conditioning);
  // Pictures [batch, 3, height, width], 0 to 1.
  absl::StatusOr<at::Tensor> decode(const at::Tensor& latents);
  // Shape of the latents of `batch` pictures of height × width pixels.
  absl::StatusOr<std::vector<int64_t>> latent_shape(int64_t batch,
                                                    int64_t height,
                                                    int64_t width,
                                                    int64_t frames);

  // Where the weights are: on the host after load(), then where an offload
  // backend puts them.
  c10::Device device() const;
  // What the first DiT computes in.
  c10::ScalarType compute_dtype() const;
  OffloadableModule& offloadable_module();
  // What load() skipped or found deprecated; one sentence each.
  const std::vector<std::string>& warnings() const;

 private:
  class Impl;
  explicit RootModule(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ferry
