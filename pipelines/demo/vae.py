"""The picture autoencoder: 8x8 pixels to one latent position of 8 channels."""

from typing import Tuple

import torch
from torch import nn

LATENT_CHANNELS = 8
DOWNSAMPLE = 8
WIDTHS = (32, 64, 96)


class Encoder(nn.Module):
    """Pictures in -1..1 to the mean and log variance of their latents."""

    def __init__(self, widths: Tuple[int, int, int] = WIDTHS) -> None:
        super().__init__()
        a, b, c = widths
        self.layers = nn.Sequential(
            nn.Conv2d(3, a, 3, 2, 1), nn.SiLU(),
            nn.Conv2d(a, b, 3, 2, 1), nn.SiLU(),
            nn.Conv2d(b, c, 3, 2, 1), nn.SiLU(),
            nn.Conv2d(c, c, 3, 1, 1), nn.SiLU(),
            nn.Conv2d(c, 2 * LATENT_CHANNELS, 1))

    def forward(self, pictures: torch.Tensor
                ) -> Tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.layers(pictures).chunk(2, 1)
        return mean, log_variance.clamp(-12.0, 4.0)


class Decoder(nn.Module):
    """Latents to pictures in -1..1 (not clamped)."""

    def __init__(self, widths: Tuple[int, int, int] = WIDTHS) -> None:
        super().__init__()
        a, b, c = widths
        self.layers = nn.Sequential(
            nn.Conv2d(LATENT_CHANNELS, c, 3, 1, 1), nn.SiLU(),
            nn.Conv2d(c, c, 3, 1, 1), nn.SiLU(),
            nn.Conv2d(c, 4 * b, 3, 1, 1), nn.PixelShuffle(2), nn.SiLU(),
            nn.Conv2d(b, 4 * a, 3, 1, 1), nn.PixelShuffle(2), nn.SiLU(),
            nn.Conv2d(a, 4 * 24, 3, 1, 1), nn.PixelShuffle(2), nn.SiLU(),
            nn.Conv2d(24, 3, 3, 1, 1))

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self.layers(latents)


class Vae(nn.Module):
    """Encoder, decoder and the latents' normalisation measured after training."""

    def __init__(self, widths: Tuple[int, int, int] = WIDTHS) -> None:
        super().__init__()
        self.encoder = Encoder(widths)
        self.decoder = Decoder(widths)
        self.register_buffer("latent_mean", torch.zeros(LATENT_CHANNELS))
        self.register_buffer("latent_std", torch.ones(LATENT_CHANNELS))

    def normalised_latents(self, pictures: torch.Tensor) -> torch.Tensor:
        """Mean latents of pictures in -1..1, brought to mean 0 and variance 1."""
        mean, _ = self.encoder(pictures)
        return ((mean - self.latent_mean[:, None, None])
                / self.latent_std[:, None, None])
