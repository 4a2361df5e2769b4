"""What both training scripts share: schedule, checkpoints and workers."""

import math
import os
import pathlib
import tempfile
import time
from typing import Any, Callable, Optional

import torch
import torch.distributed
from torch import nn


class Schedule:
    """Warm-up and cosine decay over steps or minutes, whichever ends first.

    The decay follows progress(), so a run whose steps take longer than planned
    still ends with a small learning rate when its minutes are used up.
    """

    def __init__(self, peak: float, steps: int, max_minutes: float,
                 warmup: int, minutes_used: float = 0.0) -> None:
        self._peak = peak
        self._steps = steps
        self._seconds = max_minutes * 60.0
        self._warmup = warmup
        self._started = time.monotonic() - minutes_used * 60.0

    def minutes(self) -> float:
        return (time.monotonic() - self._started) / 60.0

    def progress(self, step: int) -> float:
        """Returns 0 at the beginning and 1 or more when the run is over."""
        by_steps = step / self._steps
        if self._seconds <= 0:
            return by_steps
        return max(by_steps, self.minutes() * 60.0 / self._seconds)

    def rate(self, step: int, progress: float) -> float:
        """Returns the learning rate of a step."""
        decay = 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
        return self._peak * min(1.0, (step + 1) / self._warmup) * decay + 1e-5


def save_checkpoint(path: pathlib.Path, state: dict[str, Any]) -> None:
    """Writes a checkpoint so that a reader never sees half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def load_checkpoint(path: pathlib.Path) -> Optional[dict[str, Any]]:
    if not path.exists():
        return None
    return torch.load(path, map_location="cpu", weights_only=True)


def run_workers(work: Callable[..., None], workers: int, *args: Any) -> None:
    """Runs work(rank, *args) in processes of one thread each, and waits.

    They meet once a step. Threads inside one process would meet after every
    operator, which is slow when something else wants the cores too.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            _worker, (work, workers, f"file://{folder}/meeting", args), workers)


def _worker(rank: int, work: Callable[..., None], workers: int, meeting: str,
            args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", meeting, rank=rank,
                                         world_size=workers)
    work(rank, *args)
    torch.distributed.destroy_process_group()


def average_gradients(network: nn.Module, values: list[float]) -> list[float]:
    """Averages all gradients over the workers, and `values` along with them."""
    gradients = [p.grad for p in network.parameters()]
    flat = torch.cat([g.flatten() for g in gradients] + [torch.tensor(values)])
    torch.distributed.all_reduce(flat)
    flat /= torch.distributed.get_world_size()
    offset = 0
    for gradient in gradients:
        gradient.copy_(flat[offset:offset + gradient.numel()].view_as(gradient))
        offset += gradient.numel()
    return flat[offset:].tolist()
