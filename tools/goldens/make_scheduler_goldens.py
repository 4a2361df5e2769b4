#!/usr/bin/env python3
"""Runs diffusers' schedulers and records full trajectories as goldens.

The model is a polynomial of the latents and the timestep in float32 whose
coefficients are exact, so that the C++ test computes the very same outputs.

    make_scheduler_goldens.py            writes the goldens
    make_scheduler_goldens.py --check    regenerates and compares them
"""

import argparse
import ast
import json
import pathlib
import sys

import diffusers
import numpy as np
import torch

GOLDENS = (
    pathlib.Path(__file__).resolve().parents[2]
    / "pipelines/schedulers/testdata/scheduler_goldens.json"
)
# --check fails above this, relative to the largest value of a step.
TOLERANCE = 1e-7

FLOW = "FlowMatchEulerDiscreteScheduler"
EULER = "EulerDiscreteScheduler"
ANCESTRAL = "EulerAncestralDiscreteScheduler"
DDIM = "DDIMScheduler"
COGVIDEOX = "CogVideoXDDIMScheduler"
DPM = "DPMSolverMultistepScheduler"
UNIPC = "UniPCMultistepScheduler"
STEPS = [1, 2, 5, 20, 50]
# 50 steps only where a trajectory is unlike the others: the file stays small.
# And fewer where diffusers' own numbers depend on the processor: the lowest
# levels of linear betas and the first one of a zero SNR are differences of
# nearly equal numbers. ATEN_CPU_CAPABILITY=default shows where.
FEW = [1, 2, 5, 20]

SDXL = {
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "timestep_spacing": "leading",
    "steps_offset": 1,
}

SD15 = {**SDXL, "clip_sample": False, "set_alpha_to_one": False}
ZERO_SNR = {
    "prediction_type": "v_prediction",
    "rescale_betas_zero_snr": True,
    "timestep_spacing": "trailing",
}
COGVIDEOX_2B = {
    **ZERO_SNR, "clip_sample": False, "set_alpha_to_one": True,
    "snr_shift_scale": 3.0}
FLOW_SOLVER = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
SDE = {"algorithm_type": "sde-dpmsolver++"}
# Noise is drawn from it, as a job draws it.
SEED = 7

# name -> (class, options, step counts, what set_timesteps gets beside them)
CASES = {
    "flow_default": (FLOW, {}, STEPS, {}),
    "flow_sd3": (FLOW, {"shift": 3.0}, STEPS, {}),
    "flow_sd3_512_train_steps": (
        FLOW, {"shift": 1.73, "num_train_timesteps": 512}, FEW, {}),
    "flow_schnell": (FLOW, {"shift": 1.0}, [1, 2, 4], {"grid": "pipeline"}),
    "flow_dev_4096": (
        FLOW, {"shift": 3.0, "use_dynamic_shifting": True}, STEPS,
        {"grid": "pipeline", "image_seq_len": 4096}),
    "flow_dev_256": (
        FLOW, {"use_dynamic_shifting": True}, FEW,
        {"grid": "pipeline", "image_seq_len": 256}),
    "flow_dev_16": (
        FLOW, {"use_dynamic_shifting": True}, FEW,
        {"grid": "pipeline", "image_seq_len": 16}),
    "flow_dynamic_own_grid": (
        FLOW, {"use_dynamic_shifting": True}, FEW, {"image_seq_len": 1000}),
    "flow_qwen": (
        FLOW,
        {"use_dynamic_shifting": True, "shift_terminal": 0.02,
         "max_image_seq_len": 8192, "max_shift": 0.9},
        [2, 5, 20, 50], {"grid": "pipeline", "image_seq_len": 6032}),
    "flow_ltx": (
        FLOW,
        {"use_dynamic_shifting": True, "shift_terminal": 0.1,
         "base_image_seq_len": 1024, "base_shift": 0.95, "max_shift": 2.05},
        [2, 5, 20], {"grid": "pipeline", "image_seq_len": 2048}),
    "flow_linear_time_shift": (
        FLOW, {"use_dynamic_shifting": True, "time_shift_type": "linear"},
        FEW, {"grid": "pipeline", "image_seq_len": 1024}),
    "flow_static_terminal": (
        FLOW, {"shift": 2.0, "shift_terminal": 0.05}, [2, 5, 20], {}),
    "flow_inverted": (FLOW, {"invert_sigmas": True}, FEW, {}),
    "flow_karras": (FLOW, {"shift": 3.0, "use_karras_sigmas": True}, FEW, {}),
    "flow_exponential": (FLOW, {"use_exponential_sigmas": True}, FEW, {}),
    "flow_hunyuan": (FLOW, {"shift": 7.0}, [2, 5, 20], {"grid": "to_zero"}),
    "euler_default": (EULER, {}, FEW, {}),
    "euler_sdxl": (EULER, SDXL, STEPS, {}),
    "euler_sdxl_trailing": (
        EULER, {**SDXL, "timestep_spacing": "trailing"}, FEW, {}),
    "euler_sdxl_karras": (EULER, {**SDXL, "use_karras_sigmas": True}, FEW, {}),
    "euler_sdxl_exponential": (
        EULER, {**SDXL, "use_exponential_sigmas": True}, FEW, {}),
    "euler_sigma_ends": (
        EULER,
        {**SDXL, "use_karras_sigmas": True, "sigma_min": 0.05,
         "sigma_max": 12.5}, FEW, {}),
    "euler_log_linear": (
        EULER, {**SDXL, "interpolation_type": "log_linear"}, FEW, {}),
    "euler_final_sigma_min": (
        EULER, {**SDXL, "final_sigmas_type": "sigma_min"}, FEW, {}),
    "euler_v_prediction": (
        EULER, {**SDXL, "prediction_type": "v_prediction"}, FEW, {}),
    "euler_zero_snr": (
        EULER,
        {**SDXL, "prediction_type": "v_prediction",
         "rescale_betas_zero_snr": True, "timestep_spacing": "trailing"},
        [1, 5, 20], {}),
    "euler_sample": (EULER, {"prediction_type": "sample"}, FEW, {}),
    "euler_cosine": (
        EULER,
        {"beta_schedule": "squaredcos_cap_v2",
         "prediction_type": "v_prediction"}, FEW, {}),
    "euler_continuous": (
        EULER,
        {**SDXL, "prediction_type": "v_prediction",
         "timestep_type": "continuous", "use_karras_sigmas": True,
         "sigma_min": 0.002, "sigma_max": 700.0}, FEW, {}),
    "euler_500_train_steps": (
        EULER, {"num_train_timesteps": 500, "timestep_spacing": "trailing"},
        FEW, {}),
    "euler_custom_sigmas": (EULER, SDXL, [2, 5, 20], {"grid": "to_zero"}),
    "ancestral_default": (ANCESTRAL, {}, FEW, {}),
    "ancestral_sdxl": (ANCESTRAL, SDXL, FEW, {}),
    "ancestral_trailing": (
        ANCESTRAL, {**SDXL, "timestep_spacing": "trailing"}, FEW, {}),
    "ancestral_zero_snr": (ANCESTRAL, {**SDXL, **ZERO_SNR}, [1, 5], {}),
    "ancestral_cosine": (
        ANCESTRAL,
        {"beta_schedule": "squaredcos_cap_v2",
         "prediction_type": "v_prediction"}, FEW, {}),
    "ddim_default": (DDIM, {}, FEW, {}),
    "ddim_sd15": (DDIM, SD15, STEPS, {}),
    "ddim_clip_range": (
        DDIM, {"clip_sample_range": 0.75, "timestep_spacing": "trailing"}, FEW,
        {}),
    "ddim_zero_snr": (DDIM, {**SD15, **ZERO_SNR}, [1, 5, 20], {}),
    "ddim_sample_linspace": (
        DDIM,
        {**SD15, "prediction_type": "sample", "timestep_spacing": "linspace"},
        FEW, {}),
    "ddim_cosine": (
        DDIM,
        {"beta_schedule": "squaredcos_cap_v2", "clip_sample": False,
         "prediction_type": "v_prediction"}, FEW, {}),
    "cogvideox_2b": (COGVIDEOX, COGVIDEOX_2B, STEPS, {}),
    "cogvideox_5b": (
        COGVIDEOX, {**COGVIDEOX_2B, "snr_shift_scale": 1.0}, FEW, {}),
    "cogvideox_epsilon": (
        COGVIDEOX, {"beta_schedule": "linear", "set_alpha_to_one": False}, FEW,
        {}),
    "dpm_pixart": (DPM, {}, [1, 2, 5], {}),
    "dpm_sdxl": (DPM, SDXL, FEW, {}),
    "dpm_sdxl_karras": (
        DPM, {**SDXL, "use_karras_sigmas": True}, STEPS, {}),
    "dpm_sigma_ends": (
        DPM,
        {**SDXL, "use_karras_sigmas": True, "sigma_min": 0.05,
         "sigma_max": 12.5}, FEW, {}),
    "dpm_exponential": (
        DPM, {**SDXL, "use_exponential_sigmas": True}, FEW, {}),
    "dpm_trailing": (
        DPM, {**SDXL, "timestep_spacing": "trailing"}, FEW, {}),
    "dpm_zero_snr": (DPM, {**SDXL, **ZERO_SNR}, FEW, {}),
    "dpm_heun": (DPM, {**SDXL, "solver_type": "heun"}, FEW, {}),
    "dpm_order_1": (DPM, {**SDXL, "solver_order": 1}, FEW, {}),
    "dpm_order_3": (DPM, {**SDXL, "solver_order": 3}, STEPS, {}),
    "dpm_order_3_to_the_end": (
        DPM,
        {"solver_order": 3, "lower_order_final": False,
         "final_sigmas_type": "sigma_min"}, FEW, {}),
    "dpm_euler_at_final": (
        DPM,
        {**SDXL, "euler_at_final": True, "final_sigmas_type": "sigma_min"},
        FEW, {}),
    "dpm_sample": (DPM, {"prediction_type": "sample"}, FEW, {}),
    "dpm_cosine_clipped": (
        DPM,
        {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1,
         "prediction_type": "v_prediction"}, FEW, {}),
    "dpm_cosine_karras": (
        DPM,
        {"beta_schedule": "squaredcos_cap_v2", "use_karras_sigmas": True},
        FEW, {}),
    "dpm_flow_sana": (DPM, {**FLOW_SOLVER, "flow_shift": 3.0}, STEPS, {}),
    "dpm_flow_sigma_min": (
        DPM, {**FLOW_SOLVER, "final_sigmas_type": "sigma_min"}, FEW, {}),
    "dpm_flow_dynamic": (
        DPM, {**FLOW_SOLVER, "use_dynamic_shifting": True}, FEW,
        {"image_seq_len": 1000}),
    "dpm_sde": (DPM, {**SDXL, **SDE}, [1, 2, 5, 10], {}),
    "dpm_sde_karras": (
        DPM,
        {**SDXL, **SDE, "use_karras_sigmas": True, "solver_type": "heun"},
        FEW, {}),
    "dpm_sde_flow": (
        DPM, {**FLOW_SOLVER, **SDE, "flow_shift": 3.0, "solver_order": 1},
        FEW, {}),
    "unipc_default": (UNIPC, {}, [1, 2], {}),
    "unipc_sdxl": (UNIPC, SDXL, STEPS, {}),
    "unipc_sdxl_karras": (
        UNIPC, {**SDXL, "use_karras_sigmas": True}, FEW, {}),
    "unipc_exponential": (
        UNIPC, {**SDXL, "use_exponential_sigmas": True}, FEW, {}),
    "unipc_wan_480p": (UNIPC, {**FLOW_SOLVER, "flow_shift": 3.0}, STEPS, {}),
    "unipc_wan_720p": (UNIPC, {**FLOW_SOLVER, "flow_shift": 5.0}, FEW, {}),
    "unipc_flow_karras": (
        UNIPC,
        {**FLOW_SOLVER, "use_karras_sigmas": True, "sigma_min": 0.01,
         "sigma_max": 200.0}, FEW, {}),
    "unipc_flow_custom_sigmas": (
        UNIPC, {**FLOW_SOLVER, "flow_shift": 3.0}, FEW, {"grid": "pipeline"}),
    "unipc_qwen": (
        UNIPC,
        {**FLOW_SOLVER, "use_dynamic_shifting": True, "shift_terminal": 0.02,
         "max_image_seq_len": 8192, "max_shift": 0.9},
        [2, 5, 20], {"grid": "pipeline", "image_seq_len": 6032}),
    "unipc_flow_sigma_min": (
        UNIPC, {**FLOW_SOLVER, "final_sigmas_type": "sigma_min"}, FEW, {}),
    # With a last level of zero diffusers makes NaN of the last step.
    "unipc_bh1": (
        UNIPC,
        {**SDXL, "solver_type": "bh1", "final_sigmas_type": "sigma_min"}, FEW,
        {}),
    "unipc_order_1": (UNIPC, {**SDXL, "solver_order": 1}, FEW, {}),
    "unipc_order_3": (
        UNIPC, {**FLOW_SOLVER, "flow_shift": 5.0, "solver_order": 3}, STEPS,
        {}),
    "unipc_order_3_to_the_end": (
        UNIPC,
        {**SDXL, "solver_order": 3, "lower_order_final": False,
         "final_sigmas_type": "sigma_min"}, FEW, {}),
    "unipc_predict_noise": (
        UNIPC, {"predict_x0": False, "final_sigmas_type": "sigma_min"},
        [1, 2, 20], {}),
    "unipc_predict_noise_of_v": (
        UNIPC,
        {**SDXL, "predict_x0": False, "final_sigmas_type": "sigma_min",
         "prediction_type": "v_prediction"}, [1, 5, 20], {}),
    "unipc_disable_corrector": (
        UNIPC, {**FLOW_SOLVER, "disable_corrector": [0, 2]}, FEW, {}),
    "unipc_zero_snr": (UNIPC, {**SDXL, **ZERO_SNR}, FEW, {}),
    "unipc_sample": (UNIPC, {"prediction_type": "sample"}, FEW, {}),
}


def initial_noise():
    """A batch of one: values that are exact in binary, of both signs."""
    return torch.tensor(
        [[-2.0, -0.5, 0.75, 2.25]],
        dtype=torch.float32)


def model(sample, timestep):
    """Stands for a transformer; every operation rounds to float32."""
    t = timestep.to(torch.float32) * 0.0009765625  # 1/1024
    return sample * 0.5 + sample * sample * 0.03125 * (1.0 - t) + t * 0.25 - 0.125


def custom_sigmas(grid, steps):
    if grid == "pipeline":  # FLUX, Qwen-Image, LTX
        return np.linspace(1.0, 1 / steps, steps)
    assert grid == "to_zero"  # HunyuanVideo
    return np.linspace(1.0, 0.0, steps + 1)


def calculate_shift(config, image_seq_len):
    """Runs the function of FLUX's pipeline, without importing what that wants."""
    source = pathlib.Path(
        diffusers.__file__).parent / "pipelines/flux/pipeline_flux.py"
    function = next(
        node for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "calculate_shift")
    namespace = {}
    exec(compile(ast.Module([function], []), str(source), "exec"), namespace)
    return namespace["calculate_shift"](
        image_seq_len, config["base_image_seq_len"],
        config["max_image_seq_len"], config["base_shift"], config["max_shift"])


def numbers(values):
    """The shortest decimals that give the same float32s."""
    return [float(str(np.float32(value)))
            for value in np.asarray(values).flatten()]


# What pipelines read from the configuration of any scheduler.
SHIFT_DEFAULTS = {
    "base_image_seq_len": 256, "max_image_seq_len": 4096, "base_shift": 0.5,
    "max_shift": 1.15}


def make_scheduler(class_name, options):
    known = options if class_name == FLOW else {
        key: value for key, value in options.items()
        if key not in SHIFT_DEFAULTS}
    return getattr(diffusers, class_name).from_config(
        {"_class_name": class_name, **known})


def run(class_name, options, steps, extra):
    scheduler = make_scheduler(class_name, options)
    arguments = {"num_inference_steps": steps}
    sigmas = None
    if "grid" in extra:
        sigmas = custom_sigmas(extra["grid"], steps)
        if class_name in (FLOW, UNIPC):
            sigmas = sigmas[:steps]
        arguments = {"sigmas": np.array(sigmas)}
    if options.get("use_dynamic_shifting"):
        arguments["mu"] = calculate_shift(
            {**SHIFT_DEFAULTS, **options}, extra["image_seq_len"])
    scheduler.set_timesteps(**arguments)
    # As pipelines do; without it diffusers looks the first step up by its
    # timestep and starts late when two are equal.
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)
    step_arguments = {"return_dict": False}
    if class_name in (ANCESTRAL, DPM):
        step_arguments["generator"] = torch.Generator("cpu").manual_seed(SEED)
    init_noise_sigma = getattr(scheduler, "init_noise_sigma", 1.0)
    sample = initial_noise() * init_noise_sigma
    trajectory = []
    for timestep in scheduler.timesteps:
        model_input = sample
        if hasattr(scheduler, "scale_model_input"):
            model_input = scheduler.scale_model_input(sample, timestep)
        output = model(model_input, timestep)
        sample = scheduler.step(output, timestep, sample, **step_arguments)[0]
        trajectory.append(numbers(sample))
    count = len(scheduler.timesteps)
    result = {
        "num_inference_steps": steps,
        "init_noise_sigma": numbers([init_noise_sigma])[0],
        "timesteps": numbers(scheduler.timesteps),
        "samples": trajectory,
    }
    if hasattr(scheduler, "sigmas"):
        # interpolation_type log_linear leaves one that no step reads.
        result["sigmas"] = numbers(scheduler.sigmas[: count + 1])
    if sigmas is not None:
        result["custom_sigmas"] = [float(sigma) for sigma in sigmas]
    return result


def generate():
    cases = []
    for name, (class_name, options, step_counts, extra) in CASES.items():
        case = {
            "name": name,
            "config": {"_class_name": class_name, **options},
            "runs": [
                run(class_name, options, steps, extra) for steps in step_counts
            ],
        }
        if "image_seq_len" in extra:
            case["image_seq_len"] = extra["image_seq_len"]
        cases.append(case)
    return {
        "versions": {
            "diffusers": diffusers.__version__,
            "torch": torch.__version__.split("+")[0],
        },
        "initial_noise": numbers(initial_noise()),
        "seed": SEED,
        "cases": cases,
    }


def difference(path, old, new):
    """Yields the paths at which two goldens differ by more than TOLERANCE."""
    if isinstance(new, dict) and isinstance(old, dict):
        if old.keys() != new.keys():
            yield f"{path}: keys differ"
            return
        for key in new:
            yield from difference(f"{path}/{key}", old[key], new[key])
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
                yield from difference(f"{path}/{index}", a, b)
    elif isinstance(new, float) and isinstance(old, float):
        if not abs(old - new) <= TOLERANCE * (abs(new) or 1.0):
            yield f"{path}: {old}, now {new}"
    elif old != new:
        yield f"{path}: {old}, now {new}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # Through JSON, so that both sides have been written once.
    text = json.dumps(
        generate(), separators=(",", ":"), allow_nan=False).replace(
        '{"name"', '\n{"name"')
    if not arguments.check:
        GOLDENS.parent.mkdir(parents=True, exist_ok=True)
        GOLDENS.write_text(text + "\n")
        print(f"wrote {GOLDENS} ({len(text)} bytes)")
        return 0
    problems = list(difference("", json.loads(GOLDENS.read_text()),
                               json.loads(text)))
    for problem in problems[:20]:
        print(problem)
    print(f"goldens: {len(CASES)} cases, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
