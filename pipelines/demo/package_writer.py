"""Writes a package, but for its manifest.

The archive holds the structure and the buffers. Of each parameter it has a
placeholder, one element that is expanded to the shape; the values lie in
safetensors files, one for each component, as diffusers lays them out.
"""

import json
import pathlib

import safetensors.torch
import torch

import model

# Weight files of the components; the manifest names them.
WEIGHTS = {
    "text_encoder": "text_encoder/model.safetensors",
    "transformer": "transformer/diffusion_pytorch_model.safetensors",
    "vae": "vae/diffusion_pytorch_model.safetensors",
}

SCHEDULER = {
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


def write(pipeline: model.Pipeline, dtype: torch.dtype, spiece: bytes,
          package: pathlib.Path) -> None:
    """Scripts the pipeline and writes it with parameters of this type.

    `spiece` is the tokenizer's file. The pipeline is of no use afterwards.
    """
    for folder in ("scheduler", "tokenizer"):
        (package / folder).mkdir(parents=True, exist_ok=True)
    (package / "tokenizer/spiece.model").write_bytes(spiece)
    (package / "scheduler/scheduler_config.json").write_text(
        json.dumps(SCHEDULER, indent=2, sort_keys=True) + "\n")
    pipeline.eval().requires_grad_(False)
    scripted = torch.jit.script(pipeline)
    for component, file in WEIGHTS.items():
        tensors = {name: parameter.to(dtype).contiguous() for name, parameter
                   in getattr(scripted, component).named_parameters()}
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file(tensors, package / file, {"format": "pt"})
    for parameter in scripted.parameters():
        parameter.data = torch.zeros(1, dtype=dtype).expand(parameter.shape)
    scripted.save(str(package / "pipeline.pt"))
