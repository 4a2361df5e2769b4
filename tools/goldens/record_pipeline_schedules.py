#!/usr/bin/env python3
"""Records the schedules that diffusers' pipelines make, as goldens.

Each model's pipeline object is built with stand-ins for its networks, whose
configurations have the model's numbers, and with its published scheduler
configuration. Its own __call__ runs until the scheduler has been set; what the
scheduler then holds is recorded.

    record_pipeline_schedules.py            writes the goldens
    record_pipeline_schedules.py --check    records again and compares
"""

import argparse
import ast
import functools
import inspect
import json
import pathlib
import sys
import textwrap

import diffusers
import numpy as np
import torch
from diffusers.pipelines.omnigen import pipeline_omnigen as omnigen

from pipeline_models import MODELS

GOLDENS = (
    pathlib.Path(__file__).resolve().parents[2]
    / "pipelines/testdata/pipeline_schedules.json"
)
# --check fails above this, relative to the largest value of a list.
TOLERANCE = 1e-7

SIZES = [(1024, 1024), (512, 768)]
STEPS = [1, 2, 4, 20, 28, 50]


class Recorded(Exception):
    """Ends a pipeline's call."""


class StandIn(torch.nn.Module):
    """A network without weights: a configuration, and whatever is asked of it."""

    dtype = torch.float32
    device = torch.device("cpu")

    def __init__(self, config):
        super().__init__()
        self.config = Config(config)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            config = self.__dict__.get("config", {})
            if name in config:
                return config[name]
            raise


class Config(dict):
    """As diffusers' FrozenDict: a dictionary with attributes."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


class PromptProcessor:
    """Stands for OmniGen's."""

    max_image_size = 1024

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        tokens = torch.zeros(1, 8)
        return {"input_ids": tokens, "attention_mask": tokens,
                "position_ids": tokens, "input_pixel_values": [],
                "input_image_sizes": {}}


def recorder(class_name, config):
    """The scheduler of that class, which ends the call once it is set."""
    base = getattr(diffusers, class_name)

    # Pipelines look at the signature.
    @functools.wraps(base.set_timesteps)
    def set_timesteps(self, *arguments, **options):
        base.set_timesteps(self, *arguments, **options)
        raise Recorded

    kind = type(class_name, (base,), {"set_timesteps": set_timesteps})
    return kind.from_config({"_class_name": class_name, **config})


def encoded_prompts(pipeline_class, encode):
    """Stands for what `encode` returns: tensors with the names that the
    pipeline's call gives them."""
    call = ast.parse(textwrap.dedent(
        inspect.getsource(inspect.unwrap(pipeline_class.__call__))))
    targets = [
        node.targets[0] for node in ast.walk(call)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == f"self.{encode}"]
    if isinstance(targets[0], ast.Tuple):
        return tuple(embedding(ast.unparse(name)) for name in targets[0].elts)
    return embedding(ast.unparse(targets[0]))


def embedding(name):
    if "mask" in name or "pooled" in name:
        return torch.zeros(1, 8)
    return torch.zeros(1, 8, 16)


def make_pipeline(model):
    """The pipeline object, with a stand-in for every component that it wants."""
    kind = getattr(diffusers, model["pipeline"])
    scale = model["vae_scale"]
    blocks = [1] * int(np.log2(scale) + 1)
    vae = {
        "block_out_channels": blocks, "encoder_block_out_channels": blocks,
        "temporal_compression_ratio": 4, "temperal_downsample": blocks[1:],
        "spatial_compression_ratio": scale, "scale_factor_temporal": 4,
        "scale_factor_spatial": scale, "latent_channels": 16, "z_dim": 16}
    transformer = {
        "in_dim": 16, "num_layers": 1, "patch_size": 1, "patch_size_t": 1,
        "sample_size": 128, **model["transformer"]}
    components = {}
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if name == "scheduler":
            components[name] = recorder(model["scheduler"], model["config"])
        elif name == "guider":
            components[name] = diffusers.ClassifierFreeGuidance()
        elif "tokenizer" in name or "processor" in name:
            components[name] = None
        elif name == "vae":
            components[name] = StandIn(vae)
        elif name in ("transformer", "unet"):
            components[name] = StandIn(transformer)
        elif name != "self" and parameter.default is inspect.Parameter.empty:
            components[name] = StandIn({"projection_dim": 16, "hidden_size": 16})
    pipeline = kind(**components)
    for encode in ("encode_prompt", "generate_prior_tokens"):
        if hasattr(kind, encode):
            values = encoded_prompts(kind, encode)
            setattr(pipeline, encode, lambda *_, values=values, **__: values)
    pipeline.check_inputs = lambda *_, **__: None
    return pipeline


def record(model, height, width, steps):
    pipeline = make_pipeline(model)
    arguments = {
        "prompt": "a", "height": height, "width": width, "num_frames": 1,
        "num_inference_steps": steps, "enable_prompt_rewrite": False}
    known = inspect.signature(pipeline.__call__).parameters
    try:
        pipeline(**{k: v for k, v in arguments.items() if k in known})
    except Recorded:
        pass
    else:
        raise AssertionError(f"{model['pipeline']} sets no timesteps")
    scheduler = pipeline.scheduler
    count = len(scheduler.timesteps)
    return {
        "height": height, "width": width, "num_inference_steps": steps,
        "timesteps": numbers(scheduler.timesteps),
        "sigmas": numbers(scheduler.sigmas[: count + 1]),
    }


def numbers(values):
    """The shortest decimals that give the same float32s."""
    return [float(str(np.float32(value)))
            for value in np.asarray(values).flatten()]


def generate():
    cases = []
    for name, model in MODELS.items():
        # Levels depend on the size where mu does.
        sizes = SIZES if "mu" in model else SIZES[:1]
        steps = [n for n in STEPS if n >= model.get("min_steps", 1)]
        case = {
            "name": name,
            "repository": model["repository"],
            "pipeline": model["pipeline"],
            # As text: Python's -Infinity stands in PixArt's file.
            "config": json.dumps(
                {"_class_name": model["scheduler"], **model["config"]}),
            "sigma_grid": f"SIGMA_GRID_{model['grid']}",
            "token_edge": model["vae_scale"] * model["patch"],
            "runs": [record(model, *size, n) for size in sizes for n in steps],
        }
        if "mu" in model:
            case["mu"] = f"MU_{model['mu']}"
        cases.append(case)
    return {
        "versions": {
            "diffusers": diffusers.__version__,
            "torch": torch.__version__.split("+")[0],
        },
        "cases": cases,
    }


def differences(path, old, new):
    """Yields the paths at which two goldens differ by more than TOLERANCE."""
    if isinstance(new, dict) and isinstance(old, dict):
        if old.keys() != new.keys():
            yield f"{path}: keys differ"
            return
        for key in new:
            yield from differences(f"{path}/{key}", old[key], new[key])
    elif isinstance(new, list) and isinstance(old, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} values, now {len(new)}"
        elif new and all(isinstance(value, float) for value in new + old):
            scale = max(abs(value) for value in new) or 1.0
            worst = max(abs(a - b) for a, b in zip(old, new)) / scale
            if not worst <= TOLERANCE:
                yield f"{path}: relative difference {worst:.3g}"
        else:
            for index, (a, b) in enumerate(zip(old, new)):
                yield from differences(f"{path}/{index}", a, b)
    elif old != new:
        yield f"{path}: {old}, now {new}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    diffusers.utils.logging.set_verbosity_error()
    # It looks for torchvision, which no schedule needs.
    omnigen.OmniGenMultiModalProcessor = PromptProcessor
    text = json.dumps(generate(), separators=(",", ":")).replace(
        '{"name"', '\n{"name"').replace('{"height"', '\n{"height"')
    if not arguments.check:
        GOLDENS.parent.mkdir(parents=True, exist_ok=True)
        GOLDENS.write_text(text + "\n")
        print(f"wrote {GOLDENS} ({len(text)} bytes)")
        return 0
    problems = list(differences("", json.loads(GOLDENS.read_text()),
                                json.loads(text)))
    for problem in problems[:20]:
        print(problem)
    print(f"schedules: {len(MODELS)} models, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
