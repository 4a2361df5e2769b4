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

GOLDENS = (
    pathlib.Path(__file__).resolve().parents[2]
    / "pipelines/testdata/pipeline_schedules.json"
)
# --check fails above this, relative to the largest value of a list.
TOLERANCE = 1e-7

FLOW = "FlowMatchEulerDiscreteScheduler"
UNIPC = "UniPCMultistepScheduler"
DPM = "DPMSolverMultistepScheduler"
EULER = "EulerDiscreteScheduler"

FLUX_SHIFT = {
    "base_image_seq_len": 256, "base_shift": 0.5, "max_image_seq_len": 4096,
    "max_shift": 1.15, "num_train_timesteps": 1000,
    "use_dynamic_shifting": True}
LINEAR_BETAS = {
    "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear",
    "num_train_timesteps": 1000, "trained_betas": None}
SDXL_BETAS = {
    "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000, "clip_sample": False,
    "interpolation_type": "linear", "prediction_type": "epsilon",
    "sample_max_value": 1.0, "set_alpha_to_one": False,
    "skip_prk_steps": True, "steps_offset": 1, "timestep_spacing": "leading",
    "trained_betas": None, "use_karras_sigmas": False}
WAN = {
    **LINEAR_BETAS, "disable_corrector": [],
    "dynamic_thresholding_ratio": 0.995, "final_sigmas_type": "zero",
    "lower_order_final": True, "predict_x0": True,
    "prediction_type": "flow_prediction", "rescale_betas_zero_snr": False,
    "sample_max_value": 1.0, "solver_order": 2, "solver_p": None,
    "solver_type": "bh2", "steps_offset": 0, "thresholding": False,
    "timestep_spacing": "linspace", "use_beta_sigmas": False,
    "use_exponential_sigmas": False, "use_flow_sigmas": True,
    "use_karras_sigmas": False}
PIXART = {
    **LINEAR_BETAS, "algorithm_type": "dpmsolver++",
    "dynamic_thresholding_ratio": 0.995, "euler_at_final": False,
    "lambda_min_clipped": float("-inf"), "lower_order_final": True,
    "prediction_type": "epsilon", "sample_max_value": 1.0, "solver_order": 2,
    "solver_type": "midpoint", "steps_offset": 0, "thresholding": False,
    "timestep_spacing": "linspace", "use_karras_sigmas": False,
    "use_lu_lambdas": False, "variance_type": None}

# What the scheduler_config.json of each model says (its repository on
# huggingface.co is named), the pipeline class of its model_index.json, what
# its schedule reads of the networks' configurations, arguments of a call, the
# latent pixels along an edge of one image token, and what a manifest says.
MODELS = {
    "FLUX.1-dev": {
        "repository": "black-forest-labs/FLUX.1-dev",
        "pipeline": "FluxPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64, "guidance_embeds": True},
        "vae_scale": 8, "patch": 2, "grid": "PIPELINE", "mu": "LINEAR"},
    "FLUX.1-schnell": {
        "repository": "black-forest-labs/FLUX.1-schnell",
        "pipeline": "FluxPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 1.0, "use_dynamic_shifting": False},
        "transformer": {"in_channels": 64, "guidance_embeds": False},
        "vae_scale": 8, "patch": 2, "grid": "PIPELINE"},
    "FLUX.2-dev": {
        "repository": "black-forest-labs/FLUX.2-dev",
        "pipeline": "Flux2Pipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0, "shift_terminal": None,
                   "time_shift_type": "exponential"},
        "transformer": {"in_channels": 128}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "EMPIRICAL"},
    "Stable Diffusion 3.5": {
        "repository": "stabilityai/stable-diffusion-3.5-large",
        "pipeline": "StableDiffusion3Pipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0},
        "transformer": {"in_channels": 16, "patch_size": 2,
                        "sample_size": 128},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Qwen-Image": {
        "repository": "Qwen/Qwen-Image",
        "pipeline": "QwenImagePipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "max_image_seq_len": 8192, "max_shift": 0.9,
                   "shift": 1.0, "shift_terminal": 0.02,
                   "time_shift_type": "exponential"},
        "transformer": {"in_channels": 64, "guidance_embeds": False},
        "vae_scale": 8, "patch": 2, "min_steps": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "Z-Image-Turbo": {
        "repository": "Tongyi-MAI/Z-Image-Turbo",
        "pipeline": "ZImagePipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 16}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE"},
    "CogView4-6B": {
        "repository": "THUDM/CogView4-6B",
        "pipeline": "CogView4Pipeline", "scheduler": FLOW,
        "config": {"base_image_seq_len": 256, "base_shift": 0.25,
                   "max_image_seq_len": 4096, "max_shift": 0.75,
                   "num_train_timesteps": 1000, "shift": 1.0,
                   "shift_terminal": None, "time_shift_type": "linear",
                   "use_dynamic_shifting": True},
        "transformer": {"in_channels": 16, "patch_size": 2},
        "vae_scale": 8, "patch": 2, "grid": "WHOLE_TIMESTEPS",
        "mu": "SQUARE_ROOT"},
    "Mochi 1": {
        "repository": "genmo/mochi-1-preview",
        "pipeline": "MochiPipeline", "scheduler": FLOW,
        "config": {"base_image_seq_len": 256, "base_shift": 0.5,
                   "invert_sigmas": True, "max_image_seq_len": 4096,
                   "max_shift": 1.15, "num_train_timesteps": 1000,
                   "shift": 1.0, "use_dynamic_shifting": False},
        "transformer": {"in_channels": 12}, "vae_scale": 8, "patch": 2,
        "min_steps": 2, "grid": "LINEAR_QUADRATIC"},
    "Lumina-Image-2.0": {
        "repository": "Alpha-VLLM/Lumina-Image-2.0",
        "pipeline": "Lumina2Pipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 6.0, "use_dynamic_shifting": False,
                   "shift_terminal": None},
        "transformer": {"in_channels": 16, "sample_size": 128},
        "vae_scale": 8, "patch": 2, "grid": "PIPELINE"},
    "HunyuanVideo 1.5": {
        "repository":
            "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v",
        "pipeline": "HunyuanVideo15Pipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 5.0,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 65, "patch_size": 1,
                        "image_embed_dim": 1152, "target_size": 640},
        "vae_scale": 16, "patch": 1, "grid": "PIPELINE"},
    "Wan 2.2 A14B": {
        "repository": "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
        "pipeline": "WanPipeline", "scheduler": UNIPC,
        "config": {**WAN, "flow_shift": 3.0},
        "transformer": {"in_channels": 16, "patch_size": (1, 2, 2)},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Wan 2.2 TI2V-5B": {
        "repository": "Wan-AI/Wan2.2-TI2V-5B-Diffusers",
        "pipeline": "WanPipeline", "scheduler": UNIPC,
        "config": {**WAN, "flow_shift": 5.0, "time_shift_type": "exponential",
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 48, "patch_size": (1, 2, 2)},
        "vae_scale": 16, "patch": 2, "grid": "SCHEDULER"},
    "LTX-Video": {
        "repository": "Lightricks/LTX-Video",
        "pipeline": "LTXPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "base_image_seq_len": 1024,
                   "base_shift": 0.95, "max_shift": 2.05, "shift": 1.0,
                   "invert_sigmas": False, "shift_terminal": 0.1},
        "transformer": {"in_channels": 128}, "vae_scale": 32, "patch": 1,
        "min_steps": 2, "grid": "PIPELINE", "mu": "LINEAR"},
    "LTX-Video 0.9.7": {
        "repository": "Lightricks/LTX-Video-0.9.7-dev",
        "pipeline": "LTXConditionPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "base_image_seq_len": 1024,
                   "base_shift": 0.95, "max_shift": 2.05, "shift": 1.0,
                   "invert_sigmas": False, "shift_terminal": None,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 128}, "vae_scale": 32, "patch": 1,
        "grid": "LINEAR_QUADRATIC_TIMESTEPS"},
    "OmniGen": {
        "repository": "Shitao/OmniGen-v1-diffusers",
        "pipeline": "OmniGenPipeline", "scheduler": FLOW,
        "config": {"base_image_seq_len": 256, "base_shift": 0.5,
                   "invert_sigmas": True, "max_image_seq_len": 4096,
                   "max_shift": 1.15, "num_train_timesteps": 1,
                   "shift": 1.0, "shift_terminal": None,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 4}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE"},
    "PixArt-Sigma": {
        "repository": "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
        "pipeline": "PixArtSigmaPipeline", "scheduler": DPM, "config": PIXART,
        "transformer": {"in_channels": 4, "sample_size": 128},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "SDXL": {
        "repository": "stabilityai/stable-diffusion-xl-base-1.0",
        "pipeline": "StableDiffusionXLPipeline", "scheduler": EULER,
        "config": SDXL_BETAS,
        "transformer": {"in_channels": 4, "sample_size": 128,
                        "time_cond_proj_dim": None},
        "vae_scale": 8, "patch": 1, "grid": "SCHEDULER"},
    "AuraFlow": {
        "repository": "fal/AuraFlow-v0.3",
        "pipeline": "AuraFlowPipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 1.73},
        "transformer": {"in_channels": 4, "sample_size": 64},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Sana": {
        "repository": "Efficient-Large-Model/Sana_1600M_1024px_diffusers",
        "pipeline": "SanaPipeline", "scheduler": DPM,
        "config": {**PIXART, "flow_shift": 3.0, "use_flow_sigmas": True,
                   "prediction_type": "flow_prediction"},
        "transformer": {"in_channels": 32, "sample_size": 32},
        "vae_scale": 32, "patch": 1, "grid": "SCHEDULER"},
    "SkyReels V2": {
        "repository": "Skywork/SkyReels-V2-T2V-14B-720P-Diffusers",
        "pipeline": "SkyReelsV2Pipeline", "scheduler": UNIPC,
        "config": {**WAN, "flow_shift": 8.0},
        "transformer": {"in_channels": 16, "patch_size": (1, 2, 2)},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Chroma1-HD": {
        "repository": "lodestones/Chroma1-HD",
        "pipeline": "ChromaPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "HunyuanImage-2.1": {
        "repository": "hunyuanvideo-community/HunyuanImage-2.1-Diffusers",
        "pipeline": "HunyuanImagePipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 5.0},
        "transformer": {"in_channels": 64, "guidance_embeds": False,
                        "use_meanflow": False},
        "vae_scale": 32, "patch": 1, "grid": "PIPELINE"},
    "Kolors": {
        "repository": "Kwai-Kolors/Kolors-diffusers",
        "pipeline": "KolorsPipeline", "scheduler": EULER,
        "config": {**SDXL_BETAS, "beta_end": 0.014,
                   "num_train_timesteps": 1100},
        "transformer": {"in_channels": 4, "sample_size": 128,
                        "time_cond_proj_dim": None},
        "vae_scale": 8, "patch": 1, "grid": "SCHEDULER"},
    "GLM-Image": {
        "repository": "zai-org/GLM-Image",
        "pipeline": "GlmImagePipeline", "scheduler": FLOW,
        "config": {"base_image_seq_len": 256, "base_shift": 0.25,
                   "max_image_seq_len": 4096, "max_shift": 0.75,
                   "num_train_timesteps": 1000, "shift": 1.0,
                   "shift_terminal": None, "time_shift_type": "linear",
                   "use_dynamic_shifting": True},
        "transformer": {"in_channels": 16, "patch_size": 2},
        "vae_scale": 8, "patch": 2, "grid": "WHOLE_TIMESTEPS_BEFORE_ONE",
        "mu": "SQUARE_ROOT"},
    "Ovis-Image": {
        "repository": "AIDC-AI/Ovis-Image-7B",
        "pipeline": "OvisImagePipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "LongCat-Image": {
        "repository": "meituan-longcat/LongCat-Image",
        "pipeline": "LongCatImagePipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "Kandinsky 5 T2I": {
        "repository": "kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers",
        "pipeline": "Kandinsky5T2IPipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0},
        "transformer": {"in_visual_dim": 16, "visual_cond": False},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "ERNIE-Image": {
        "repository": "baidu/ERNIE-Image",
        "pipeline": "ErnieImagePipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0},
        "transformer": {"in_channels": 128}, "vae_scale": 16, "patch": 1,
        "grid": "PIPELINE"},
    # A solver that a user of FLUX.1 puts in place of its scheduler.
    "FLUX.1-dev with UniPC": {
        "repository": "black-forest-labs/FLUX.1-dev",
        "pipeline": "FluxPipeline", "scheduler": UNIPC,
        "config": {**FLUX_SHIFT, "prediction_type": "flow_prediction",
                   "use_flow_sigmas": True},
        "transformer": {"in_channels": 64, "guidance_embeds": True},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER", "mu": "LINEAR"},
}

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
