"""Trains the autoencoder. Resumes from the checkpoint if there is one."""

import argparse
import pathlib
import time

import torch
import torch.nn.functional as F

import shapes
import training
import vae

_BATCH = 32
_KL_WEIGHT = 2e-4
_SHAPE_WEIGHT = 4.0
_SAVE_EVERY = 100


def _pixel_weights(pictures: torch.Tensor) -> torch.Tensor:
    """Weighs pixels in and near the shape more: most of a picture is plain.

    Shapes stay inside the picture, so the corner shows the background.
    """
    shape = (pictures - pictures[:, :, :1, :1]).abs().amax(1, True) > 0.05
    near = F.max_pool2d(shape.float(), 5, stride=1, padding=2)
    return 1.0 + _SHAPE_WEIGHT * near


def _measure_latents(model: vae.Vae, pictures: torch.Tensor) -> None:
    """Stores each channel's mean and deviation over pictures in the model."""
    with torch.no_grad():
        mean, _ = model.encoder(pictures)
        model.latent_mean.copy_(mean.mean((0, 2, 3)))
        model.latent_std.copy_(mean.std((0, 2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, default="build/demo")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--max_minutes", type=float, default=0.0)
    parser.add_argument("--pictures", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    pictures, _ = shapes.make_dataset(args.pictures, args.seed)
    model = vae.Vae()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, betas=(0.9, 0.99))
    path = args.work / "vae.pt"
    step, minutes = 0, 0.0
    if (saved := training.load_checkpoint(path)) is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, minutes = saved["step"], saved["minutes"]
    schedule = training.Schedule(2e-3, args.steps, args.max_minutes, 100,
                                 minutes)

    def save() -> None:
        _measure_latents(model, pictures[:1024].float() / 127.5 - 1.0)
        training.save_checkpoint(path, {
            "model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "step": step, "minutes": schedule.minutes()})

    generator = torch.Generator().manual_seed(args.seed * 1000003 + step)
    began = time.monotonic()
    while schedule.progress(step) < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step, schedule.progress(step))
        index = torch.randint(len(pictures), (_BATCH,), generator=generator)
        target = pictures[index].float() / 127.5 - 1.0
        mean, log_variance = model.encoder(target)
        noise = torch.randn(mean.shape, generator=generator)
        output = model.decoder(mean + noise * (0.5 * log_variance).exp())
        error = output - target
        reconstruction = (_pixel_weights(target)
                          * (error**2 + 0.3 * error.abs())).mean()
        kl = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1.0).mean()
        loss = reconstruction + _KL_WEIGHT * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % _SAVE_EVERY == 0:
            save()
            print(f"step {step} reconstruction {reconstruction.item():.4f} "
                  f"kl {kl.item():.2f} {time.monotonic() - began:.0f} s",
                  flush=True)
    save()


if __name__ == "__main__":
    main()
