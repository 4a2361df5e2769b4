"""Renders scenes as 64x64 pictures, many at a time."""

import dataclasses
import random

import torch

import captions

SIZE = 64
RADIUS = {"small": (11.5, 12.5), "large": (18.0, 19.0)}
CENTRE = {
    "on the left": (18.0, 32.0),
    "on the right": (46.0, 32.0),
    "at the top": (32.0, 18.0),
    "at the bottom": (32.0, 46.0),
}
JITTER = 1.0


def _circle(x, y, r):
    return torch.hypot(x, y) - r


def _square(x, y, r):
    return torch.maximum(x.abs(), y.abs()) - 0.85 * r


def _triangle(x, y, r):
    # Equilateral, point upwards; r is nearly the circumradius.
    base = y - 0.62 * r
    sides = 0.866 * x.abs() - 0.5 * y - 0.55 * r
    return torch.maximum(base, sides)


def _diamond(x, y, r):
    return (x.abs() + y.abs() - 1.15 * r) * 0.7071


def _cross(x, y, r):
    arm = 0.34 * r
    tall = torch.maximum(x.abs() - arm, y.abs() - r)
    wide = torch.maximum(y.abs() - arm, x.abs() - r)
    return torch.minimum(tall, wide)


def _ring(x, y, r):
    return (torch.hypot(x, y) - 0.76 * r).abs() - 0.24 * r


_DISTANCE = {
    "circle": _circle, "square": _square, "triangle": _triangle,
    "diamond": _diamond, "cross": _cross, "ring": _ring,
}


@dataclasses.dataclass(frozen=True)
class Placement:
    """Centre and radius of a shape, in pixels."""

    x: float
    y: float
    radius: float


def random_placement(rng: random.Random, scene: captions.Scene) -> Placement:
    """Draws where the shape lies: as the caption says, and inside the picture."""
    low, high = RADIUS[scene.size or rng.choice(captions.SIZES)]
    radius = rng.uniform(low, high)
    x, y = CENTRE.get(scene.position, (SIZE / 2, SIZE / 2))

    def place(centre: float) -> float:
        moved = centre + rng.uniform(-JITTER, JITTER)
        return min(max(moved, radius + 1.0), SIZE - 1.0 - radius)

    return Placement(place(x), place(y), radius)


def coverage(shape: str, x: torch.Tensor, y: torch.Tensor,
             radius: torch.Tensor) -> torch.Tensor:
    """Returns [n, SIZE, SIZE]: the part of each pixel the shape covers.

    `x`, `y` and `radius` are [n]. The coverage is the signed distance to the
    outline, cut to one pixel's width.
    """
    pixel = torch.arange(SIZE, dtype=torch.float32) + 0.5
    dx = pixel[None, None, :] - x[:, None, None]
    dy = pixel[None, :, None] - y[:, None, None]
    distance = _DISTANCE[shape](dx, dy, radius[:, None, None])
    return (0.5 - distance).clamp(0.0, 1.0)


def render(scenes: list[captions.Scene],
           placements: list[Placement]) -> torch.Tensor:
    """Returns uint8 [n, 3, SIZE, SIZE]."""
    pictures = torch.empty(len(scenes), 3, SIZE, SIZE, dtype=torch.uint8)
    for shape in captions.SHAPES:
        index = [i for i, s in enumerate(scenes) if s.shape == shape]
        if not index:
            continue
        where = torch.tensor([[placements[i].x, placements[i].y,
                               placements[i].radius] for i in index])
        cover = coverage(shape, where[:, 0], where[:, 1], where[:, 2])[:, None]
        front = torch.tensor([captions.COLOURS[scenes[i].colour]
                              for i in index])[:, :, None, None]
        back = torch.tensor([captions.COLOURS[scenes[i].background]
                             for i in index])[:, :, None, None]
        mixed = back + (front - back) * cover
        pictures[index] = (mixed * 255.0).round().to(torch.uint8)
    return pictures


def make_dataset(
        count: int, seed: int) -> tuple[torch.Tensor, list[captions.Scene]]:
    """Renders `count` random training scenes, in pieces to bound memory."""
    rng = random.Random(seed)
    triples = captions.training_triples()
    scenes = [captions.random_scene(rng, triples) for _ in range(count)]
    placements = [random_placement(rng, s) for s in scenes]
    pieces = [render(scenes[i:i + 512], placements[i:i + 512])
              for i in range(0, count, 512)]
    return torch.cat(pieces), scenes
