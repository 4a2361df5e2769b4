"""Starts the real ferryd with the demo package, for Python programs.

ferryctl makes the pictures, so they come the way a user's do: over gRPC, from
a worker process.
"""

import pathlib
import signal
import subprocess
import tempfile
import time
from typing import Optional

_PACKAGE = pathlib.Path(__file__).parent / "package"
# Loading takes two seconds; a machine that compiles at the same time, more.
_START_SECONDS = 120
_POLL_SECONDS = 0.05
_FERRYD = "server/frontend/ferryd"
_FERRYCTL = "client/ferryctl"
PROGRAMS = (_FERRYD, "server/worker/ferry_worker", _FERRYCTL)


class DaemonError(Exception):
    """A program ended in a way it should not; the message has its output."""


class Daemon:
    """A ferryd on a free port from `with` to the end of its block.

    Leaving the block ends it with SIGTERM and raises DaemonError unless it
    exits with 0. `programs` is the folder that holds PROGRAMS: bazel-bin, or
    the runfiles of a test. Threads of operators this small wait more than they
    work, so there is one unless `threads` says otherwise.
    """

    def __init__(self, programs: pathlib.Path, threads: str = "1"):
        self._programs = programs
        self._threads = threads
        self._address = ""
        self._process: Optional[subprocess.Popen] = None

    def __enter__(self) -> "Daemon":
        with tempfile.TemporaryDirectory() as folder:
            addresses = pathlib.Path(folder) / "addresses"
            self._log = tempfile.TemporaryFile("w+")
            self._process = subprocess.Popen(
                [self._programs / _FERRYD, f"--pipeline=demo={_PACKAGE}",
                 "--grpc_address=127.0.0.1:0", f"--address_file={addresses}",
                 f"--intra_op_threads={self._threads}"],
                stdin=subprocess.DEVNULL, stderr=self._log)
            try:
                self._wait_for(addresses.exists)
                self._address = addresses.read_text().split(
                    "grpc=")[1].split()[0]
                self._wait_for(lambda: self._ferryctl("health").returncode == 0)
            except BaseException:
                self._end(signal.SIGKILL)
                raise
        return self

    def __exit__(self, kind, error, traceback) -> None:
        code = self._end(signal.SIGTERM)
        if code and error is None:
            raise DaemonError(
                f"ferryd ended with {code}:\n{self._last_words()}")

    def generate(self, prompt: str, seed: int, picture: pathlib.Path) -> None:
        """Saves a PNG file, made with the pipeline's defaults."""
        result = self._ferryctl("generate", prompt, f"--seed={seed}",
                                "-o", picture)
        if result.returncode:
            raise DaemonError(f"ferryctl generate {prompt!r} ended with "
                              f"{result.returncode}: {result.stderr}\n"
                              f"ferryd:\n{self._last_words()}")

    def _ferryctl(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self._programs / _FERRYCTL, f"--address={self._address}",
             *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, check=False)

    def _wait_for(self, condition) -> None:
        end = time.monotonic() + _START_SECONDS
        while not condition():
            if self._process.poll() is not None or time.monotonic() > end:
                raise DaemonError(
                    f"ferryd did not become ready:\n{self._last_words()}")
            time.sleep(_POLL_SECONDS)

    def _end(self, how: signal.Signals) -> int:
        self._process.send_signal(how)
        return self._process.wait()

    def _last_words(self) -> str:
        self._log.seek(0)
        return "".join(self._log.readlines()[-20:])
