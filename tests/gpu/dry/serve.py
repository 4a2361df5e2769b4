#!/usr/bin/env python3
"""Serves the demo pipeline on the dry CUDA, by every offload policy.

  tests/gpu/dry/serve.py FERRYD FERRYCTL PACKAGE RANKS

Each rank makes two pictures. Kernels do nothing, so pictures tell nothing of
the model; they are the same for all policies. One JSON line a policy.
"""

import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../../tools"))
import demo_daemon  # noqa: E402

LAYER = 'mode: "layer" components: "dit" components: "text_encoder"'
POLICIES = {
    "none": 'mode: "none"',
    "auto": 'mode: "auto"',
    "module": 'mode: "module" components: "dit" components: "text_encoder"'
              ' components: "vae"',
    "layer": LAYER,
    "resident": LAYER + ' layer_options { component: "dit" resident_layers: 1 }',
    "unpinned": LAYER + " pin_memory: false",
    "allgather": 'mode: "layer" components: "dit" layer_options '
                 '{ component: "dit" weight_transfer: "allgather" }',
}


def generate(programs, address, ranks):
    """Two pictures a rank, all at once; their hashes."""
    calls = [programs.start(address, "generate", "a red circle", "--omit_data",
                            f"--seed={seed}", "--steps=3")
             for seed in range(2 * ranks)]
    hashes = set()
    for call in calls:
        output, errors = call.communicate()
        if call.returncode != 0:
            raise demo_daemon.Failure(errors)
        job = json.loads(output.splitlines()[-1])["job"]
        hashes.add(job["outputs"][0]["sha256"])
    return hashes


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    package = pathlib.Path(sys.argv[3]).absolute()
    ranks = int(sys.argv[4])
    hashes = set()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        programs = demo_daemon.Programs(*sys.argv[1:3], folder)
        for name, offload in POLICIES.items():
            if name == "allgather" and ranks == 1:
                continue
            line = {"policy": name, "ranks": ranks}
            try:
                with programs.serve(
                        f'pipelines {{ name: "demo" path: "{package}" '
                        f"ranks: {ranks} offload {{ {offload} }} }}\n",
                        "--platform=cuda") as address:
                    hashes |= generate(programs, address, ranks)
                    report = json.loads(
                        programs.call(address, "pipelines", "get", "demo"))
                line["strategy"] = report["offload"]["strategy"]
            except demo_daemon.Failure as failure:
                line["error"] = str(failure)[-1500:]
                failures += 1
            print(json.dumps(line), flush=True)
    if len(hashes) > 1:
        print("the pictures differ", file=sys.stderr)
        failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
