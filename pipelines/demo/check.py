"""Checks pictures against the quality prompts and prints a summary as JSON.

The pictures are PNG files named by prompt index: 000.png, 001.png, ...
"""

import argparse
import json
import pathlib
import sys

import numpy as np
from PIL import Image

import analysis

PROMPTS = pathlib.Path(__file__).parent / "prompts.jsonl"
# Shares of the pictures that a package must reach.
LEAST_COLOURS = 0.90
LEAST_SHAPES = 0.75


def read_prompts(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def picture_path(pictures: pathlib.Path, prompt: dict) -> pathlib.Path:
    return pictures / f"{prompt['index']:03d}.png"


def _share(results: list[dict], key: str) -> float:
    return round(sum(r[key] for r in results) / max(len(results), 1), 4)


def check(pictures: pathlib.Path, prompts: list[dict]) -> list[dict]:
    """Reads every picture and compares it with what its prompt asked for."""
    results = []
    for prompt in prompts:
        reading = analysis.read_picture(np.asarray(
            Image.open(picture_path(pictures, prompt)).convert("RGB")))
        results.append({
            "index": prompt["index"], "prompt": prompt["prompt"],
            "held_out": prompt["held_out"],
            "background": reading.background, "colour": reading.colour,
            "shape": reading.shape, "overlap": round(reading.overlap, 3),
            "colours_right": (reading.colour == prompt["colour"]
                              and reading.background == prompt["background"]),
            "shape_right": reading.shape == prompt["shape"]})
    return results


def summarize(results: list[dict], least_colours: float = LEAST_COLOURS,
              least_shapes: float = LEAST_SHAPES) -> dict:
    """Counts what is right: all, combinations seen in training, held out."""
    summary = {}
    for name, part in (("all", results),
                       ("seen", [r for r in results if not r["held_out"]]),
                       ("held_out", [r for r in results if r["held_out"]])):
        summary[name] = {"pictures": len(part),
                         "colours_right": _share(part, "colours_right"),
                         "shape_right": _share(part, "shape_right")}
    summary["passed"] = (
        summary["all"]["colours_right"] >= least_colours
        and summary["all"]["shape_right"] >= least_shapes)
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", type=pathlib.Path)
    parser.add_argument("prompts", type=pathlib.Path, nargs="?",
                        default=PROMPTS)
    parser.add_argument("--least_colours", type=float, default=LEAST_COLOURS)
    parser.add_argument("--least_shapes", type=float, default=LEAST_SHAPES)
    parser.add_argument("--wrong", action="store_true",
                        help="also list the pictures that are wrong")
    args = parser.parse_args()
    results = check(args.pictures, read_prompts(args.prompts))
    summary = summarize(results, args.least_colours, args.least_shapes)
    if args.wrong:
        summary["wrong"] = [r for r in results
                            if not (r["colours_right"] and r["shape_right"])]
    print(json.dumps(summary, indent=2))
    return 0 if summary["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
