"""Draws the quality prompts: seen and held-out combinations, with answers."""

import argparse
import json
import pathlib
import random

import captions

_SEEN = 64
_HELD_OUT = 32


def make_prompts(seed: int) -> list[dict]:
    """Returns one record a prompt. No caption is in the list twice."""
    rng = random.Random(seed)
    records = []
    for triples, count in ((captions.training_triples(), _SEEN),
                           (captions.held_out_triples(), _HELD_OUT)):
        for colour, shape, background in rng.sample(triples, count):
            scene = captions.random_scene(rng, [(colour, shape, background)])
            records.append({
                "index": len(records),
                "prompt": captions.random_caption(rng, scene),
                "colour": colour, "shape": shape, "background": background,
                "held_out": captions.is_held_out(colour, shape, background),
                "seed": 1000 + len(records)})
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "prompts.jsonl")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    args.output.write_text(
        "".join(json.dumps(r) + "\n" for r in make_prompts(args.seed)))


if __name__ == "__main__":
    main()
