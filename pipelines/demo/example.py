#!/usr/bin/python3
"""Makes example.png with the daemon: PROMPTS from left to right, a row a seed.

Needs what measure.py needs.
"""

import pathlib
import sys
import tempfile

from PIL import Image

import daemon

PROMPTS = (
    "a large red circle on a blue background",
    "a small yellow ring on the left on a purple background",
    "a green triangle at the top on a white background",
    "an orange square on the right on a black background",
    "a large purple diamond on a yellow background",
    "a white cross at the bottom on a red background",
    "a blue ring on an orange background",
    "a black triangle on a green background",
)
_SEEDS = (1, 2)
_EDGE = 128  # Twice what the demo draws, for screens of today.
_HERE = pathlib.Path(__file__).parent


def main(programs: pathlib.Path) -> None:
    grid = Image.new("RGB", (_EDGE * len(PROMPTS), _EDGE * len(_SEEDS)))
    with tempfile.TemporaryDirectory() as folder, \
            daemon.Daemon(programs) as ferryd:
        picture = pathlib.Path(folder) / "picture.png"
        for row, seed in enumerate(_SEEDS):
            for column, prompt in enumerate(PROMPTS):
                ferryd.generate(prompt, seed, picture)
                with Image.open(picture) as image:
                    large = image.resize((_EDGE, _EDGE),
                                         Image.Resampling.NEAREST)
                    grid.paste(large, (column * _EDGE, row * _EDGE))
    # The lowest bit is noise, and a fifth of the file.
    even = grid.point(lambda value: min(255, (value + 1) // 2 * 2))
    even.save(_HERE / "example.png", optimize=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1
         else _HERE.parents[1] / "bazel-bin")
