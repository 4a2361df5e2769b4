"""The text-to-image pipeline: text encoder, diffusion transformer, root.

Every module here is written so that torch.jit.script takes it as it is.
"""

import dataclasses
import math
from typing import Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import nn

import vae

TEXT_LENGTH = 16
PAD_ID = 0
EOS_ID = 2


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How large the networks are; as they stand, those of the demo."""

    width: int = 128
    heads: int = 4
    text_blocks: int = 2
    dit_blocks: int = 8


SIZES = Sizes()


def _frequencies(count: int, longest: float) -> torch.Tensor:
    """Returns `count` angular frequencies from 1 down to almost 1/longest."""
    exponent = torch.arange(count, dtype=torch.float32) / count
    return torch.exp(-math.log(longest) * exponent)


class Mlp(nn.Module):
    """Two linear layers, twice as wide in between."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Attention(nn.Module):
    """Multi-head self-attention. `mask` is true where a key may be seen."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor]
                ) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads,
                               width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2],
                                           attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class TextBlock(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(sizes.width)
        self.attention = Attention(sizes)
        self.norm2 = nn.LayerNorm(sizes.width)
        self.mlp = Mlp(sizes.width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class TextEncoder(nn.Module):
    """Token ids [batch, length] to vectors, zero where the prompt is padded."""

    def __init__(self, vocabulary: int, sizes: Sizes = SIZES) -> None:
        super().__init__()
        width = sizes.width
        self.pad_id = PAD_ID
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(TEXT_LENGTH, width))
        self.blocks = nn.ModuleList(
            TextBlock(sizes) for _ in range(sizes.text_blocks))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.token.weight, std=0.5)

    def forward(self, input_ids: torch.Tensor) -> Dict[str, torch.Tensor]:
        keep = input_ids != self.pad_id
        mask = keep[:, None, None, :]
        x = self.token(input_ids) + self.position[:input_ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        keep = keep[:, :, None].to(x.dtype)
        text = self.norm(x) * keep
        pooled = text.sum(1) / keep.sum(1).clamp(min=1.0)
        return {"text": text, "pooled": pooled}


class DitBlock(nn.Module):
    """A transformer block modulated by time and prompt (adaLN).

    Each block adds the picture tokens' two-dimensional sine positions to what
    its attention sees, scaled per channel by a gain of its own.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = Attention(sizes)
        self.mlp = Mlp(width)
        self.modulation = nn.Parameter(0.02 * torch.randn(6, width))
        self.position_gain = nn.Parameter(torch.full((width,), 0.5))
        self.register_buffer("frequencies", _frequencies(width // 4, 100.0),
                             persistent=False)

    def _positions(self, height: int, width: int) -> torch.Tensor:
        device = self.frequencies.device
        y = torch.arange(height, dtype=torch.float32, device=device)
        x = torch.arange(width, dtype=torch.float32, device=device)
        y = (y[:, None] * self.frequencies)[:, None, :].expand(-1, width, -1)
        x = (x[:, None] * self.frequencies)[None, :, :].expand(height, -1, -1)
        return torch.cat([y.sin(), y.cos(), x.sin(), x.cos()], 2).flatten(0, 1)

    def forward(self, x: torch.Tensor, modulation: torch.Tensor, height: int,
                width: int) -> torch.Tensor:
        m = (modulation + self.modulation)[:, :, None]
        positions = self._positions(height, width).to(x.dtype)
        positions = positions * self.position_gain
        positions = F.pad(positions, (0, 0, 0, x.shape[1] - height * width))
        y = self.norm(x) * (1.0 + m[:, 1]) + m[:, 0] + positions
        x = x + m[:, 2] * self.attention(y, None)
        y = self.norm(x) * (1.0 + m[:, 4]) + m[:, 3]
        return x + m[:, 5] * self.mlp(y)


class Transformer(nn.Module):
    """Predicts the flow's velocity. `time` is 1 for noise, 0 for a picture."""

    def __init__(self, sizes: Sizes = SIZES) -> None:
        super().__init__()
        width = sizes.width
        self.latent_in = nn.Linear(vae.LATENT_CHANNELS, width)
        self.text_in = nn.Linear(width, width)
        self.time_in = nn.Sequential(nn.Linear(width, width), nn.SiLU(),
                                     nn.Linear(width, width))
        self.pooled_in = nn.Linear(width, width)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.blocks = nn.ModuleList(
            DitBlock(sizes) for _ in range(sizes.dit_blocks))
        self.norm_out = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation_out = nn.Sequential(nn.SiLU(),
                                            nn.Linear(width, 2 * width))
        self.latent_out = nn.Linear(width, vae.LATENT_CHANNELS)
        self.register_buffer("frequencies", _frequencies(width // 2, 10000.0),
                             persistent=False)
        nn.init.zeros_(self.latent_out.weight)
        nn.init.zeros_(self.latent_out.bias)

    def forward(self, latents: torch.Tensor, time: torch.Tensor,
                text: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        height, width = latents.shape[2], latents.shape[3]
        angle = 1000.0 * time[:, None] * self.frequencies
        waves = torch.cat([angle.cos(), angle.sin()], 1).to(latents.dtype)
        condition = self.time_in(waves) + self.pooled_in(pooled)
        modulation = self.modulation(condition).unflatten(1, [6, -1])
        picture = self.latent_in(latents.flatten(2).transpose(1, 2))
        x = torch.cat([picture, self.text_in(text)], 1)
        for block in self.blocks:
            x = block(x, modulation, height, width)
        shift, scale = self.modulation_out(condition)[:, None].chunk(2, 2)
        x = self.norm_out(x[:, :height * width]) * (1.0 + scale) + shift
        return self.latent_out(x).transpose(1, 2).reshape(latents.shape)


class PictureDecoder(nn.Module):
    """Normalised latents to pictures in 0..1."""

    def __init__(self, trained: vae.Vae) -> None:
        super().__init__()
        self.decoder = trained.decoder
        self.register_buffer("latent_mean", trained.latent_mean.clone())
        self.register_buffer("latent_std", trained.latent_std.clone())

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        latents = (latents * self.latent_std[:, None, None]
                   + self.latent_mean[:, None, None]).to(latents.dtype)
        return (self.decoder(latents) * 0.5 + 0.5).clamp(0.0, 1.0)


class OffloadPlan(nn.Module):
    """The blocks that may be streamed, and the DiT of which some may stay."""

    block_attrs: Dict[str, List[str]]
    encoder_block_attrs: Dict[str, List[str]]
    resident_dit_paths: List[str]

    def __init__(self) -> None:
        super().__init__()
        self.block_attrs = {"transformer": ["blocks"]}
        self.encoder_block_attrs = {"text_encoder": ["blocks"]}
        self.resident_dit_paths = ["transformer"]


class Pipeline(nn.Module):
    """The root that the package holds: components, roles and stages."""

    _dit_modules: List[str]
    _encoder_modules: List[str]
    _vae_modules: List[str]
    _resident_modules: List[str]

    def __init__(self, text_encoder: TextEncoder, transformer: Transformer,
                 trained_vae: vae.Vae) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.transformer = transformer
        self.vae = PictureDecoder(trained_vae)
        self._offload_plan = OffloadPlan()
        self._dit_modules = ["transformer"]
        self._encoder_modules = ["text_encoder"]
        self._vae_modules = ["vae"]
        self._resident_modules = []

    @torch.jit.export
    def encode_prompt(self, input_ids: torch.Tensor
                      ) -> Dict[str, torch.Tensor]:
        return self.text_encoder(input_ids)

    @torch.jit.export
    def denoise(self, latents: torch.Tensor, timestep: torch.Tensor,
                conditioning: Dict[str, torch.Tensor]) -> torch.Tensor:
        return self.transformer(latents, timestep / 1000.0,
                                conditioning["text"], conditioning["pooled"])

    @torch.jit.export
    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        return self.vae(latents)

    @torch.jit.export
    def latent_shape(self, batch: int, height: int, width: int,
                     frames: int) -> List[int]:
        return [batch, 8, height // 8, width // 8]
