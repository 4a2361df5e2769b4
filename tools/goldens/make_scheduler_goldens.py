#!/usr/bin/env python3
"""Records single steps of diffusers' schedulers as goldens.

A trajectory amplifies what processors round differently, so every step starts
from inputs of its own that are recorded: a sample and a model output, in few
digits. What a multistep scheduler remembers comes from the recorded inputs of
the steps before. With each result goes a bound of what another processor may
compute (rounding_errors.py); steps whose bound would be too wide to tell a
wrong result from a right one have none, and are not compared.

    make_scheduler_goldens.py            writes the goldens
    make_scheduler_goldens.py --check    computes them anew from the recorded
                                         inputs, and compares
"""

import argparse
import ast
import functools
import json
import pathlib
import sys

import diffusers
import numpy as np
import torch

from rounding_errors import RoundingErrors, unit_roundoff
from scheduler_cases import ANCESTRAL, CASES, DPM, EULER, FLOW, UNIPC

GOLDENS = (
    pathlib.Path(__file__).resolve().parents[2]
    / "pipelines/schedulers/testdata/scheduler_goldens.json"
)
# Noise is drawn from it, as a job draws it.
SEED = 7
# Runs of more steps record their levels only: the file stays small.
MAX_RECORDED_STEPS = 16
# Relative to the largest value of sample and result: a step whose bound is
# wider is not compared.
WIDEST_BOUND = 3e-4
# --check computes bounds from levels that differ in the last bits themselves.
BOUND_FACTOR = 4
UNIT = unit_roundoff(torch.float32)


def initial_noise():
    return torch.tensor([[-2.0, 0.75]], dtype=torch.float32)


def model(sample, timestep):
    """Stands for a transformer: outputs of about the sample's size."""
    t = float(timestep) / 1024
    return sample * 0.5 + sample * sample * 0.03125 * (1 - t) + t * 0.25 - 0.125


def in_few_digits(tensor):
    return [float(f"{value:.3g}") for value in tensor.flatten().tolist()]


def numbers(values):
    """The shortest decimals that give the same float32s."""
    return [float(str(np.float32(value)))
            for value in torch.as_tensor(values).flatten().tolist()]


def bounds(values):
    """Upwards to two digits, so that the file stays small."""
    return [float(f"{value * 1.05:.1e}")
            for value in np.asarray(values, dtype=np.float64).flatten()]


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


def timestep_arguments(class_name, options, steps, extra):
    """What set_timesteps() gets, and the custom sigmas among it."""
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
    return arguments, sigmas


def alpha_bounds(scheduler):
    """Below and above alphas_cumprod on any processor.

    A factor 1 - beta has the same bits everywhere unless beta's last bits
    decide how it is rounded; only those factors make a difference.
    """
    alphas = scheduler.alphas_cumprod
    unit = unit_roundoff(alphas.dtype)
    if scheduler.config.get("rescale_betas_zero_snr") or unit != UNIT:
        # Each factor is a ratio of neighbours, and rounded as such.
        slack = unit * torch.arange(8, len(alphas) + 8)
        low, high = alphas * (1 - slack), alphas * (1 + slack)
        if alphas[-1] < 1e-6:
            # That of a zero SNR is set, not computed.
            low[-1] = high[-1] = alphas[-1]
    else:
        # linspace, its square, and the rounding of each.
        slack = 8 * unit * scheduler.betas.double()
        low, high = (
            torch.cumprod((1 - (scheduler.betas.double() + sign * slack).float())
                          .double(), 0) * (1 - sign * 2 * unit)
            for sign in (1, -1))
        scale = scheduler.config.get("snr_shift_scale", 1)
        low, high = (alpha / (scale + (1 - scale) * alpha)
                     for alpha in (low, high))
    return low.to(alphas.dtype), high.clamp(max=1 - unit).to(alphas.dtype)


def has_exact_levels(class_name, options):
    """Levels from sums, products and quotients have the same bits everywhere."""
    is_flow = class_name == FLOW or options.get("use_flow_sigmas")
    return is_flow and not any(
        options.get(key) for key in (
            "use_dynamic_shifting", "use_karras_sigmas",
            "use_exponential_sigmas"))


def made_levels(scheduler, arguments, alphas):
    """(timesteps, sigmas) that follow from `alphas`; DDIM has no sigmas."""
    if alphas is not None:
        scheduler.alphas_cumprod = alphas
    scheduler.set_timesteps(**arguments)
    return [np.asarray(getattr(scheduler, name, []), dtype=np.float64)
            for name in ("timesteps", "sigmas")]


def set_levels(scheduler, class_name, options, arguments, errors):
    """Makes the levels; returns bounds of (timesteps, sigmas).

    Levels fall with alphas_cumprod, so their extremes are those of its own.
    """
    alphas = getattr(scheduler, "alphas_cumprod", None)
    extremes = [] if alphas is None else alpha_bounds(scheduler)
    outer = [made_levels(scheduler, arguments, values) for values in extremes]
    levels = made_levels(scheduler, arguments, alphas)
    rounding = 0 if has_exact_levels(class_name, options) else 4 * UNIT
    level_bounds = [
        functools.reduce(
            np.maximum, [np.abs(values - others[i]) for others in outer], 0)
        + rounding * np.abs(values) for i, values in enumerate(levels)]
    if alphas is not None:
        low, high = extremes
        scheduler.alphas_cumprod = errors.add(
            alphas, torch.maximum(alphas - low, high - alphas))
        if not scheduler.config.get("set_alpha_to_one", True):
            scheduler.final_alpha_cumprod = scheduler.alphas_cumprod[0]
    if hasattr(scheduler, "sigmas"):
        scheduler.sigmas = errors.add(scheduler.sigmas, level_bounds[1])
    return level_bounds


def run_steps(scheduler, class_name, errors, init_noise_sigma, recorded):
    """Walks the steps, from `recorded` inputs if there are any."""
    step_arguments = {"return_dict": False}
    if class_name in (ANCESTRAL, DPM):
        step_arguments["generator"] = torch.Generator("cpu").manual_seed(SEED)
    has_inputs = class_name in (EULER, ANCESTRAL)
    steps = {"samples": [], "outputs": [], "results": [], "bounds": []}
    if has_inputs:
        steps.update(model_inputs=[], model_input_bounds=[])
    result = initial_noise() * init_noise_sigma
    for i, timestep in enumerate(scheduler.timesteps):
        sample = torch.tensor(
            [recorded["samples"][i] if recorded else in_few_digits(result)])
        with errors:
            model_input = (scheduler.scale_model_input(sample, timestep)
                           if has_inputs else sample)
        output = torch.tensor(
            [recorded["outputs"][i] if recorded
             else in_few_digits(model(model_input, timestep))])
        with errors:
            result = scheduler.step(
                output, timestep, sample, **step_arguments)[0]
        bound = errors.bound(result).max().item()
        scale = max(result.abs().max().item(), sample.abs().max().item())
        steps["samples"].append(in_few_digits(sample))
        steps["outputs"].append(in_few_digits(output))
        steps["results"].append(numbers(result))
        steps["bounds"].append(
            bounds(bound)[0] if bound <= WIDEST_BOUND * scale else None)
        if has_inputs:
            steps["model_inputs"].append(numbers(model_input))
            steps["model_input_bounds"].append(
                bounds(errors.bound(model_input).max())[0])
    return steps


def run(class_name, options, steps, extra, recorded):
    scheduler = make_scheduler(class_name, options)
    arguments, sigmas = timestep_arguments(class_name, options, steps, extra)
    errors = RoundingErrors()
    timestep_bounds, sigma_bounds = set_levels(
        scheduler, class_name, options, arguments, errors)
    # As pipelines do; without it diffusers looks the first step up by its
    # timestep and starts late when two are equal.
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)
    count = len(scheduler.timesteps)
    with errors:
        init_noise_sigma = torch.as_tensor(
            getattr(scheduler, "init_noise_sigma", 1.0)) * 1
    result = {
        "num_inference_steps": steps,
        "init_noise_sigma": numbers(init_noise_sigma),
        "init_noise_sigma_bound": bounds(errors.bound(init_noise_sigma)),
        "timesteps": numbers(scheduler.timesteps),
        "timestep_bounds": bounds(timestep_bounds),
    }
    if len(sigma_bounds):
        # interpolation_type log_linear leaves one that no step reads.
        result["sigmas"] = numbers(scheduler.sigmas[: count + 1])
        result["sigma_bounds"] = bounds(sigma_bounds[: count + 1])
    if sigmas is not None:
        result["custom_sigmas"] = [float(sigma) for sigma in sigmas]
    if count <= MAX_RECORDED_STEPS:
        result["steps"] = run_steps(
            scheduler, class_name, errors, init_noise_sigma.item(),
            recorded and recorded["steps"])
    return result


def generate(recorded=None):
    """All goldens; with those `recorded`, from their inputs."""
    cases = []
    for index, (name, (class_name, options, step_counts, extra)) in enumerate(
            CASES.items()):
        runs = [
            run(class_name, options, steps, extra,
                recorded and recorded["cases"][index]["runs"][i])
            for i, steps in enumerate(step_counts)]
        case = {
            "name": name,
            "config": {"_class_name": class_name, **options},
            "runs": runs,
        }
        if "image_seq_len" in extra:
            case["image_seq_len"] = extra["image_seq_len"]
        cases.append(case)
    return {
        "versions": {
            "diffusers": diffusers.__version__,
            "torch": torch.__version__.split("+")[0],
        },
        "seed": SEED,
        "cases": cases,
    }


# Values, the key of their bounds, and how the bound belongs to them.
BOUNDED = {
    "init_noise_sigma": "init_noise_sigma_bound",
    "timesteps": "timestep_bounds",
    "sigmas": "sigma_bounds",
    "results": "bounds",
    "model_inputs": "model_input_bounds",
}


def beyond(old, new, bound):
    """Whether a value, or one of a list, differs by more than its bound."""
    old, new = np.atleast_1d(old), np.atleast_1d(new)
    return bound is not None and not np.all(np.abs(new - old) <= bound)


def differences(path, old, new):
    """Yields where goldens differ by more than the committed bounds."""
    if isinstance(new, dict) and isinstance(old, dict):
        if old.keys() != new.keys():
            yield f"{path}: keys differ"
            return
        for key in new:
            if key in BOUNDED:
                limits = old[BOUNDED[key]]
                if not len(old[key]) == len(new[key]) == len(limits):
                    yield f"{path}/{key}: another number of values"
                for i, (a, b, limit) in enumerate(zip(old[key], new[key], limits)):
                    if beyond(a, b, limit):
                        yield f"{path}/{key}/{i}: {a}, now {b}, bound {limit}"
            elif key in BOUNDED.values():
                for i, (a, b) in enumerate(zip(old[key], new[key])):
                    if a is not None and b is not None and not (
                            max(a, b) <= BOUND_FACTOR * min(a, b)):
                        yield f"{path}/{key}/{i}: {a}, now {b}"
            else:
                yield from differences(f"{path}/{key}", old[key], new[key])
    elif isinstance(new, list) and isinstance(old, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} values, now {len(new)}"
        for index, (a, b) in enumerate(zip(old, new)):
            yield from differences(f"{path}/{index}", a, b)
    elif old != new:
        yield f"{path}: {old}, now {new}"


def left_out(goldens):
    """The steps that are not compared, as text."""
    for case in goldens["cases"]:
        for made in case["runs"]:
            bounds_of_steps = made.get("steps", {}).get("bounds", [])
            steps = [i for i, bound in enumerate(bounds_of_steps) if bound is None]
            if steps:
                yield (f"{case['name']}, {made['num_inference_steps']} steps: "
                       f"ill-conditioned, not compared: {steps}")


def outline(cases):
    return {case["name"]: [run["num_inference_steps"] for run in case["runs"]]
            for case in cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    committed = json.loads(GOLDENS.read_text()) if arguments.check else None
    if committed and outline(committed["cases"]) != {
            name: list(case[2]) for name, case in CASES.items()}:
        print("goldens: the cases are not those of scheduler_cases.py")
        return 1
    goldens = generate(committed)
    # Through JSON, so that both sides have been written once.
    text = json.dumps(
        goldens, separators=(",", ":"), allow_nan=False).replace(
        '{"name"', '\n{"name"')
    if not arguments.check:
        GOLDENS.parent.mkdir(parents=True, exist_ok=True)
        GOLDENS.write_text(text + "\n")
        print(*left_out(goldens), sep="\n")
        print(f"wrote {GOLDENS} ({len(text)} bytes)")
        return 0
    problems = list(differences("", committed, json.loads(text)))
    for problem in problems[:20]:
        print(problem)
    print(f"goldens: {len(CASES)} cases, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
