"""Caption grammar, colours and the held-out rule of the demo data set."""

import dataclasses
import random
from typing import Optional

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring")

# Name -> RGB in 0..1.
COLOURS = {
    "red": (0.90, 0.10, 0.10),
    "green": (0.10, 0.65, 0.20),
    "blue": (0.10, 0.25, 0.90),
    "yellow": (0.95, 0.85, 0.10),
    "purple": (0.55, 0.15, 0.70),
    "orange": (1.00, 0.55, 0.05),
    "white": (0.97, 0.97, 0.97),
    "black": (0.05, 0.05, 0.05),
}
COLOUR_NAMES = tuple(COLOURS)

SIZES = ("small", "large")
POSITIONS = ("on the left", "on the right", "at the top", "at the bottom")

# (colour, shape) pairs that training never shows on any background.
HELD_OUT_PAIRS = frozenset({
    ("red", "triangle"),
    ("green", "diamond"),
    ("yellow", "cross"),
    ("purple", "ring"),
})


@dataclasses.dataclass(frozen=True)
class Scene:
    """What a caption says. `size` and `position` may be left open (None)."""

    colour: str
    shape: str
    background: str
    size: Optional[str] = None
    position: Optional[str] = None


def is_held_out(colour: str, shape: str, background: str) -> bool:
    """Tells whether a triple is kept out of training.

    The rule: all backgrounds of the pairs in HELD_OUT_PAIRS, and every triple
    whose indices satisfy (3*colour + 5*background + 7*shape) % 11 == 0.
    """
    if (colour, shape) in HELD_OUT_PAIRS:
        return True
    c = COLOUR_NAMES.index(colour)
    b = COLOUR_NAMES.index(background)
    s = SHAPES.index(shape)
    return (3 * c + 5 * b + 7 * s) % 11 == 0


def all_triples() -> list[tuple[str, str, str]]:
    """Lists every (colour, shape, background) with two different colours."""
    return [(c, s, b) for c in COLOUR_NAMES for s in SHAPES
            for b in COLOUR_NAMES if b != c]


def training_triples() -> list[tuple[str, str, str]]:
    return [t for t in all_triples() if not is_held_out(*t)]


def held_out_triples() -> list[tuple[str, str, str]]:
    return [t for t in all_triples() if is_held_out(*t)]


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def caption(scene: Scene, articles: bool = True) -> str:
    """Writes the caption of a scene, such as "a red ring on a blue background"."""
    words = [w for w in (scene.size, scene.colour, scene.shape) if w]
    if articles:
        words.insert(0, _article(words[0]))
    if scene.position:
        words.append(scene.position)
    words.append("on")
    if articles:
        words.append(_article(scene.background))
    words += [scene.background, "background"]
    return " ".join(words)


def random_scene(rng: random.Random,
                 triples: list[tuple[str, str, str]]) -> Scene:
    """Draws a scene; size and position are each left open half of the time."""
    colour, shape, background = rng.choice(triples)
    size = rng.choice(SIZES) if rng.random() < 0.5 else None
    position = rng.choice(POSITIONS) if rng.random() < 0.5 else None
    return Scene(colour, shape, background, size, position)


def random_caption(rng: random.Random, scene: Scene) -> str:
    """Draws the phrasing: one caption in five leaves the articles out."""
    return caption(scene, articles=rng.random() >= 0.2)
