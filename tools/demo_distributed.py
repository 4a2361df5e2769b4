#!/usr/bin/env python3
"""Shows ranks that share one copy of the weights, and what the loss of one does.

  tools/demo_distributed.py FERRYD FERRYCTL PACKAGE

First one rank makes five pictures, of different step counts, with all weights on
its device. Then three ranks make them at once: each holds a third of the
transformer and the ranks gather its blocks over Gloo, pass by pass. One rank is
killed in the middle: what runs fails, and says so; what waits is served by the
next generation of the group; what failed is asked for again. The pictures are
the same, byte for byte.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import demo_daemon

RANKS = 3
PROMPT = "a large red circle on a blue background"
STEPS = (24, 30, 36, 42, 48)
# Steps of the first request before the rank is killed.
STEPS_BEFORE = 6
# Room for all weights.
DEVICE_BYTES = 16_000_000
# Each rank's link, in 10^9 bytes a second: so slow that there is a middle.
LINK_GBPS = 0.1


def config_for(package, ranks, offload):
    return (f'pipelines {{ name: "demo" path: "{package}" ranks: {ranks} '
            f"offload {{ {offload} }} }}\n")


SHARED = ('mode: "layer" components: "dit" layer_options { component: "dit" '
          'weight_transfer: "allgather" }')


class Request:
    """One of the five, and what became of it."""

    def __init__(self, number):
        self.number = number
        self.steps = STEPS[number]
        self.expected = None
        self._process = None

    def start(self, programs, address):
        self._process = programs.start(
            address, "generate", PROMPT, "--omit_data",
            f"--seed={self.number}", f"--steps={self.steps}")

    def wait_for_step(self, step):
        for line in self._process.stdout:
            progress = json.loads(line).get("progress", {})
            if progress.get("step", 0) >= step:
                return
        raise demo_daemon.Failure("a request ended too soon: " +
                                  self._process.stderr.read())

    def finish(self):
        """Its picture's hash, or nothing and the error."""
        output, errors = self._process.communicate()
        if self._process.returncode != 0:
            return None, errors.splitlines()[0]
        job = json.loads(output.splitlines()[-1])["job"]
        return job["outputs"][0]["sha256"], None


def run_alone(programs, package, requests):
    with programs.serve(config_for(package, 1, 'mode: "none"'),
                        "--platform=simulated",
                        f"--simulated_device_memory={DEVICE_BYTES}") as address:
        for request in requests:
            request.start(programs, address)
            request.expected, error = request.finish()
            if error:
                raise demo_daemon.Failure(error)


def kill_one(programs, address):
    pipeline = json.loads(programs.call(address, "pipelines", "get", "demo"))
    victim = pipeline["ranks"][-1]
    os.kill(int(victim["pid"]), signal.SIGKILL)
    return victim


def run_together(programs, package, requests):
    rows = [("request", "steps", "at first", "again")]
    with programs.serve(config_for(package, RANKS, SHARED),
                        "--platform=simulated",
                        f"--simulated_device_memory={DEVICE_BYTES}",
                        f"--simulated_h2d_gbps={LINK_GBPS}") as address:
        for request in requests:
            request.start(programs, address)
        requests[0].wait_for_step(STEPS_BEFORE)
        victim = kill_one(programs, address)
        killed = time.monotonic()
        print(f"rank {victim['index']} (pid {victim['pid']}) is killed while "
              f"{RANKS} requests run and {len(requests) - RANKS} wait")
        first = [request.finish() for request in requests]
        while not programs.is_ready(address):
            time.sleep(0.05)
        for request, (sha256, _) in zip(requests, first):
            if sha256 is None:
                request.start(programs, address)
        for request, (sha256, error) in zip(requests, first):
            again = None
            if sha256 is None:
                again, problem = request.finish()
                if problem:
                    raise demo_daemon.Failure(problem)
            if (sha256 or again) != request.expected:
                raise demo_daemon.Failure(
                    f"the picture of request {request.number} differs")
            outcome = (sha256[:16] if sha256
                       else " ".join(error.split(":")[0].split()[:2]))
            rows.append((str(request.number), str(request.steps), outcome,
                         (again or "")[:16]))
        print(f"{time.monotonic() - killed:.1f} s later every request has its "
              "picture")
        report = json.loads(programs.call(address, "pipelines", "get", "demo"))
    demo_daemon.print_table(rows, left=4)
    if all(sha256 for sha256, _ in first):
        raise demo_daemon.Failure("no request noticed that a rank was killed")
    print(f"generation {report['generation']} of the group serves now; all "
          "pictures are those that one rank makes alone")


def main():
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    package = pathlib.Path(sys.argv[3]).absolute()
    requests = [Request(number) for number in range(len(STEPS))]
    with tempfile.TemporaryDirectory() as folder:
        programs = demo_daemon.Programs(*sys.argv[1:3], folder)
        try:
            run_alone(programs, package, requests)
            run_together(programs, package, requests)
        except demo_daemon.Failure as failure:
            print(f"demo_distributed: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
