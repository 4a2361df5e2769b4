"""Writes the package: the scripted pipeline, and averaged weights in float16.

The archive holds the structure and the buffers. Of each parameter it has a
placeholder, one element that is expanded to the shape; the values lie in
safetensors files, one for each component, as diffusers lays them out. They are
float16; the loader brings them back to float32 once.
"""

import argparse
import json
import pathlib

import safetensors.torch
import torch

import model
import tokenizer
import train_dit
import training
import vae

# Weight files of the components; the manifest names them.
WEIGHTS = {
    "text_encoder": "text_encoder/model.safetensors",
    "transformer": "transformer/diffusion_pytorch_model.safetensors",
    "vae": "vae/diffusion_pytorch_model.safetensors",
}

_SCHEDULER = {
    "_class_name": "FlowMatchEulerDiscreteScheduler",
    "_diffusers_version": "0.35.1",
    "base_image_seq_len": 256,
    "base_shift": 0.5,
    "invert_sigmas": False,
    "max_image_seq_len": 4096,
    "max_shift": 1.15,
    "num_train_timesteps": 1000,
    "shift": 1.0,
    "shift_terminal": None,
    "stochastic_sampling": False,
    "time_shift_type": "exponential",
    "use_beta_sigmas": False,
    "use_dynamic_shifting": False,
    "use_exponential_sigmas": False,
    "use_karras_sigmas": False,
}


def build(work: pathlib.Path, vocabulary: int) -> model.Pipeline:
    """Assembles the pipeline from the two checkpoints."""
    autoencoder = vae.Vae()
    autoencoder.load_state_dict(
        training.load_checkpoint(work / "vae.pt")["model"])
    network = train_dit.TextToVelocity(vocabulary)
    network.load_state_dict(
        training.load_checkpoint(work / "dit.pt")["average"], strict=False)
    return model.Pipeline(network.text_encoder, network.transformer,
                          autoencoder)


def script(pipeline: model.Pipeline) -> torch.jit.ScriptModule:
    """Scripts the pipeline and stores its parameters in float16."""
    pipeline.eval().requires_grad_(False)
    scripted = torch.jit.script(pipeline)
    for parameter in scripted.parameters():
        parameter.data = parameter.data.to(torch.float16)
    return scripted


def write(scripted: torch.jit.ScriptModule, package: pathlib.Path) -> None:
    """Writes the archive and the weight files; leaves placeholders."""
    for component, file in WEIGHTS.items():
        tensors = {name: parameter.detach().contiguous() for name, parameter
                   in getattr(scripted, component).named_parameters()}
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file(tensors, package / file, {"format": "pt"})
    for parameter in scripted.parameters():
        parameter.data = torch.zeros(1, dtype=parameter.dtype).expand(
            parameter.shape)
    scripted.save(str(package / "pipeline.pt"))


def main() -> None:
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, default="build/demo")
    parser.add_argument("--tokenizer", type=pathlib.Path,
                        default=here / "package/tokenizer/spiece.model")
    parser.add_argument("--output", type=pathlib.Path, default=here / "package")
    args = parser.parse_args()

    spiece = args.tokenizer.read_bytes()
    vocabulary = tokenizer.Tokenizer(args.tokenizer).vocabulary
    for folder in ("scheduler", "tokenizer"):
        (args.output / folder).mkdir(parents=True, exist_ok=True)
    (args.output / "tokenizer/spiece.model").write_bytes(spiece)
    (args.output / "scheduler/scheduler_config.json").write_text(
        json.dumps(_SCHEDULER, indent=2, sort_keys=True) + "\n")
    write(script(build(args.work, vocabulary)), args.output)


if __name__ == "__main__":
    main()
