"""Makes pictures from a package in Python, to watch training and compare.

The daemon does the same in C++: flow-matching Euler steps with classifier-free
guidance in one batched pass.
"""

import argparse
import json
import pathlib

import numpy as np
import safetensors.torch
import torch
from PIL import Image

import export
import shapes
import tokenizer


def load(package: pathlib.Path) -> torch.jit.ScriptModule:
    """Loads the pipeline and gives it its parameters, in float32."""
    pipeline = torch.jit.load(str(package / "pipeline.pt"))
    for component, file in export.WEIGHTS.items():
        tensors = safetensors.torch.load_file(package / file)
        for name, parameter in getattr(pipeline, component).named_parameters():
            parameter.data = tensors[name].float()
    return pipeline


def sigmas(steps: int) -> torch.Tensor:
    """The noise levels of FlowMatchEulerDiscreteScheduler with shift 1."""
    return torch.cat([torch.linspace(1000.0, 1.0, steps) / 1000.0,
                      torch.zeros(1)])


@torch.no_grad()
def sample(pipeline: torch.jit.ScriptModule, words: tokenizer.Tokenizer,
           prompts: list[str], seeds: list[int], steps: int,
           guidance: float) -> np.ndarray:
    """Returns uint8 pictures [n, height, width, 3]."""
    shape = pipeline.latent_shape(1, shapes.SIZE, shapes.SIZE, 1)
    latents = torch.cat([
        torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        for seed in seeds])
    conditioning = pipeline.encode_prompt(
        words.encode(prompts + [""] * len(prompts)))
    levels = sigmas(steps)
    for sigma, following in zip(levels[:-1], levels[1:]):
        timestep = (1000.0 * sigma).expand(2 * len(prompts))
        velocity, unconditional = pipeline.denoise(
            torch.cat([latents, latents]), timestep, conditioning).chunk(2)
        velocity = unconditional + guidance * (velocity - unconditional)
        latents = latents + (following - sigma) * velocity
    pictures = pipeline.decode(latents).permute(0, 2, 3, 1)
    return (pictures * 255.0).round().to(torch.uint8).numpy()


def _save_grid(pictures: np.ndarray, columns: int, path: pathlib.Path) -> None:
    """Saves all pictures side by side."""
    count, height, width, _ = pictures.shape
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, 3), np.uint8)
    grid[:count] = pictures
    grid = grid.reshape(rows, columns, height, width, 3).swapaxes(1, 2)
    Image.fromarray(grid.reshape(rows * height, columns * width, 3)).save(path)


def main() -> None:
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--package", type=pathlib.Path, default=here / "package")
    parser.add_argument("--prompts", type=pathlib.Path,
                        default=here / "prompts.jsonl")
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--guidance", type=float, default=3.5)
    args = parser.parse_args()
    records = [json.loads(line)
               for line in args.prompts.read_text().splitlines()]
    pictures = sample(load(args.package),
                      tokenizer.Tokenizer(args.package / "tokenizer/spiece.model"),
                      [r["prompt"] for r in records],
                      [r["seed"] for r in records], args.steps, args.guidance)
    args.output.mkdir(parents=True, exist_ok=True)
    for record, picture in zip(records, pictures):
        Image.fromarray(picture).save(
            args.output / f"{record['index']:03d}.png")
    _save_grid(pictures, 12, args.output / "grid.png")


if __name__ == "__main__":
    main()
