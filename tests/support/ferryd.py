"""A running ferryd, for tests in Python."""

import json
import subprocess
import threading


class Ferryd:
    """Runs a command that becomes, or stands for, ferryd until `with` ends.

    The log on its standard error, in JSON, tells where it listens. Leaving
    the block kills what still runs.
    """

    def __init__(self, command, **options):
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, **options)
        self._lines = []
        # Set at the end of the log as well: nobody waits for what cannot come.
        self._listening = threading.Event()
        self._addresses = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self.wait()

    def address(self, name):
        """Where it listens: `name` is grpc or health."""
        self._listening.wait()
        if not self._addresses:
            raise AssertionError("ferryd did not listen:\n" + self.log())
        return self._addresses[f"{name}_address"]

    def send_signal(self, signal):
        self._process.send_signal(signal)

    def wait(self, timeout=None):
        """Its exit code, once it has ended."""
        code = self._process.wait(timeout)
        self._reader.join()
        return code

    def log(self):
        return "".join(self._lines)

    def _read(self):
        for line in self._process.stderr:
            self._lines.append(line)
            if '"msg":"listening"' in line:
                self._addresses = json.loads(line)
                self._listening.set()
        self._listening.set()


def wait_for_health(grpcurl, address, service, status):
    """Waits until `service` has `status`, such as SERVING."""
    with subprocess.Popen(
            [grpcurl, "-plaintext", "-import-path=/usr/share/grpc-proto",
             "-proto=grpc/health/v1/health.proto", "-max-time=120",
             "-d", json.dumps({"service": service}), address,
             "grpc.health.v1.Health/Watch"],
            text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT) as watch:
        text = ""
        for line in watch.stdout:
            text += line
            if f'"status": "{status}"' in line:
                watch.terminate()
                return
    raise AssertionError(f"{service} did not become {status}: {text}")
