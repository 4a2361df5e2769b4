"""The schedulers, options and step counts whose steps become goldens."""

FLOW = "FlowMatchEulerDiscreteScheduler"
EULER = "EulerDiscreteScheduler"
ANCESTRAL = "EulerAncestralDiscreteScheduler"
DDIM = "DDIMScheduler"
COGVIDEOX = "CogVideoXDDIMScheduler"
DPM = "DPMSolverMultistepScheduler"
UNIPC = "UniPCMultistepScheduler"
# 16: from 15 on, DPMSolverMultistep keeps its order to the end.
FEW = [1, 2, 5, 16]
# Of more steps than 16 the levels alone are recorded.
STEPS = [1, 2, 5, 16, 50]

SDXL = {
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "timestep_spacing": "leading",
    "steps_offset": 1,
}

SD15 = {**SDXL, "clip_sample": False, "set_alpha_to_one": False}
ZERO_SNR = {
    "prediction_type": "v_prediction",
    "rescale_betas_zero_snr": True,
    "timestep_spacing": "trailing",
}
COGVIDEOX_2B = {
    **ZERO_SNR, "clip_sample": False, "set_alpha_to_one": True,
    "snr_shift_scale": 3.0}
FLOW_SOLVER = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}
SDE = {"algorithm_type": "sde-dpmsolver++"}
# name -> (class, options, step counts, what set_timesteps gets beside them)
CASES = {
    "flow_default": (FLOW, {}, STEPS, {}),
    "flow_sd3": (FLOW, {"shift": 3.0}, STEPS, {}),
    "flow_sd3_512_train_steps": (
        FLOW, {"shift": 1.73, "num_train_timesteps": 512}, FEW, {}),
    "flow_schnell": (FLOW, {"shift": 1.0}, [1, 2, 4], {"grid": "pipeline"}),
    "flow_dev_4096": (
        FLOW, {"shift": 3.0, "use_dynamic_shifting": True}, STEPS,
        {"grid": "pipeline", "image_seq_len": 4096}),
    "flow_dev_256": (
        FLOW, {"use_dynamic_shifting": True}, FEW,
        {"grid": "pipeline", "image_seq_len": 256}),
    "flow_dev_16": (
        FLOW, {"use_dynamic_shifting": True}, FEW,
        {"grid": "pipeline", "image_seq_len": 16}),
    "flow_dynamic_own_grid": (
        FLOW, {"use_dynamic_shifting": True}, FEW, {"image_seq_len": 1000}),
    "flow_qwen": (
        FLOW,
        {"use_dynamic_shifting": True, "shift_terminal": 0.02,
         "max_image_seq_len": 8192, "max_shift": 0.9},
        [2, 5, 16, 50], {"grid": "pipeline", "image_seq_len": 6032}),
    "flow_ltx": (
        FLOW,
        {"use_dynamic_shifting": True, "shift_terminal": 0.1,
         "base_image_seq_len": 1024, "base_shift": 0.95, "max_shift": 2.05},
        [2, 5, 16], {"grid": "pipeline", "image_seq_len": 2048}),
    "flow_linear_time_shift": (
        FLOW, {"use_dynamic_shifting": True, "time_shift_type": "linear"},
        FEW, {"grid": "pipeline", "image_seq_len": 1024}),
    "flow_static_terminal": (
        FLOW, {"shift": 2.0, "shift_terminal": 0.05}, [2, 5, 16], {}),
    "flow_inverted": (FLOW, {"invert_sigmas": True}, FEW, {}),
    "flow_karras": (FLOW, {"shift": 3.0, "use_karras_sigmas": True}, FEW, {}),
    "flow_exponential": (FLOW, {"use_exponential_sigmas": True}, FEW, {}),
    "flow_hunyuan": (FLOW, {"shift": 7.0}, [2, 5, 16], {"grid": "to_zero"}),
    "euler_default": (EULER, {}, FEW, {}),
    "euler_sdxl": (EULER, SDXL, STEPS, {}),
    "euler_sdxl_trailing": (
        EULER, {**SDXL, "timestep_spacing": "trailing"}, FEW, {}),
    "euler_sdxl_karras": (EULER, {**SDXL, "use_karras_sigmas": True}, FEW, {}),
    "euler_sdxl_exponential": (
        EULER, {**SDXL, "use_exponential_sigmas": True}, FEW, {}),
    "euler_sigma_ends": (
        EULER,
        {**SDXL, "use_karras_sigmas": True, "sigma_min": 0.05,
         "sigma_max": 12.5}, FEW, {}),
    "euler_log_linear": (
        EULER, {**SDXL, "interpolation_type": "log_linear"}, FEW, {}),
    "euler_final_sigma_min": (
        EULER, {**SDXL, "final_sigmas_type": "sigma_min"}, FEW, {}),
    "euler_v_prediction": (
        EULER, {**SDXL, "prediction_type": "v_prediction"}, FEW, {}),
    "euler_zero_snr": (
        EULER,
        {**SDXL, "prediction_type": "v_prediction",
         "rescale_betas_zero_snr": True, "timestep_spacing": "trailing"},
        FEW, {}),
    "euler_sample": (EULER, {"prediction_type": "sample"}, FEW, {}),
    "euler_cosine": (
        EULER,
        {"beta_schedule": "squaredcos_cap_v2",
         "prediction_type": "v_prediction"}, FEW, {}),
    "euler_continuous": (
        EULER,
        {**SDXL, "prediction_type": "v_prediction",
         "timestep_type": "continuous", "use_karras_sigmas": True,
         "sigma_min": 0.002, "sigma_max": 700.0}, FEW, {}),
    "euler_500_train_steps": (
        EULER, {"num_train_timesteps": 500, "timestep_spacing": "trailing"},
        FEW, {}),
    "euler_custom_sigmas": (EULER, SDXL, [2, 5, 16], {"grid": "to_zero"}),
    "ancestral_default": (ANCESTRAL, {}, FEW, {}),
    "ancestral_sdxl": (ANCESTRAL, SDXL, FEW, {}),
    "ancestral_trailing": (
        ANCESTRAL, {**SDXL, "timestep_spacing": "trailing"}, FEW, {}),
    "ancestral_zero_snr": (ANCESTRAL, {**SDXL, **ZERO_SNR}, FEW, {}),
    "ancestral_cosine": (
        ANCESTRAL,
        {"beta_schedule": "squaredcos_cap_v2",
         "prediction_type": "v_prediction"}, FEW, {}),
    "ddim_default": (DDIM, {}, FEW, {}),
    "ddim_sd15": (DDIM, SD15, STEPS, {}),
    "ddim_clip_range": (
        DDIM, {"clip_sample_range": 0.75, "timestep_spacing": "trailing"}, FEW,
        {}),
    "ddim_zero_snr": (DDIM, {**SD15, **ZERO_SNR}, FEW, {}),
    "ddim_sample_linspace": (
        DDIM,
        {**SD15, "prediction_type": "sample", "timestep_spacing": "linspace"},
        FEW, {}),
    "ddim_cosine": (
        DDIM,
        {"beta_schedule": "squaredcos_cap_v2", "clip_sample": False,
         "prediction_type": "v_prediction"}, FEW, {}),
    "cogvideox_2b": (COGVIDEOX, COGVIDEOX_2B, STEPS, {}),
    "cogvideox_5b": (
        COGVIDEOX, {**COGVIDEOX_2B, "snr_shift_scale": 1.0}, FEW, {}),
    "cogvideox_epsilon": (
        COGVIDEOX, {"beta_schedule": "linear", "set_alpha_to_one": False}, FEW,
        {}),
    "dpm_pixart": (DPM, {}, FEW, {}),
    "dpm_sdxl": (DPM, SDXL, FEW, {}),
    "dpm_sdxl_karras": (
        DPM, {**SDXL, "use_karras_sigmas": True}, STEPS, {}),
    "dpm_sigma_ends": (
        DPM,
        {**SDXL, "use_karras_sigmas": True, "sigma_min": 0.05,
         "sigma_max": 12.5}, FEW, {}),
    "dpm_exponential": (
        DPM, {**SDXL, "use_exponential_sigmas": True}, FEW, {}),
    "dpm_trailing": (
        DPM, {**SDXL, "timestep_spacing": "trailing"}, FEW, {}),
    "dpm_zero_snr": (DPM, {**SDXL, **ZERO_SNR}, FEW, {}),
    "dpm_heun": (DPM, {**SDXL, "solver_type": "heun"}, FEW, {}),
    "dpm_order_1": (DPM, {**SDXL, "solver_order": 1}, FEW, {}),
    "dpm_order_3": (DPM, {**SDXL, "solver_order": 3}, STEPS, {}),
    "dpm_order_3_to_the_end": (
        DPM,
        {"solver_order": 3, "lower_order_final": False,
         "final_sigmas_type": "sigma_min"}, FEW, {}),
    "dpm_euler_at_final": (
        DPM,
        {**SDXL, "euler_at_final": True, "final_sigmas_type": "sigma_min"},
        FEW, {}),
    "dpm_sample": (DPM, {"prediction_type": "sample"}, FEW, {}),
    "dpm_cosine_clipped": (
        DPM,
        {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1,
         "prediction_type": "v_prediction"}, FEW, {}),
    # Of epsilon nothing of an image can be told from the level 20,000.
    "dpm_cosine_karras": (
        DPM,
        {"beta_schedule": "squaredcos_cap_v2", "use_karras_sigmas": True,
         "prediction_type": "v_prediction"},
        FEW, {}),
    "dpm_flow_sana": (DPM, {**FLOW_SOLVER, "flow_shift": 3.0}, STEPS, {}),
    "dpm_flow_sigma_min": (
        DPM, {**FLOW_SOLVER, "final_sigmas_type": "sigma_min"}, FEW, {}),
    "dpm_flow_dynamic": (
        DPM, {**FLOW_SOLVER, "use_dynamic_shifting": True}, FEW,
        {"image_seq_len": 1000}),
    "dpm_sde": (DPM, {**SDXL, **SDE}, FEW, {}),
    "dpm_sde_karras": (
        DPM,
        {**SDXL, **SDE, "use_karras_sigmas": True, "solver_type": "heun"},
        FEW, {}),
    "dpm_sde_flow": (
        DPM, {**FLOW_SOLVER, **SDE, "flow_shift": 3.0, "solver_order": 1},
        FEW, {}),
    "unipc_default": (UNIPC, {}, FEW, {}),
    "unipc_sdxl": (UNIPC, SDXL, STEPS, {}),
    "unipc_sdxl_karras": (
        UNIPC, {**SDXL, "use_karras_sigmas": True}, FEW, {}),
    "unipc_exponential": (
        UNIPC, {**SDXL, "use_exponential_sigmas": True}, FEW, {}),
    "unipc_wan_480p": (UNIPC, {**FLOW_SOLVER, "flow_shift": 3.0}, STEPS, {}),
    "unipc_wan_720p": (UNIPC, {**FLOW_SOLVER, "flow_shift": 5.0}, FEW, {}),
    "unipc_flow_karras": (
        UNIPC,
        {**FLOW_SOLVER, "use_karras_sigmas": True, "sigma_min": 0.01,
         "sigma_max": 200.0}, FEW, {}),
    "unipc_flow_custom_sigmas": (
        UNIPC, {**FLOW_SOLVER, "flow_shift": 3.0}, FEW, {"grid": "pipeline"}),
    "unipc_qwen": (
        UNIPC,
        {**FLOW_SOLVER, "use_dynamic_shifting": True, "shift_terminal": 0.02,
         "max_image_seq_len": 8192, "max_shift": 0.9},
        [2, 5, 16], {"grid": "pipeline", "image_seq_len": 6032}),
    "unipc_flow_sigma_min": (
        UNIPC, {**FLOW_SOLVER, "final_sigmas_type": "sigma_min"}, FEW, {}),
    # With a last level of zero diffusers makes NaN of the last step.
    "unipc_bh1": (
        UNIPC,
        {**SDXL, "solver_type": "bh1", "final_sigmas_type": "sigma_min"}, FEW,
        {}),
    "unipc_order_1": (UNIPC, {**SDXL, "solver_order": 1}, FEW, {}),
    "unipc_order_3": (
        UNIPC, {**FLOW_SOLVER, "flow_shift": 5.0, "solver_order": 3}, STEPS,
        {}),
    "unipc_order_3_to_the_end": (
        UNIPC,
        {**SDXL, "solver_order": 3, "lower_order_final": False,
         "final_sigmas_type": "sigma_min"}, FEW, {}),
    "unipc_predict_noise": (
        UNIPC, {"predict_x0": False, "final_sigmas_type": "sigma_min"},
        FEW, {}),
    "unipc_predict_noise_of_v": (
        UNIPC,
        {**SDXL, "predict_x0": False, "final_sigmas_type": "sigma_min",
         "prediction_type": "v_prediction"}, FEW, {}),
    "unipc_disable_corrector": (
        UNIPC, {**FLOW_SOLVER, "disable_corrector": [0, 2]}, FEW, {}),
    "unipc_zero_snr": (UNIPC, {**SDXL, **ZERO_SNR}, FEW, {}),
    "unipc_sample": (UNIPC, {"prediction_type": "sample"}, FEW, {}),
}
