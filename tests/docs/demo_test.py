"""What `make demo` shows of offloading, and `make demo-distributed`: the programs
of tools/ that they run."""

import re
import subprocess
import unittest

# The demo's diffusion transformer, in bytes on the device.
TRANSFORMER_BYTES = 5_000_000


class DemoTest(unittest.TestCase):

    def run_demo(self, program):
        result = subprocess.run(
            ["python3", program, "server/frontend/ferryd", "client/ferryctl",
             "pipelines/demo/package"],
            check=False, text=True, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()

    def test_every_strategy_makes_the_same_picture(self):
        lines = self.run_demo("tools/demo_offload.py")
        self.assertEqual(lines[-1], "all pictures are the same")
        rows = [re.split(r"  +", line) for line in lines[1:-1]]
        self.assertEqual(
            [row[:2] for row in rows],
            [["auto-large", "none"], ["module", "model_level"],
             ["auto-middle", "distributed_layer_wise"],
             ["layer-budget", "distributed_layer_wise"],
             ["layer-resident", "distributed_layer_wise"],
             ["layer", "layer_wise"],
             ["auto-small", "distributed_layer_wise"]])
        self.assertEqual(len({row[7] for row in rows}), 1)
        self.assertRegex(rows[0][7], "^[0-9a-f]{16}$")
        for name, strategy, memory, used, _, stalled, copied, _ in rows:
            memory, used, copied = (int(text.replace(",", ""))
                                    for text in (memory, used, copied))
            self.assertLessEqual(used, memory, name)
            self.assertEqual(copied > 0, strategy != "none", name)
            if strategy == "none":
                self.assertEqual(stalled, "0 ms")
            if name == "layer":
                self.assertNotEqual(stalled, "0 ms")
            self.assertEqual(memory < TRANSFORMER_BYTES,
                             name in ("layer", "auto-small"), name)

    def test_a_group_that_loses_a_rank_makes_the_same_pictures(self):
        lines = self.run_demo("tools/demo_distributed.py")
        self.assertRegex(lines[0], "^rank 2 .* is killed while 3 requests run")
        rows = [re.split(r"  +", line) for line in lines[3:-1]]
        self.assertEqual([row[0] for row in rows], list("01234"))
        outcomes = [row[2] for row in rows]
        self.assertIn("UNAVAILABLE WORKER_LOST", outcomes)
        for row in rows:
            self.assertRegex(row[-1], "^[0-9a-f]{16}$")
        self.assertTrue(lines[-1].startswith("generation 2 of the group"))


if __name__ == "__main__":
    unittest.main()
