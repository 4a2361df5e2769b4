#!/usr/bin/env python3
"""A model of any size, for measurements on a GPU.

    big_model.py make PACKAGE     writes a package with random bfloat16 weights
    big_model.py measure PACKAGE  runs its modules in Python; one JSON line for
                                  each size of pictures

It is the demo's model with larger numbers: as they stand, 9 GB of weights, most
of it in the transformer's blocks. Pictures mean nothing; equal weights give
equal ones. Needs torch and safetensors.
"""

import argparse
import json
import pathlib
import sys
import time

import safetensors.torch
import torch

DEMO = pathlib.Path(__file__).resolve().parents[2] / "pipelines/demo"
sys.path.insert(0, str(DEMO))

import model  # pylint: disable=wrong-import-position
import package_writer  # pylint: disable=wrong-import-position
import vae  # pylint: disable=wrong-import-position

VOCABULARY = 512
DTYPE = torch.bfloat16

MANIFEST = """tasks: "text-to-image"
version: "big"
weights {{ component: "text_encoder" file: "text_encoder/model.safetensors" }}
weights {{
  component: "transformer"
  file: "transformer/diffusion_pytorch_model.safetensors"
}}
weights {{ component: "vae" file: "vae/diffusion_pytorch_model.safetensors" }}
guidance: GUIDANCE_NONE
limits {{
  size_multiple: 8
  min_edge: 32
  max_edge: {edge}
  max_pixels: {pixels}
  max_images: 1
  max_num_inference_steps: 100
}}
defaults {{ height: {edge} width: {edge} num_inference_steps: 8 }}
scheduler {{ sigma_grid: SIGMA_GRID_SCHEDULER }}
tokenizers {{
  kind: KIND_SENTENCEPIECE
  file: "tokenizer/spiece.model"
  max_length: {tokens}
  add_eos: true
}}
"""


def build(args, device):
    """The pipeline on the device, with weights of the seed 0."""
    torch.manual_seed(0)
    torch.set_default_dtype(DTYPE)
    sizes = model.Sizes(args.width, args.width // 128, args.text_blocks,
                        args.blocks)
    with torch.device(device):
        pipeline = model.Pipeline(
            model.TextEncoder(VOCABULARY, sizes), model.Transformer(sizes),
            vae.Vae((args.vae_width, 2 * args.vae_width, 3 * args.vae_width)))
        # They are zero before a training.
        torch.nn.init.normal_(pipeline.transformer.latent_out.weight, std=0.02)
    torch.set_default_dtype(torch.float32)
    return pipeline.eval().requires_grad_(False)


def parameter_bytes(pipeline):
    return sum(p.numel() * p.element_size() for p in pipeline.parameters())


def make(args, device):
    """Prints what the package holds."""
    start = time.monotonic()
    pipeline = build(args, device)
    total = parameter_bytes(pipeline)
    block = parameter_bytes(pipeline.transformer.blocks[0])
    pipeline.cpu()
    args.package.mkdir(parents=True, exist_ok=True)
    edge = max(args.sizes)
    (args.package / "ferry.txtpb").write_text(MANIFEST.format(
        edge=edge, pixels=edge * edge, tokens=model.TEXT_LENGTH))
    package_writer.write(
        pipeline, DTYPE, (DEMO / "package/tokenizer/spiece.model").read_bytes(),
        args.package)
    print(json.dumps({"name": "big_model", "weight_bytes": total,
                      "dit_block_bytes": block, "dit_blocks": args.blocks,
                      "seconds": round(time.monotonic() - start, 1)}))


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


@torch.inference_mode()
def measure(args, device):
    pipeline = build(args, device)
    for component, file in package_writer.WEIGHTS.items():
        getattr(pipeline, component).load_state_dict(
            safetensors.torch.load_file(args.package / file, device=device),
            strict=False)
    ids = torch.zeros(1, model.TEXT_LENGTH, dtype=torch.long, device=device)
    ids[0, :8] = torch.arange(3, 11)
    for edge in args.sizes:
        conditioning = pipeline.encode_prompt(ids)
        latents = torch.randn(pipeline.latent_shape(1, edge, edge, 1),
                              device=device).to(DTYPE)
        times = []
        for step in range(args.steps + 1):
            timestep = torch.full((1,), 1000.0 - step, device=device)
            synchronize(device)
            start = time.monotonic()
            pipeline.denoise(latents, timestep, conditioning)
            synchronize(device)
            times.append(1000 * (time.monotonic() - start))
        start = time.monotonic()
        pipeline.decode(latents)
        synchronize(device)
        print(json.dumps({
            "name": "python", "edge": edge, "device": device,
            # The first one chooses algorithms.
            "first_step_ms": round(times[0], 2),
            "ms_per_step": round(sum(times[1:]) / args.steps, 2),
            "decode_ms": round(1000 * (time.monotonic() - start), 2)}),
              flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["make", "measure"])
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("--width", type=int, default=4096,
                        help="a multiple of 128")
    parser.add_argument("--blocks", type=int, default=27)
    parser.add_argument("--text_blocks", type=int, default=6)
    parser.add_argument("--vae_width", type=int, default=128)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024],
                        help="edges of the pictures, in pixels")
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    {"make": make, "measure": measure}[args.command](args, device)


if __name__ == "__main__":
    main()
