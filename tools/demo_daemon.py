"""ferryd with the demo pipeline, for the demonstrations beside this file."""

import contextlib
import pathlib
import signal
import subprocess
import time


class Failure(Exception):
    """What a demonstration cannot go on after."""


class Programs:
    """ferryd and ferryctl, and a folder for their files."""

    def __init__(self, ferryd, ferryctl, folder):
        self._ferryd = ferryd
        self._ferryctl = ferryctl
        self._folder = pathlib.Path(folder)

    @contextlib.contextmanager
    def serve(self, config, *flags):
        """ferryd with a configuration, one thread an operator; yields its
        address once it is ready."""
        with contextlib.ExitStack() as stack:
            folder = self._folder / str(time.monotonic_ns())
            folder.mkdir()
            (folder / "server.txtpb").write_text(config)
            log = stack.enter_context((folder / "log").open("w"))
            daemon = stack.enter_context(subprocess.Popen(
                [self._ferryd, f"--config={folder}/server.txtpb",
                 "--intra_op_threads=1", "--grpc_address=127.0.0.1:0",
                 f"--address_file={folder}/addresses", *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            stack.callback(daemon.send_signal, signal.SIGTERM)
            yield self._wait_until_ready(daemon, folder)

    def _wait_until_ready(self, daemon, folder):
        address = None
        while daemon.poll() is None:
            if address is None and (folder / "addresses").exists():
                lines = dict(line.split("=", 1) for line in
                             (folder / "addresses").read_text().split())
                address = lines["grpc"]
            if address and self.is_ready(address):
                return address
            time.sleep(0.05)
        raise Failure("ferryd ended:\n" + (folder / "log").read_text()[-3000:])

    def is_ready(self, address):
        return self.start(address, "health").wait() == 0

    def start(self, address, *arguments):
        """A ferryctl that prints one JSON object a line."""
        return subprocess.Popen(
            [self._ferryctl, f"--address={address}", "--json", *arguments],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, address, *arguments):
        """What ferryctl prints; it must succeed."""
        process = self.start(address, *arguments)
        output, errors = process.communicate()
        if process.returncode != 0:
            raise Failure(f"ferryctl {' '.join(arguments)}: {errors}")
        return output


def print_table(rows, left):
    """Columns before `left` are flush left, the others flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    for row in rows:
        cells = [cell.ljust(width) if i < left else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
