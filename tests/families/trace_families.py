"""Traces small models of diffusers' families, as testdata of families_test.

  "$(tools/venv tests/families)/bin/python" tests/families/trace_families.py
      [FAMILY...]

Each testdata/FAMILY.pt is a pipeline's root module with the family's own
transformer or UNet, text encoders and VAE: real classes of diffusers and
transformers, a few small blocks. It holds structure only (parameters are one
element, expanded), since the test looks at graphs and runs nothing; so the
root's methods hand over tensors without preparing them as a pipeline does.
"""

import importlib.util
import pathlib
import sys
import tempfile
import zipfile

import diffusers
import torch
import transformers
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
# Tokens of a prompt, and the width of what encoders return.
TOKENS, WIDTH = 16, 32

ROOT = '''
import torch
from torch import nn
from typing import Dict, List


class OffloadPlan(nn.Module):
    block_attrs: Dict[str, List[str]]
    encoder_block_attrs: Dict[str, List[str]]

    def __init__(self, dit, encoders):
        super().__init__()
        self.block_attrs = dit
        self.encoder_block_attrs = encoders


class Root(nn.Module):
    _dit_modules: List[str]
    _encoder_modules: List[str]
    _vae_modules: List[str]

    def __init__(self, plan, dit, encoders, vae):
        super().__init__()
        self._dit_modules = ["DIT"]
        self._encoder_modules = list(encoders)
        self._vae_modules = ["vae"]
        self._offload_plan = plan
        self.DIT = dit
        self.vae = vae
        for name, encoder in encoders.items():
            setattr(self, name, encoder)

    @torch.jit.export
    def encode_prompt(self, ids: torch.Tensor) -> Dict[str, torch.Tensor]:
        return ENCODED

    @torch.jit.export
    def denoise(self, latents: torch.Tensor, timestep: torch.Tensor,
                conditioning: Dict[str, torch.Tensor]) -> torch.Tensor:
        return self.DIT(latents, timestep, ARGUMENTS)

    @torch.jit.export
    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        return self.vae(latents)

    @torch.jit.export
    def latent_shape(self, batch: int, height: int, width: int,
                     frames: int) -> List[int]:
        return [batch, 4, height // 8, width // 8]
'''


def trace(model, forward, *inputs):
    """The model, traced under its own class, so that its paths stay."""
    base = type(model)
    model.eval().requires_grad_(False)
    model.__class__ = type(base.__name__ + "Traced", (base,),
                           {"forward": forward, "__module__": base.__module__})
    masked_fill = torch.Tensor.masked_fill
    # The tracer writes a bool as the value, for which there is no operator.
    torch.Tensor.masked_fill = lambda self, mask, value: masked_fill(
        self, mask, int(value) if isinstance(value, bool) else value)
    try:
        with torch.no_grad():
            return torch.jit.trace(model, inputs, check_trace=False,
                                   strict=False)
    finally:
        torch.Tensor.masked_fill = masked_fill


def ids():
    return torch.randint(4, 100, (2, TOKENS))


def clip(cls=transformers.CLIPTextModel):
    model = cls(transformers.CLIPTextConfig(
        vocab_size=128, hidden_size=WIDTH, intermediate_size=2 * WIDTH,
        num_hidden_layers=3, num_attention_heads=4, projection_dim=WIDTH,
        max_position_embeddings=2 * TOKENS, bos_token_id=3, eos_token_id=1))
    return trace(model, lambda self, x: cls.forward(self, x)[0], ids())


def t5(cls=transformers.T5EncoderModel, config=transformers.T5Config):
    model = cls(config(vocab_size=128, d_model=WIDTH, d_kv=8, d_ff=2 * WIDTH,
                       num_layers=3, num_heads=4,
                       feed_forward_proj="gated-gelu"))
    return trace(model, lambda self, x: cls.forward(
        self, x, attention_mask=torch.ones_like(x))[0], ids())


def qwen2_5_vl():
    text = dict(vocab_size=128, hidden_size=WIDTH, intermediate_size=2 * WIDTH,
                num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=64,
                rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                 "mrope_section": [1, 1, 2]})
    cls = transformers.Qwen2_5_VLForConditionalGeneration
    model = cls(transformers.Qwen2_5_VLConfig(
        text_config=text, vision_config=dict(
            depth=1, hidden_size=WIDTH, intermediate_size=WIDTH, num_heads=4,
            out_hidden_size=WIDTH, fullatt_block_indexes=[0])))
    return trace(model, lambda self, x: self.model(
        input_ids=x, attention_mask=torch.ones_like(x), use_cache=False)[0],
        ids())


def image_vae(channels):
    cls = diffusers.AutoencoderKL
    model = cls(down_block_types=("DownEncoderBlock2D",) * 2,
                up_block_types=("UpDecoderBlock2D",) * 2,
                block_out_channels=(8, 16), latent_channels=channels,
                norm_num_groups=4, layers_per_block=1)
    del model.encoder, model.quant_conv
    return trace(model, lambda self, z: cls._decode(
        self, z, return_dict=False)[0], torch.randn(1, channels, 16, 12))


def video_vae(cls):
    model = cls(base_dim=8, z_dim=4, dim_mult=[1, 2, 2, 2], num_res_blocks=1,
                temperal_downsample=[False, True, True],
                latents_mean=[0.0] * 4, latents_std=[1.0] * 4)
    return trace(model, lambda self, z: cls._decode(
        self, z, return_dict=False)[0], torch.randn(1, 4, 1, 16, 12))


def pixart():
    cls = diffusers.PixArtTransformer2DModel
    model = cls(num_attention_heads=2, attention_head_dim=16, in_channels=4,
                out_channels=8, num_layers=3, cross_attention_dim=WIDTH,
                sample_size=16, patch_size=2, caption_channels=WIDTH,
                use_additional_conditions=False)
    dit = trace(model, lambda self, x, t, text, mask: cls.forward(
        self, x, encoder_hidden_states=text, timestep=t,
        encoder_attention_mask=mask, return_dict=False,
        added_cond_kwargs={"resolution": None, "aspect_ratio": None})[0],
        torch.randn(2, 4, 16, 12), torch.full((2,), 500.0),
        torch.randn(2, TOKENS, WIDTH), torch.ones(2, TOKENS))
    return dict(transformer=(dit, 2, ["transformer_blocks"]),
                text_encoder=(t5(), ["encoder.block"]), vae=image_vae(4))


def sd3():
    cls = diffusers.SD3Transformer2DModel
    model = cls(sample_size=32, patch_size=2, in_channels=16, num_layers=3,
                attention_head_dim=8, num_attention_heads=4,
                joint_attention_dim=WIDTH, caption_projection_dim=32,
                pooled_projection_dim=WIDTH, out_channels=16,
                pos_embed_max_size=24, dual_attention_layers=(0,),
                qk_norm="rms_norm")
    dit = trace(model, lambda self, x, t, text, pooled: cls.forward(
        self, x, encoder_hidden_states=text, pooled_projections=pooled,
        timestep=t, return_dict=False)[0],
        torch.randn(2, 16, 16, 12), torch.full((2,), 500.0),
        torch.randn(2, TOKENS, WIDTH), torch.randn(2, WIDTH))
    layers = ["encoder.layers"]
    return dict(
        transformer=(dit, 2, ["transformer_blocks"]),
        text_encoder=(clip(), layers),
        text_encoder_2=(clip(transformers.CLIPTextModelWithProjection),
                        ["text_model." + layers[0]]),
        text_encoder_3=(t5(), ["encoder.block"]), vae=image_vae(16))


def flux():
    cls = diffusers.FluxTransformer2DModel
    model = cls(patch_size=1, in_channels=64, num_layers=3,
                num_single_layers=3, attention_head_dim=16,
                num_attention_heads=2, joint_attention_dim=WIDTH,
                pooled_projection_dim=WIDTH, guidance_embeds=True,
                axes_dims_rope=(4, 4, 8))
    dit = trace(model, lambda self, x, t, text, pooled, image_ids, text_ids,
                guidance: cls.forward(
                    self, x, encoder_hidden_states=text,
                    pooled_projections=pooled, timestep=t, img_ids=image_ids,
                    txt_ids=text_ids, guidance=guidance, return_dict=False)[0],
                torch.randn(1, 12, 64), torch.full((1,), 0.5),
                torch.randn(1, TOKENS, WIDTH), torch.randn(1, WIDTH),
                torch.zeros(12, 3), torch.zeros(TOKENS, 3),
                torch.full((1,), 3.5))
    return dict(transformer=(dit, 5, ["transformer_blocks",
                                      "single_transformer_blocks"]),
                text_encoder=(clip(), ["encoder.layers"]),
                text_encoder_2=(t5(), ["encoder.block"]), vae=image_vae(16))


def sdxl():
    cls = diffusers.UNet2DConditionModel
    model = cls(block_out_channels=(32, 64), layers_per_block=1,
                sample_size=32, in_channels=4, out_channels=4,
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                attention_head_dim=(2, 4), use_linear_projection=True,
                addition_embed_type="text_time", addition_time_embed_dim=8,
                transformer_layers_per_block=(1, 2),
                projection_class_embeddings_input_dim=WIDTH + 48,
                cross_attention_dim=WIDTH)
    unet = trace(model, lambda self, x, t, text, pooled, time_ids: cls.forward(
        self, x, t, text, return_dict=False,
        added_cond_kwargs={"text_embeds": pooled, "time_ids": time_ids})[0],
        torch.randn(2, 4, 16, 12), torch.full((2,), 500.0),
        torch.randn(2, TOKENS, WIDTH), torch.randn(2, WIDTH),
        torch.randn(2, 6))
    return dict(
        unet=(unet, 3, ["down_blocks", "mid_block", "up_blocks"]),
        text_encoder=(clip(), ["encoder.layers"]),
        text_encoder_2=(clip(transformers.CLIPTextModelWithProjection),
                        ["text_model.encoder.layers"]), vae=image_vae(4))


def qwen_image():
    cls = diffusers.QwenImageTransformer2DModel
    model = cls(patch_size=2, in_channels=16, out_channels=4, num_layers=3,
                attention_head_dim=16, num_attention_heads=2,
                joint_attention_dim=WIDTH, axes_dims_rope=(4, 4, 8))
    # Its tables of 4096 positions would be most of the file.
    rope = model.pos_embed
    for name in ("pos_freqs", "neg_freqs"):
        setattr(rope, name, getattr(rope, name)[:64].clone())
    rope.neg_freqs = rope.neg_freqs.conj().resolve_conj()
    dit = trace(model, lambda self, x, t, text, mask: cls.forward(
        self, hidden_states=x, encoder_hidden_states=text, timestep=t,
        encoder_hidden_states_mask=mask, img_shapes=[[(1, 8, 6)]] * 2,
        return_dict=False)[0],
        torch.randn(2, 48, 16), torch.full((2,), 0.5),
        torch.randn(2, TOKENS, WIDTH),
        torch.ones(2, TOKENS, dtype=torch.long))
    return dict(transformer=(dit, 2, ["transformer_blocks"]),
                text_encoder=(qwen2_5_vl(), ["model.language_model.layers"]),
                vae=video_vae(diffusers.AutoencoderKLQwenImage))


def wan():
    cls = diffusers.WanTransformer3DModel
    model = cls(patch_size=(1, 2, 2), num_attention_heads=2,
                attention_head_dim=16, in_channels=4, out_channels=4,
                text_dim=WIDTH, freq_dim=64, ffn_dim=64, num_layers=3,
                cross_attn_norm=True, rope_max_seq_len=64)
    dit = trace(model, lambda self, x, t, text: cls.forward(
        self, x, timestep=t, encoder_hidden_states=text,
        return_dict=False)[0],
        torch.randn(2, 4, 1, 16, 12), torch.full((2,), 500.0),
        torch.randn(2, TOKENS, WIDTH))
    return dict(
        transformer=(dit, 1, ["blocks"]),
        text_encoder=(t5(transformers.UMT5EncoderModel,
                         transformers.UMT5Config), ["encoder.block"]),
        vae=video_vae(diffusers.AutoencoderKLWan))


FAMILIES = [pixart, sd3, flux, sdxl, qwen_image, wan]


def make_root(folder, parts):
    dit = next(iter(parts))
    model, extra_inputs, stacks = parts[dit]
    encoders = {name: part for name, part in parts.items()
                if name not in (dit, "vae")}
    # In a file, since torch.jit.script reads the source.
    path = pathlib.Path(folder) / "root.py"
    path.write_text(ROOT.replace("DIT", dit).replace(
        "ENCODED", "{" + ", ".join(
            f'"{name}": self.{name}(ids)' for name in encoders) + "}").replace(
        "ARGUMENTS", ", ".join(
            f'conditioning["{i}"]' for i in range(extra_inputs))))
    spec = importlib.util.spec_from_file_location("root", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["root"] = module
    spec.loader.exec_module(module)
    plan = module.OffloadPlan(
        {dit: stacks}, {name: part[1] for name, part in encoders.items()})
    return torch.jit.script(module.Root(
        plan, model, {name: part[0] for name, part in encoders.items()},
        parts["vae"]).eval())


def save(root, target):
    """Without weights and without debug information, compressed."""
    for parameter in root.parameters():
        parameter.data = torch.zeros(
            1, dtype=parameter.dtype).expand(parameter.shape)
    with tempfile.NamedTemporaryFile(suffix=".pt") as whole:
        root.save(whole.name)
        with zipfile.ZipFile(whole.name) as source, \
                zipfile.ZipFile(target, "w") as result:
            for entry in source.infolist():
                if entry.filename.endswith(".debug_pkl"):
                    continue
                result.writestr(
                    zipfile.ZipInfo(entry.filename), source.read(entry),
                    compress_type=zipfile.ZIP_DEFLATED, compresslevel=9)


def main():
    torch.set_num_threads(1)
    for family in FAMILIES:
        name = family.__name__
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            save(make_root(folder, family()), HERE / "testdata" / f"{name}.pt")
        print(name)


if __name__ == "__main__":
    main()
