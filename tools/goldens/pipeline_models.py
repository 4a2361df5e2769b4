"""Published models whose pipelines' schedules are recorded as goldens."""

from scheduler_cases import DPM, EULER, FLOW, UNIPC

FLUX_SHIFT = {
    "base_image_seq_len": 256, "base_shift": 0.5, "max_image_seq_len": 4096,
    "max_shift": 1.15, "num_train_timesteps": 1000,
    "use_dynamic_shifting": True}
COGVIEW_SHIFT = {
    "base_image_seq_len": 256, "base_shift": 0.25, "max_image_seq_len": 4096,
    "max_shift": 0.75, "num_train_timesteps": 1000, "shift": 1.0,
    "shift_terminal": None, "time_shift_type": "linear",
    "use_dynamic_shifting": True}
LINEAR_BETAS = {
    "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear",
    "num_train_timesteps": 1000, "trained_betas": None}
SDXL_BETAS = {
    "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000, "clip_sample": False,
    "interpolation_type": "linear", "prediction_type": "epsilon",
    "sample_max_value": 1.0, "set_alpha_to_one": False,
    "skip_prk_steps": True, "steps_offset": 1, "timestep_spacing": "leading",
    "trained_betas": None, "use_karras_sigmas": False}
WAN = {
    **LINEAR_BETAS, "disable_corrector": [],
    "dynamic_thresholding_ratio": 0.995, "final_sigmas_type": "zero",
    "lower_order_final": True, "predict_x0": True,
    "prediction_type": "flow_prediction", "rescale_betas_zero_snr": False,
    "sample_max_value": 1.0, "solver_order": 2, "solver_p": None,
    "solver_type": "bh2", "steps_offset": 0, "thresholding": False,
    "timestep_spacing": "linspace", "use_beta_sigmas": False,
    "use_exponential_sigmas": False, "use_flow_sigmas": True,
    "use_karras_sigmas": False}
PIXART = {
    **LINEAR_BETAS, "algorithm_type": "dpmsolver++",
    "dynamic_thresholding_ratio": 0.995, "euler_at_final": False,
    "lambda_min_clipped": float("-inf"), "lower_order_final": True,
    "prediction_type": "epsilon", "sample_max_value": 1.0, "solver_order": 2,
    "solver_type": "midpoint", "steps_offset": 0, "thresholding": False,
    "timestep_spacing": "linspace", "use_karras_sigmas": False,
    "use_lu_lambdas": False, "variance_type": None}

# What the scheduler_config.json of each model says (its repository on
# huggingface.co is named), the pipeline class of its model_index.json, what
# its schedule reads of the networks' configurations, arguments of a call, the
# latent pixels along an edge of one image token, and what a manifest says.
MODELS = {
    "FLUX.1-dev": {
        "repository": "black-forest-labs/FLUX.1-dev",
        "pipeline": "FluxPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64, "guidance_embeds": True},
        "vae_scale": 8, "patch": 2, "grid": "PIPELINE", "mu": "LINEAR"},
    "FLUX.1-schnell": {
        "repository": "black-forest-labs/FLUX.1-schnell",
        "pipeline": "FluxPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 1.0, "use_dynamic_shifting": False},
        "transformer": {"in_channels": 64, "guidance_embeds": False},
        "vae_scale": 8, "patch": 2, "grid": "PIPELINE"},
    "FLUX.2-dev": {
        "repository": "black-forest-labs/FLUX.2-dev",
        "pipeline": "Flux2Pipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0, "shift_terminal": None,
                   "time_shift_type": "exponential"},
        "transformer": {"in_channels": 128}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "EMPIRICAL"},
    "Stable Diffusion 3.5": {
        "repository": "stabilityai/stable-diffusion-3.5-large",
        "pipeline": "StableDiffusion3Pipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0},
        "transformer": {"in_channels": 16, "patch_size": 2,
                        "sample_size": 128},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Qwen-Image": {
        "repository": "Qwen/Qwen-Image",
        "pipeline": "QwenImagePipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "max_image_seq_len": 8192, "max_shift": 0.9,
                   "shift": 1.0, "shift_terminal": 0.02,
                   "time_shift_type": "exponential"},
        "transformer": {"in_channels": 64, "guidance_embeds": False},
        "vae_scale": 8, "patch": 2, "min_steps": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "Z-Image-Turbo": {
        "repository": "Tongyi-MAI/Z-Image-Turbo",
        "pipeline": "ZImagePipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 16}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE"},
    "CogView4-6B": {
        "repository": "THUDM/CogView4-6B",
        "pipeline": "CogView4Pipeline", "scheduler": FLOW,
        "config": COGVIEW_SHIFT,
        "transformer": {"in_channels": 16, "patch_size": 2},
        "vae_scale": 8, "patch": 2, "grid": "WHOLE_TIMESTEPS",
        "mu": "SQUARE_ROOT"},
    "Mochi 1": {
        "repository": "genmo/mochi-1-preview",
        "pipeline": "MochiPipeline", "scheduler": FLOW,
        "config": {"base_image_seq_len": 256, "base_shift": 0.5,
                   "invert_sigmas": True, "max_image_seq_len": 4096,
                   "max_shift": 1.15, "num_train_timesteps": 1000,
                   "shift": 1.0, "use_dynamic_shifting": False},
        "transformer": {"in_channels": 12}, "vae_scale": 8, "patch": 2,
        "min_steps": 2, "grid": "LINEAR_QUADRATIC"},
    "Lumina-Image-2.0": {
        "repository": "Alpha-VLLM/Lumina-Image-2.0",
        "pipeline": "Lumina2Pipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 6.0, "use_dynamic_shifting": False,
                   "shift_terminal": None},
        "transformer": {"in_channels": 16, "sample_size": 128},
        "vae_scale": 8, "patch": 2, "grid": "PIPELINE"},
    "HunyuanVideo 1.5": {
        "repository":
            "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v",
        "pipeline": "HunyuanVideo15Pipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 5.0,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 65, "patch_size": 1,
                        "image_embed_dim": 1152, "target_size": 640},
        "vae_scale": 16, "patch": 1, "grid": "PIPELINE"},
    "Wan 2.2 A14B": {
        "repository": "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
        "pipeline": "WanPipeline", "scheduler": UNIPC,
        "config": {**WAN, "flow_shift": 3.0},
        "transformer": {"in_channels": 16, "patch_size": (1, 2, 2)},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Wan 2.2 TI2V-5B": {
        "repository": "Wan-AI/Wan2.2-TI2V-5B-Diffusers",
        "pipeline": "WanPipeline", "scheduler": UNIPC,
        "config": {**WAN, "flow_shift": 5.0, "time_shift_type": "exponential",
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 48, "patch_size": (1, 2, 2)},
        "vae_scale": 16, "patch": 2, "grid": "SCHEDULER"},
    "LTX-Video": {
        "repository": "Lightricks/LTX-Video",
        "pipeline": "LTXPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "base_image_seq_len": 1024,
                   "base_shift": 0.95, "max_shift": 2.05, "shift": 1.0,
                   "invert_sigmas": False, "shift_terminal": 0.1},
        "transformer": {"in_channels": 128}, "vae_scale": 32, "patch": 1,
        "min_steps": 2, "grid": "PIPELINE", "mu": "LINEAR"},
    "LTX-Video 0.9.7": {
        "repository": "Lightricks/LTX-Video-0.9.7-dev",
        "pipeline": "LTXConditionPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "base_image_seq_len": 1024,
                   "base_shift": 0.95, "max_shift": 2.05, "shift": 1.0,
                   "invert_sigmas": False, "shift_terminal": None,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 128}, "vae_scale": 32, "patch": 1,
        "grid": "LINEAR_QUADRATIC_TIMESTEPS"},
    "OmniGen": {
        "repository": "Shitao/OmniGen-v1-diffusers",
        "pipeline": "OmniGenPipeline", "scheduler": FLOW,
        "config": {"base_image_seq_len": 256, "base_shift": 0.5,
                   "invert_sigmas": True, "max_image_seq_len": 4096,
                   "max_shift": 1.15, "num_train_timesteps": 1,
                   "shift": 1.0, "shift_terminal": None,
                   "use_dynamic_shifting": False},
        "transformer": {"in_channels": 4}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE"},
    "PixArt-Sigma": {
        "repository": "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
        "pipeline": "PixArtSigmaPipeline", "scheduler": DPM, "config": PIXART,
        "transformer": {"in_channels": 4, "sample_size": 128},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "SDXL": {
        "repository": "stabilityai/stable-diffusion-xl-base-1.0",
        "pipeline": "StableDiffusionXLPipeline", "scheduler": EULER,
        "config": SDXL_BETAS,
        "transformer": {"in_channels": 4, "sample_size": 128,
                        "time_cond_proj_dim": None},
        "vae_scale": 8, "patch": 1, "grid": "SCHEDULER"},
    "AuraFlow": {
        "repository": "fal/AuraFlow-v0.3",
        "pipeline": "AuraFlowPipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 1.73},
        "transformer": {"in_channels": 4, "sample_size": 64},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Sana": {
        "repository": "Efficient-Large-Model/Sana_1600M_1024px_diffusers",
        "pipeline": "SanaPipeline", "scheduler": DPM,
        "config": {**PIXART, "flow_shift": 3.0, "use_flow_sigmas": True,
                   "prediction_type": "flow_prediction"},
        "transformer": {"in_channels": 32, "sample_size": 32},
        "vae_scale": 32, "patch": 1, "grid": "SCHEDULER"},
    "SkyReels V2": {
        "repository": "Skywork/SkyReels-V2-T2V-14B-720P-Diffusers",
        "pipeline": "SkyReelsV2Pipeline", "scheduler": UNIPC,
        "config": {**WAN, "flow_shift": 8.0},
        "transformer": {"in_channels": 16, "patch_size": (1, 2, 2)},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "Chroma1-HD": {
        "repository": "lodestones/Chroma1-HD",
        "pipeline": "ChromaPipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "HunyuanImage-2.1": {
        "repository": "hunyuanvideo-community/HunyuanImage-2.1-Diffusers",
        "pipeline": "HunyuanImagePipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 5.0},
        "transformer": {"in_channels": 64, "guidance_embeds": False,
                        "use_meanflow": False},
        "vae_scale": 32, "patch": 1, "grid": "PIPELINE"},
    "Kolors": {
        "repository": "Kwai-Kolors/Kolors-diffusers",
        "pipeline": "KolorsPipeline", "scheduler": EULER,
        "config": {**SDXL_BETAS, "beta_end": 0.014,
                   "num_train_timesteps": 1100},
        "transformer": {"in_channels": 4, "sample_size": 128,
                        "time_cond_proj_dim": None},
        "vae_scale": 8, "patch": 1, "grid": "SCHEDULER"},
    "GLM-Image": {
        "repository": "zai-org/GLM-Image",
        "pipeline": "GlmImagePipeline", "scheduler": FLOW,
        "config": COGVIEW_SHIFT,
        "transformer": {"in_channels": 16, "patch_size": 2},
        "vae_scale": 8, "patch": 2, "grid": "WHOLE_TIMESTEPS_BEFORE_ONE",
        "mu": "SQUARE_ROOT"},
    "Ovis-Image": {
        "repository": "AIDC-AI/Ovis-Image-7B",
        "pipeline": "OvisImagePipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "LongCat-Image": {
        "repository": "meituan-longcat/LongCat-Image",
        "pipeline": "LongCatImagePipeline", "scheduler": FLOW,
        "config": {**FLUX_SHIFT, "shift": 3.0},
        "transformer": {"in_channels": 64}, "vae_scale": 8, "patch": 2,
        "grid": "PIPELINE", "mu": "LINEAR"},
    "Kandinsky 5 T2I": {
        "repository": "kandinskylab/Kandinsky-5.0-T2I-Lite-sft-Diffusers",
        "pipeline": "Kandinsky5T2IPipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0},
        "transformer": {"in_visual_dim": 16, "visual_cond": False},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER"},
    "ERNIE-Image": {
        "repository": "baidu/ERNIE-Image",
        "pipeline": "ErnieImagePipeline", "scheduler": FLOW,
        "config": {"num_train_timesteps": 1000, "shift": 3.0},
        "transformer": {"in_channels": 128}, "vae_scale": 16, "patch": 1,
        "grid": "PIPELINE"},
    # A solver that a user of FLUX.1 puts in place of its scheduler.
    "FLUX.1-dev with UniPC": {
        "repository": "black-forest-labs/FLUX.1-dev",
        "pipeline": "FluxPipeline", "scheduler": UNIPC,
        "config": {**FLUX_SHIFT, "prediction_type": "flow_prediction",
                   "use_flow_sigmas": True},
        "transformer": {"in_channels": 64, "guidance_embeds": True},
        "vae_scale": 8, "patch": 2, "grid": "SCHEDULER", "mu": "LINEAR"},
}
