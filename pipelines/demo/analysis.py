"""Reads a picture: background colour, object colour and shape.

Nothing here knows what was asked for. The shape is named by geometry alone:
the object's mask is compared with each shape drawn into the mask's bounding
box, and the best overlap (intersection over union) wins.
"""

import dataclasses
from typing import Optional

import numpy as np

import captions

# An object differs from the background by at least this much (RGB in 0..1).
_LEAST_CONTRAST = 0.2
# No shape covers fewer pixels, so the contrast is read at this rank.
_SMALLEST_OBJECT = 60


def _circle(u, v):
    return u * u + v * v <= 1.0


def _square(u, v):
    return np.maximum(abs(u), abs(v)) <= 1.0


def _triangle(u, v):
    return (abs(u) <= 0.5 * (v + 1.0)) & (v <= 1.0)


def _diamond(u, v):
    return abs(u) + abs(v) <= 1.0


def _cross(u, v):
    return _square(u, v) & (np.minimum(abs(u), abs(v)) <= 0.34)


def _ring(u, v):
    square = u * u + v * v
    return (square <= 1.0) & (square >= 0.52 * 0.52)


# Each shape in the unit bounding box -1..1 x -1..1, v downwards.
_TEMPLATES = {"circle": _circle, "square": _square, "triangle": _triangle,
              "diamond": _diamond, "cross": _cross, "ring": _ring}


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a picture shows; colour and shape are None where no object is."""

    background: str
    colour: Optional[str]
    shape: Optional[str]
    overlap: float


def _nearest_colour(rgb: np.ndarray) -> str:
    return min(captions.COLOURS, key=lambda name: float(
        ((np.asarray(captions.COLOURS[name]) - rgb)**2).sum()))


def _largest_component(mask: np.ndarray) -> np.ndarray:
    """Keeps the largest part of the mask that is connected by pixel edges."""
    height, width = mask.shape
    seen = np.zeros_like(mask)
    best: list[tuple[int, int]] = []
    for start in zip(*np.nonzero(mask)):
        if seen[start]:
            continue
        seen[start] = True
        part, front = [], [start]
        while front:
            y, x = front.pop()
            part.append((y, x))
            for at in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if (0 <= at[0] < height and 0 <= at[1] < width and mask[at]
                        and not seen[at]):
                    seen[at] = True
                    front.append(at)
        if len(part) > len(best):
            best = part
    result = np.zeros_like(mask)
    for at in best:
        result[at] = True
    return result


def name_shape(mask: np.ndarray) -> tuple[str, float]:
    """Returns the shape that overlaps best, and the overlap.

    The box may be off by a pixel, so its centre and size are tried around the
    mask's bounding box in steps of half a pixel.
    """
    ys, xs = np.nonzero(mask)
    left, right = xs.min(), xs.max() + 1
    top, bottom = ys.min(), ys.max() + 1
    pixel_y, pixel_x = np.mgrid[:mask.shape[0], :mask.shape[1]] + 0.5
    best, best_overlap = "circle", -1.0
    steps = (-0.5, 0.0, 0.5)
    for dx in steps:
        for dy in steps:
            for grow in (-1.0, -0.5, 0.0, 0.5):
                u = (pixel_x - 0.5 * (left + right) - dx) / (
                    0.5 * (right - left) + grow)
                v = (pixel_y - 0.5 * (top + bottom) - dy) / (
                    0.5 * (bottom - top) + grow)
                for name, template in _TEMPLATES.items():
                    drawn = template(u, v)
                    union = (drawn | mask).sum()
                    overlap = (drawn & mask).sum() / max(union, 1)
                    if overlap > best_overlap:
                        best, best_overlap = name, float(overlap)
    return best, best_overlap


def read_picture(picture: np.ndarray) -> Reading:
    """Reads a uint8 picture [height, width, 3]."""
    rgb = picture.astype(np.float64) / 255.0
    border = np.concatenate([rgb[:2].reshape(-1, 3), rgb[-2:].reshape(-1, 3),
                             rgb[:, :2].reshape(-1, 3),
                             rgb[:, -2:].reshape(-1, 3)])
    back = np.median(border, axis=0)
    background = _nearest_colour(back)
    distance = np.sqrt(((rgb - back)**2).sum(2))
    contrast = np.sort(distance, axis=None)[-_SMALLEST_OBJECT]
    if contrast < _LEAST_CONTRAST:
        return Reading(background, None, None, 0.0)
    mask = _largest_component(distance > 0.5 * contrast)
    if mask.sum() < _SMALLEST_OBJECT:
        return Reading(background, None, None, 0.0)
    colour = _nearest_colour(np.median(rgb[mask], axis=0))
    shape, overlap = name_shape(mask)
    return Reading(background, colour, shape, overlap)
