#!/usr/bin/env python3
"""Shows what offloading does: one picture under every strategy.

  tools/demo_offload.py FERRYD FERRYCTL PACKAGE

ferryd serves the package once for each strategy, on a simulated device: on one
that has room for all weights, on one that is smaller than these, and on one
that is smaller than the diffusion transformer alone. The table tells what each
strategy costs; the pictures are the same, byte for byte.
"""

import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

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


class Failure(Exception):
    """What the demo cannot go on after."""


class Demo:
    """The programs, and a folder for their files."""

    def __init__(self, ferryd, ferryctl, package, folder):
        self._ferryd = ferryd
        self._ferryctl = ferryctl
        self._package = pathlib.Path(package).absolute()
        self._folder = pathlib.Path(folder)

    @contextlib.contextmanager
    def serve(self, memory_bytes):
        """ferryd with all strategies of a device; yields its address."""
        config = self._folder / "server.txtpb"
        config.write_text("".join(
            f'pipelines {{ name: "{name}" path: "{self._package}" '
            f"offload {{ {offload} }} }}\n"
            for name, memory, offload in STRATEGIES if memory == memory_bytes))
        addresses = self._folder / f"addresses-{memory_bytes}"
        log_path = self._folder / f"log-{memory_bytes}"
        with log_path.open("w") as log, subprocess.Popen(
                [self._ferryd, f"--config={config}", "--platform=simulated",
                 f"--simulated_device_memory={memory_bytes}",
                 f"--simulated_h2d_gbps={LINK_GBPS}", "--intra_op_threads=1",
                 "--grpc_address=127.0.0.1:0", f"--address_file={addresses}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log) as daemon:
            try:
                yield self._wait_until_ready(daemon, addresses, log_path)
            finally:
                daemon.send_signal(signal.SIGTERM)

    def _wait_until_ready(self, daemon, addresses, log_path):
        address = None
        while daemon.poll() is None:
            if address is None and addresses.exists():
                lines = dict(line.split("=", 1)
                             for line in addresses.read_text().split())
                address = lines["grpc"]
            if address and self._run(address, "health").returncode == 0:
                return address
            time.sleep(0.05)
        raise Failure("ferryd ended:\n" + log_path.read_text()[-3000:])

    def _run(self, address, *arguments):
        return subprocess.run(
            [self._ferryctl, f"--address={address}", "--json", *arguments],
            check=False, text=True, capture_output=True)

    def call(self, address, *arguments):
        """What ferryctl prints: one JSON object a line."""
        result = self._run(address, *arguments)
        if result.returncode != 0:
            raise Failure(f"ferryctl {' '.join(arguments)}: {result.stderr}")
        return result.stdout


def milliseconds(duration):
    """Of a protobuf duration in JSON, such as 0.012s."""
    return 1000 * float(duration.rstrip("s"))


def show_strategy(demo, address, name, memory_bytes):
    """Generates; returns a row of the table and the picture's hash."""
    # The first generation of a process is slower than all others.
    for _ in range(2):
        events = demo.call(address, "generate", PROMPT, "--omit_data",
                           "--seed=42", f"--pipeline={name}")
    job = json.loads(events.splitlines()[-1])["job"]
    offload = json.loads(demo.call(address, "pipelines", "get", name))["offload"]
    timings = job["timings"]
    sha256 = job["outputs"][0]["sha256"]
    return (name, offload["strategy"], f"{memory_bytes:,}",
            f"{int(offload['deviceBytes']):,}",
            f"{milliseconds(timings['total']):.0f} ms",
            f"{milliseconds(timings['exposedStall']):.0f} ms",
            f"{int(timings.get('h2dBytes', 0)):,}", sha256[:16]), sha256


def print_table(rows):
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    for row in rows:
        cells = [cell.ljust(width) if i < 2 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def run(demo):
    rows = [("pipeline", "strategy", "device memory", "weights there", "time",
             "stalled", "copied", "SHA-256 of the picture")]
    hashes = set()
    for memory_bytes in (LARGE_BYTES, MIDDLE_BYTES, SMALL_BYTES):
        with demo.serve(memory_bytes) as address:
            for name, memory, _ in STRATEGIES:
                if memory != memory_bytes:
                    continue
                row, sha256 = show_strategy(demo, address, name, memory)
                rows.append(row)
                hashes.add(sha256)
    print_table(rows)
    if len(hashes) != 1:
        raise Failure("the pictures differ")
    print("all pictures are the same")


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(Demo(*sys.argv[1:], folder))
        except Failure as failure:
            print(f"demo_offload: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
