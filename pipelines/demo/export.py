"""Writes the package: the scripted pipeline, and averaged weights in float16.

    export.py --work DIRECTORY           of what was trained there
    export.py --from_package DIRECTORY   of another package's weights, after the
                                         model's code has changed

The loader brings the weights back to float32 once.
"""

import argparse
import pathlib

import safetensors.torch
import torch

import model
import package_writer
import tokenizer
import train_dit
import training
import vae


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


def build_from(package: pathlib.Path, vocabulary: int) -> model.Pipeline:
    """Assembles it from a package, whose buffers lie in its archive."""
    pipeline = model.Pipeline(model.TextEncoder(vocabulary),
                              model.Transformer(), vae.Vae())
    for component, file in package_writer.WEIGHTS.items():
        getattr(pipeline, component).load_state_dict(
            safetensors.torch.load_file(package / file), strict=False)
    buffers = dict(pipeline.named_buffers())
    for name, values in torch.jit.load(
            str(package / "pipeline.pt")).named_buffers():
        buffers[name].copy_(values)
    return pipeline


def main() -> None:
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, default="build/demo")
    parser.add_argument("--from_package", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path,
                        default=here / "package/tokenizer/spiece.model")
    parser.add_argument("--output", type=pathlib.Path, default=here / "package")
    args = parser.parse_args()

    spiece = args.tokenizer.read_bytes()
    vocabulary = tokenizer.Tokenizer(args.tokenizer).vocabulary
    pipeline = (build_from(args.from_package, vocabulary) if args.from_package
                else build(args.work, vocabulary))
    package_writer.write(pipeline, torch.float16, spiece, args.output)


if __name__ == "__main__":
    main()
