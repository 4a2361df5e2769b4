#!/usr/bin/python3
"""Makes a picture of every quality prompt with the daemon, then checks them.

Needs built programs (`make build`) and Debian's python3-numpy and python3-pil.
Starts ferryd on a free port and stops it. Prints the summary of check.py and
exits as it does.
"""

import argparse
import json
import pathlib
import sys
import time

import check
import daemon

_HERE = pathlib.Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", type=pathlib.Path,
                        help="folder that gets 000.png, 001.png, ...")
    parser.add_argument("--programs", type=pathlib.Path,
                        default=_HERE.parents[1] / "bazel-bin",
                        help="folder of the built programs")
    args = parser.parse_args()
    missing = [name for name in daemon.PROGRAMS
               if not (args.programs / name).exists()]
    if missing:
        print(f"measure: {args.programs} has no {', '.join(missing)}; "
              "run `make build` first", file=sys.stderr)
        return 2
    args.pictures.mkdir(parents=True, exist_ok=True)
    prompts = check.read_prompts(check.PROMPTS)
    with daemon.Daemon(args.programs) as ferryd:
        started = time.monotonic()
        for prompt in prompts:
            ferryd.generate(prompt["prompt"], prompt["seed"],
                            check.picture_path(args.pictures, prompt))
        seconds = time.monotonic() - started
    print(f"measure: {len(prompts)} pictures in {seconds:.1f} s",
          file=sys.stderr)
    summary = check.summarize(check.check(args.pictures, prompts))
    print(json.dumps(summary, indent=2))
    return 0 if summary["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
