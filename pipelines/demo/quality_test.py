"""Quality of the demo through the real ferryd, ferry_worker and ferryctl.

A sample by rule: every fourth of the quality prompts.
"""

import os
import pathlib
import tempfile
import unittest

import numpy as np
from PIL import Image

import captions
import check
import daemon


def _pixels(path: pathlib.Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


class QualityTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        # The runfiles are laid out as bazel-bin is.
        cls.ferryd = cls.enterClassContext(daemon.Daemon(
            pathlib.Path.cwd(),
            # tests/run_on_cpus sets it.
            os.environ.get("FERRY_TEST_INTRA_OP_THREADS", "1")))
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))))
        cls.prompts = check.read_prompts(check.PROMPTS)[::4]
        for prompt in cls.prompts:
            cls.ferryd.generate(prompt["prompt"], prompt["seed"],
                                check.picture_path(cls.folder, prompt))
        cls.summary = check.summarize(check.check(cls.folder, cls.prompts))

    def _generate(self, name: str, seed: int) -> pathlib.Path:
        picture = self.folder / name
        self.ferryd.generate("a red circle on a blue background", seed, picture)
        return picture

    def test_the_sample_covers_the_grammar(self):
        self.assertEqual(len(self.prompts), 24)
        self.assertEqual({p["shape"] for p in self.prompts},
                         set(captions.SHAPES))
        self.assertEqual({p[part] for p in self.prompts
                          for part in ("colour", "background")},
                         set(captions.COLOURS))
        self.assertEqual(self.summary["held_out"]["pictures"], 8)

    def test_colours_are_right(self):
        self.assertGreaterEqual(self.summary["all"]["colours_right"],
                                check.LEAST_COLOURS, self.summary)

    def test_shapes_are_right(self):
        self.assertGreaterEqual(self.summary["all"]["shape_right"],
                                check.LEAST_SHAPES, self.summary)

    def test_pictures_are_64_by_64(self):
        for prompt in self.prompts:
            picture = check.picture_path(self.folder, prompt)
            self.assertEqual(_pixels(picture).shape, (64, 64, 3), prompt)

    def test_the_same_seed_gives_the_same_bytes(self):
        self.assertEqual(self._generate("a.png", 7).read_bytes(),
                         self._generate("b.png", 7).read_bytes())

    def test_another_seed_gives_another_picture(self):
        difference = abs(_pixels(self._generate("c.png", 7)) -
                         _pixels(self._generate("d.png", 8)))
        self.assertGreater(difference.max(), 30)


if __name__ == "__main__":
    unittest.main()
