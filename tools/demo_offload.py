#!/usr/bin/env python3
"""Shows what offloading does: one picture under every strategy.

  tools/demo_offload.py FERRYD FERRYCTL PACKAGE

ferryd serves the package once for each strategy, on a simulated device: on one
that has room for all weights, on one that is smaller than these, and on one
that is smaller than the diffusion transformer alone. The table tells what each
strategy costs; the pictures are the same, byte for byte.
"""

import json
import pathlib
import sys
import tempfile

import demo_daemon

PROMPT = "a large red circle on a blue background"
# The link to the device, in 10^9 bytes a second: so slow that its copies take
# about as long as this small model's compute.
LINK_GBPS = 0.2
# All weights are 7.9 million bytes, the transformer is 5.0 million.
LARGE_BYTES = 16_000_000
MIDDLE_BYTES = 6_500_000
SMALL_BYTES = 4_900_000

# Name, the device's memory, PipelineConfig.offload.
STRATEGIES = (
    ("auto-large", LARGE_BYTES, 'mode: "auto"'),
    ("module", LARGE_BYTES,
     'mode: "module" components: "dit" components: "text_encoder"'
     ' components: "vae"'),
    ("auto-middle", MIDDLE_BYTES, 'mode: "auto" headroom_bytes: 0'),
    ("layer-budget", MIDDLE_BYTES,
     'mode: "layer" components: "dit" memory_budget_bytes: 5800000'),
    ("layer-resident", MIDDLE_BYTES,
     'mode: "layer" components: "dit"'
     ' layer_options { component: "dit" resident_layers: 1 }'),
    ("layer", SMALL_BYTES, 'mode: "layer" components: "dit"'),
    ("auto-small", SMALL_BYTES, 'mode: "auto" headroom_bytes: 0'),
)


def config_for(package, memory_bytes):
    """All strategies of a device."""
    return "".join(
        f'pipelines {{ name: "{name}" path: "{package}" '
        f"offload {{ {offload} }} }}\n"
        for name, memory, offload in STRATEGIES if memory == memory_bytes)


def milliseconds(duration):
    """Of a protobuf duration in JSON, such as 0.012s."""
    return 1000 * float(duration.rstrip("s"))


def show_strategy(programs, address, name, memory_bytes):
    """Generates; returns a row of the table and the picture's hash."""
    # The first generation of a process is slower than all others.
    for _ in range(2):
        events = programs.call(address, "generate", PROMPT, "--omit_data",
                           "--seed=42", f"--pipeline={name}")
    job = json.loads(events.splitlines()[-1])["job"]
    offload = json.loads(programs.call(address, "pipelines", "get", name))["offload"]
    timings = job["timings"]
    sha256 = job["outputs"][0]["sha256"]
    return (name, offload["strategy"], f"{memory_bytes:,}",
            f"{int(offload['deviceBytes']):,}",
            f"{milliseconds(timings['total']):.0f} ms",
            f"{milliseconds(timings['exposedStall']):.0f} ms",
            f"{int(timings.get('h2dBytes', 0)):,}", sha256[:16]), sha256


def run(programs, package):
    rows = [("pipeline", "strategy", "device memory", "weights there", "time",
             "stalled", "copied", "SHA-256 of the picture")]
    hashes = set()
    for memory_bytes in (LARGE_BYTES, MIDDLE_BYTES, SMALL_BYTES):
        with programs.serve(
                config_for(package, memory_bytes), "--platform=simulated",
                f"--simulated_device_memory={memory_bytes}",
                f"--simulated_h2d_gbps={LINK_GBPS}") as address:
            for name, memory, _ in STRATEGIES:
                if memory != memory_bytes:
                    continue
                row, sha256 = show_strategy(programs, address, name, memory)
                rows.append(row)
                hashes.add(sha256)
    demo_daemon.print_table(rows, left=2)
    if len(hashes) != 1:
        raise demo_daemon.Failure("the pictures differ")
    print("all pictures are the same")


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(demo_daemon.Programs(*sys.argv[1:3], folder),
                pathlib.Path(sys.argv[3]).absolute())
        except demo_daemon.Failure as failure:
            print(f"demo_offload: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
