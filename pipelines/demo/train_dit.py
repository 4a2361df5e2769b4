"""Trains text encoder and transformer together on cached latents.

Rectified flow: x_t = (1 - t) * latent + t * noise, and the network predicts
noise - latent. Resumes from the checkpoint if there is one.
"""

import argparse
import pathlib
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

import captions
import model
import shapes
import tokenizer
import training
import vae

_BATCH = 32
_PEAK_RATE = 1.5e-3
_DROP_PROMPT = 0.1
_EMA_DECAY = 0.998
_SAVE_EVERY = 100


class TextToVelocity(nn.Module):
    """What is trained: token ids to a velocity."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.text_encoder = model.TextEncoder(vocabulary)
        self.transformer = model.Transformer()

    def forward(self, noisy: torch.Tensor, t: torch.Tensor,
                input_ids: torch.Tensor) -> torch.Tensor:
        text = self.text_encoder(input_ids)
        return self.transformer(noisy, t, text["text"], text["pooled"])


def _latents(autoencoder: vae.Vae, pictures: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([autoencoder.normalised_latents(
            part.float() / 127.5 - 1.0) for part in pictures.split(256)])


def _dataset(rank: int, args: argparse.Namespace, words: tokenizer.Tokenizer
             ) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the latents of a worker's training pictures and their token ids."""
    autoencoder = vae.Vae()
    autoencoder.load_state_dict(
        training.load_checkpoint(args.work / "vae.pt")["model"])
    seed = args.seed + 1000 + rank
    pictures, scenes = shapes.make_dataset(args.pictures // args.workers, seed)
    rng = random.Random(seed)
    ids = words.encode([captions.random_caption(rng, s) for s in scenes])
    return _latents(autoencoder, pictures), ids


def _update_average(average: dict[str, torch.Tensor], network: nn.Module,
                    step: int) -> None:
    weight = 1.0 - min(_EMA_DECAY, (1.0 + step) / (10.0 + step))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            average[name].lerp_(parameter, weight)


def _train(rank: int, args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    words = tokenizer.Tokenizer(args.tokenizer)
    network = TextToVelocity(words.vocabulary)
    optimizer = torch.optim.AdamW(network.parameters(), _PEAK_RATE,
                                  betas=(0.9, 0.99), weight_decay=0.01)
    average = {n: p.detach().clone() for n, p in network.named_parameters()}
    path = args.work / "dit.pt"
    step, minutes = 0, 0.0
    if (saved := training.load_checkpoint(path)) is not None:
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        average = saved["average"]
        step, minutes = saved["step"], saved["minutes"]

    latents, ids = _dataset(rank, args, words)
    no_prompt = words.encode([""])
    schedule = training.Schedule(_PEAK_RATE, args.steps, args.max_minutes, 100,
                                 minutes)
    generator = torch.Generator().manual_seed(
        (args.seed * 1000 + rank) * 1000003 + step)
    batch = _BATCH // args.workers

    def save() -> None:
        if rank == 0:
            training.save_checkpoint(path, {
                "model": network.state_dict(), "average": average,
                "optimizer": optimizer.state_dict(), "step": step,
                "minutes": schedule.minutes()})

    began = time.monotonic()
    running = 0.0
    progress = step / args.steps
    while progress < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step, progress)
        index = torch.randint(len(latents), (batch,), generator=generator)
        latent = latents[index]
        dropped = torch.rand(batch, 1, generator=generator) < _DROP_PROMPT
        input_ids = torch.where(dropped, no_prompt, ids[index])
        t = torch.randn(batch, generator=generator).sigmoid()
        noise = torch.randn(latent.shape, generator=generator)
        noisy = torch.lerp(latent, noise, t[:, None, None, None])
        loss = F.mse_loss(network(noisy, t, input_ids), noise - latent)
        optimizer.zero_grad()
        loss.backward()
        step += 1
        # The workers agree on the progress, which their clocks would not.
        progress, mean_loss = training.average_gradients(
            network, [schedule.progress(step), loss.item()])
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        _update_average(average, network, step)
        running += mean_loss / _SAVE_EVERY
        if step % _SAVE_EVERY == 0:
            save()
            if rank == 0:
                print(f"step {step} loss {running:.4f} "
                      f"rate {schedule.rate(step, progress):.2e} "
                      f"{time.monotonic() - began:.0f} s", flush=True)
            running = 0.0
    save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, default="build/demo")
    parser.add_argument("--tokenizer", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent
                        / "package/tokenizer/spiece.model")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--max_minutes", type=float, default=0.0)
    parser.add_argument("--pictures", type=int, default=16000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    training.run_workers(_train, args.workers, args)


if __name__ == "__main__":
    main()
