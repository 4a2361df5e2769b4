"""Measures the picture reading on rendered scenes, where the truth is known."""

import random
import unittest

import numpy as np

import analysis
import captions
import shapes


class AnalysisTest(unittest.TestCase):

    def _wrong(self, size: str, noise: float) -> list[str]:
        """Reads every triple once in the given size and lists the misreadings."""
        rng = random.Random(5)
        noise_rng = np.random.default_rng(5)
        positions = (None,) + captions.POSITIONS
        scenes = [captions.Scene(c, s, b, size, rng.choice(positions))
                  for c, s, b in captions.all_triples()]
        placements = [shapes.random_placement(rng, s) for s in scenes]
        pictures = shapes.render(scenes, placements).permute(0, 2, 3, 1).numpy()
        wrong = []
        for scene, picture in zip(scenes, pictures):
            noisy = picture + noise * noise_rng.standard_normal(picture.shape)
            got = analysis.read_picture(noisy.clip(0, 255).astype(np.uint8))
            if (got.colour, got.shape, got.background) != (
                    scene.colour, scene.shape, scene.background):
                wrong.append(f"{scene} read as {got}")
        return wrong

    def test_reads_large_shapes(self):
        self.assertEqual(self._wrong("large", 0.0), [])

    def test_reads_small_shapes(self):
        self.assertLessEqual(len(self._wrong("small", 0.0)), 3)

    def test_reads_noisy_pictures(self):
        self.assertLessEqual(len(self._wrong("small", 10.0)), 6)

    def test_finds_no_object_in_a_plain_picture(self):
        got = analysis.read_picture(np.full((64, 64, 3), 250, np.uint8))
        self.assertEqual((got.background, got.colour, got.shape),
                         ("white", None, None))


if __name__ == "__main__":
    unittest.main()
