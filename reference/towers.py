"""Tiny checkpoints of towers whose published tensors have other names than transformers gives them, or that it does not know:
the configuration, the shapes of the tensors and the description of preprocessing of each."""

TEXT = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 32,
}
# The converter names the layers of projectors by number, which must be less than that of the tower's layers.
VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}
WHISPER = {
    "d_model": 16,
    "encoder_layers": 3,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "num_mel_bins": 8,
    "max_source_positions": 10,
}


def linear(name, outputs, inputs, bias=True):
    """A weight and its bias."""
    return {f"{name}.weight": [outputs, inputs], **({f"{name}.bias": [outputs]} if bias else {})}


def norm(name, size, bias=True):
    return {f"{name}.weight": [size], **({f"{name}.bias": [size]} if bias else {})}


def siglip(prefix, layers=3, hidden=16, inner=24):
    """The layers of SigLIP."""
    tensors = {}
    for layer in range(layers):
        at = f"{prefix}{layer}."
        tensors |= norm(f"{at}layer_norm1", hidden) | norm(f"{at}layer_norm2", hidden)
        tensors |= linear(f"{at}mlp.fc1", inner, hidden) | linear(f"{at}mlp.fc2", hidden, inner)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            tensors |= linear(f"{at}self_attn.{part}", hidden, hidden)
    return tensors


def whisper(prefix, hidden=16, inner=24, mels=8, positions=10, layers=3):
    """Whisper's encoder."""
    tensors = {f"{prefix}conv1.weight": [hidden, mels, 3], f"{prefix}conv1.bias": [hidden]}
    tensors |= {f"{prefix}conv2.weight": [hidden, hidden, 3], f"{prefix}conv2.bias": [hidden]}
    if positions:
        tensors[f"{prefix}embed_positions.weight"] = [positions, hidden]
    for layer in range(layers):
        at = f"{prefix}layers.{layer}."
        tensors |= norm(f"{at}self_attn_layer_norm", hidden) | norm(f"{at}final_layer_norm", hidden)
        tensors |= linear(f"{at}fc1", inner, hidden) | linear(f"{at}fc2", hidden, inner)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            tensors |= linear(f"{at}self_attn.{part}", hidden, hidden, part != "k_proj")
    return tensors


def moonvit(projector):
    """MoonViT in three dimensions, and the names of the two layers behind it."""
    tensors = {"vision_tower.patch_embed.proj.weight": [16, 3, 4, 4], "vision_tower.patch_embed.proj.bias": [16]}
    tensors["vision_tower.patch_embed.pos_emb.weight"] = [6, 5, 16]
    for layer in range(3):
        at = f"vision_tower.encoder.blocks.{layer}."
        tensors |= norm(f"{at}norm0", 16) | norm(f"{at}norm1", 16)
        tensors |= linear(f"{at}mlp.fc0", 24, 16) | linear(f"{at}mlp.fc1", 16, 24)
        tensors |= linear(f"{at}wqkv", 48, 16) | linear(f"{at}wo", 16, 16)
    tensors |= norm("vision_tower.encoder.final_layernorm", 16) | norm("mm_projector.pre_norm", 16)
    one, two = projector
    return tensors | linear(f"mm_projector.{one}", 64, 64) | linear(f"mm_projector.{two}", 16, 64)


MOONVIT = {**VISION, "init_pos_emb_height": 6, "init_pos_emb_width": 5, "init_pos_emb_time": 2, "merge_kernel_size": [2, 2]}


def pixtral():
    tensors = {"model.vision_encoder.patch_conv.weight": [16, 3, 4, 4]} | norm("model.vision_encoder.ln_pre", 16, False)
    for layer in range(3):
        at = f"model.vision_encoder.transformer.layers.{layer}."
        tensors |= norm(f"{at}attention_norm", 16, False) | norm(f"{at}ffn_norm", 16, False)
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            tensors |= linear(f"{at}attention.{part}", 16, 16, False)
        tensors |= linear(f"{at}feed_forward.gate_proj", 24, 16, False) | linear(f"{at}feed_forward.up_proj", 24, 16, False)
        tensors |= linear(f"{at}feed_forward.down_proj", 16, 24, False)
    at = "model.vision_projection."
    tensors |= norm(f"{at}norm", 16, False) | linear(f"{at}patch_merger.merging_layer", 16, 64, False)
    return tensors | linear(f"{at}linear_1", 16, 16, False) | linear(f"{at}linear_2", 16, 16, False)


def glm_asr():
    tensors = whisper("audio_encoder.whisper.", positions=0) | norm("audio_encoder.layer_norm", 16)
    tensors |= linear("audio_encoder.adapting.0", 32, 64) | linear("audio_encoder.adapting.2", 16, 32)
    return tensors | {"audio_encoder.audio_bos_eos_token.weight": [2, 16]}


def meralion():
    tensors = whisper("speech_encoder.") | norm("speech_encoder.layer_norm", 16) | norm("ln_speech", 16)
    tensors |= linear("speech_audio_adapter.mlp_adapter.0", 20, 48)
    for part in ("gate_proj", "pool_proj"):
        tensors |= linear(f"speech_audio_adapter.{part}", 20, 20)
    return tensors | linear("speech_audio_adapter.out_proj", 16, 20)


def cogvlm():
    at = "model.vision."
    tensors = {f"{at}patch_embedding.cls_embedding": [1, 16], f"{at}patch_embedding.position_embedding.weight": [5, 16]}
    tensors |= {f"{at}patch_embedding.proj.weight": [16, 3, 4, 4], f"{at}patch_embedding.proj.bias": [16]}
    for layer in range(3):
        inner = f"{at}transformer.layers.{layer}."
        tensors |= norm(f"{inner}input_layernorm", 16) | norm(f"{inner}post_attention_layernorm", 16)
        tensors |= linear(f"{inner}attention.query_key_value", 48, 16) | linear(f"{inner}attention.dense", 16, 16)
        tensors |= linear(f"{inner}mlp.fc1", 24, 16) | linear(f"{inner}mlp.fc2", 16, 24)
    tensors |= linear(f"{at}linear_proj.linear_proj", 16, 16, False) | norm(f"{at}linear_proj.norm1", 16)
    tensors |= linear(f"{at}linear_proj.gate_proj", 20, 16, False)
    tensors |= linear(f"{at}linear_proj.dense_h_to_4h", 20, 16, False)
    tensors |= linear(f"{at}linear_proj.dense_4h_to_h", 16, 20, False)
    return tensors | {f"{at}boi": [1, 1, 16], f"{at}eoi": [1, 1, 16]}


def youtu_vl():
    at = "siglip2.vision_model."
    tensors = siglip(f"{at}encoder.layers.") | linear(f"{at}embeddings.patch_embedding", 16, 48)
    tensors |= norm(f"{at}post_layernorm", 16) | norm("merger.ln_q", 16, False)
    return tensors | linear("merger.mlp.0", 64, 64) | linear("merger.mlp.2", 16, 64)


def paddle_ocr():
    at = "visual.vision_model."
    tensors = siglip(f"{at}encoder.layers.") | norm(f"{at}post_layernorm", 16)
    tensors |= {f"{at}embeddings.patch_embedding.weight": [16, 3, 4, 4], f"{at}embeddings.patch_embedding.bias": [16]}
    tensors |= {f"{at}embeddings.position_embedding.weight": [4, 16]}
    tensors |= {f"{at}embeddings.packing_position_embedding.weight": [8, 16], f"{at}head.probe": [1, 1, 16]}
    tensors |= norm("mlp_AR.pre_norm", 16)
    return tensors | linear("mlp_AR.linear_1", 64, 64) | linear("mlp_AR.linear_2", 16, 64)


def phi4():
    at = "model.vision_tower.vision_tower.vision_model."
    tensors = siglip(f"{at}encoder.layers.", layers=4) | norm(f"{at}post_layernorm", 16)
    tensors |= linear(f"{at}embeddings.patch_embedding", 16, 48)
    tensors |= {f"{at}embeddings.position_embedding.weight": [9, 16], f"{at}head.probe": [1, 1, 16]}
    return tensors | linear("model.mm_projector.0", 16, 16) | linear("model.mm_projector.2", 16, 16)


def minimax_m3():
    at = "vision_tower.vision_model."
    tensors = siglip(f"{at}encoder.layers.", hidden=80, inner=32)
    tensors |= {f"{at}embeddings.patch_embedding.weight": [80, 3, 2, 2, 2]} | norm(f"{at}pre_layrnorm", 80)
    tensors |= linear("multi_modal_projector.linear_1", 24, 80) | linear("multi_modal_projector.linear_2", 16, 24)
    return tensors | linear("patch_merge_mlp.linear_1", 24, 64) | linear("patch_merge_mlp.linear_2", 16, 24)


def qwen_blocks(prefix, parts, mlp, norm_bias):
    """The layers of Qwen's vision towers, and the convolution in front of them."""
    tensors = {f"{prefix}patch_embed.proj.weight": [16, 3, 2, 4, 4]}
    for layer in range(4):
        at = f"{prefix}blocks.{layer}."
        tensors |= norm(f"{at}norm1", 16, norm_bias) | norm(f"{at}norm2", 16, norm_bias) | linear(f"{at}attn.proj", 16, 16)
        for part, rows in parts.items():
            tensors |= linear(f"{at}attn.{part}", rows, 16)
        for part, (rows, columns) in mlp.items():
            tensors |= linear(f"{at}mlp.{part}", rows, columns)
    return tensors


def qwen2_5_omni():
    mlp = {"gate_proj": (24, 16), "up_proj": (24, 16), "down_proj": (16, 24)}
    tensors = qwen_blocks("thinker.visual.", {"q": 16, "k": 16, "v": 16}, mlp, False)
    tensors |= norm("thinker.visual.merger.ln_q", 16, False)
    tensors |= linear("thinker.visual.merger.mlp.0", 64, 64) | linear("thinker.visual.merger.mlp.2", 16, 64)
    tensors |= whisper("thinker.audio_tower.", positions=0) | norm("thinker.audio_tower.ln_post", 16)
    tensors |= linear("thinker.audio_tower.proj", 16, 16)
    return tensors | {"thinker.audio_tower.audio_bos_eos_token.weight": [2, 16]}


def qwen3_audio():
    at = "thinker.audio_tower."
    tensors = {key: shape for key, shape in whisper(at, positions=0, layers=4).items() if ".conv" not in key}
    tensors |= {f"{at}layers.{layer}.self_attn.k_proj.bias": [16] for layer in range(4)}
    for place, channels in ((1, 1), (2, 12), (3, 12)):
        tensors |= {f"{at}conv2d{place}.weight": [12, channels, 3, 3], f"{at}conv2d{place}.bias": [12]}
    tensors |= linear(f"{at}conv_out", 16, 12, False) | norm(f"{at}ln_post", 16)
    return tensors | linear(f"{at}proj1", 16, 16) | linear(f"{at}proj2", 16, 16)


def qwen3_omni():
    # The converter has no place for `thinker.visual.`, the name in published models.
    at = "visual."
    tensors = qwen_blocks(at, {"qkv": 48}, {"linear_fc1": (24, 16), "linear_fc2": (16, 24)}, True)
    tensors |= {f"{at}patch_embed.proj.bias": [16], f"{at}pos_embed.weight": [9, 16]} | norm(f"{at}merger.ln_q", 16)
    tensors |= linear(f"{at}merger.mlp.0", 64, 64) | linear(f"{at}merger.mlp.2", 16, 64)
    tensors |= norm(f"{at}merger_list.0.ln_q", 64)
    tensors |= linear(f"{at}merger_list.0.mlp.0", 64, 64) | linear(f"{at}merger_list.0.mlp.2", 16, 64)
    return tensors | qwen3_audio()


QWEN = {
    "depth": 4,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 16,
}
OMNI_AUDIO = {**WHISPER, "output_dim": 16, "downsample_hidden_size": 12}

def ling3_vl():
    tensors = qwen_blocks("visual.", {"qkv": 48}, {"linear_fc1": (24, 16), "linear_fc2": (16, 24)}, True)
    tensors |= {"visual.pos_embed.weight": [9, 16]} | norm("visual.merger.norm", 16)
    return tensors | linear("linear_proj.0", 16, 64) | linear("linear_proj.2", 16, 16)


def deepseek_ocr():
    at = "model.sam_model."
    tensors = {f"{at}patch_embed.proj.weight": [12, 3, 16, 16], f"{at}patch_embed.proj.bias": [12]}
    tensors[f"{at}pos_embed"] = [1, 4, 4, 12]
    for layer, side in ((0, 14), (1, 4)):
        inner = f"{at}blocks.{layer}."
        tensors |= norm(f"{inner}norm1", 12) | norm(f"{inner}norm2", 12)
        tensors |= linear(f"{inner}attn.qkv", 36, 12) | linear(f"{inner}attn.proj", 12, 12)
        tensors |= {f"{inner}attn.rel_pos_{axis}": [2 * side - 1, 6] for axis in "hw"}
        tensors |= linear(f"{inner}mlp.lin1", 48, 12) | linear(f"{inner}mlp.lin2", 12, 48)
    tensors |= {f"{at}neck.0.weight": [6, 12, 1, 1], f"{at}neck.2.weight": [6, 6, 3, 3]}
    tensors |= norm(f"{at}neck.1", 6) | norm(f"{at}neck.3", 6)
    tensors |= {f"{at}net_2.weight": [8, 6, 3, 3], f"{at}net_3.weight": [16, 8, 3, 3]}
    at = "model.vision_model."
    tensors |= {f"{at}embeddings.class_embedding": [16], f"{at}embeddings.patch_embedding.weight": [16, 3, 4, 4]}
    tensors |= {f"{at}embeddings.position_embedding.weight": [5, 16]} | norm(f"{at}pre_layrnorm", 16)
    for layer in range(4):
        inner = f"{at}transformer.layers.{layer}."
        tensors |= norm(f"{inner}layer_norm1", 16) | norm(f"{inner}layer_norm2", 16)
        tensors |= linear(f"{inner}self_attn.qkv_proj", 48, 16) | linear(f"{inner}self_attn.out_proj", 16, 16)
        tensors |= linear(f"{inner}mlp.fc1", 64, 16) | linear(f"{inner}mlp.fc2", 16, 64)
    tensors |= linear("model.projector.layers", 16, 32)
    return tensors | {"model.image_newline": [16], "model.view_seperator": [16]}


DEEPSEEK_OCR = {
    "model_type": "deepseek_ocr_tower",
    "language_config": TEXT,
    "vision_config": {
        "image_size": 64,
        "model_type": "vision",
        "width": {
            "clip-l-14-224": {"heads": 2, "image_size": 8, "layers": 4, "patch_size": 4, "width": 16},
            "sam_vit_b": {"downsample_channels": [8, 16], "global_attn_indexes": [1], "heads": 2, "layers": 2, "width": 12},
        },
    },
    "projector_config": {"input_dim": 32, "n_embed": 16, "projector_type": "linear"},
}

# The configuration, the tensors, preprocessing, and the types of the outputs.
TOWERS = {
    "kimi_k25": (
        {
            "architectures": ["KimiK25ForConditionalGeneration"],
            "model_type": "kimi_k25_tower",
            "text_config": TEXT,
            "vision_config": MOONVIT,
        },
        moonvit(["proj.0", "proj.2"]),
        {"in_patch_limit": 64},
        ["f16"],
    ),
    "glm5v": (
        {
            "architectures": ["Glm5vForConditionalGeneration"],
            "model_type": "glm5v",
            "text_config": TEXT,
            "vision_config": MOONVIT,
        },
        moonvit(["linear_1", "linear_2"]),
        {},
        ["bf16"],
    ),
    "lighton_ocr": (
        {
            "architectures": ["LightOnOCRForConditionalGeneration"],
            "model_type": "mistral3_ocr",
            "text_config": TEXT,
            "vision_config": {**VISION, "model_type": "pixtral", "hidden_act": "silu"},
            "spatial_merge_size": 2,
        },
        pixtral(),
        {},
        ["f16"],
    ),
    "glm_asr": (
        {
            "architectures": ["GlmasrModel"],
            "model_type": "Glmasr",
            "lm_config": TEXT,
            "whisper_config": WHISPER,
            "merge_factor": 4,
        },
        glm_asr(),
        {},
        ["f16"],
    ),
    "meralion2": (
        {
            "architectures": ["MERaLiON2ForConditionalGeneration"],
            "model_type": "meralion2",
            "text_config": TEXT,
            "speech_config": WHISPER,
            "speech_mlp_scale_factor": 3,
        },
        meralion(),
        {},
        ["bf16"],
    ),
    "cogvlm": (
        {
            "architectures": ["CogVLMForCausalLM"],
            **TEXT,
            "intermediate_size": 20,
            "vision_config": {**VISION, "num_heads": 2, "num_positions": 5, "layer_norm_eps": 1e-6},
        },
        cogvlm(),
        {},
        ["f16"],
    ),
    "youtu_vl": (
        {
            "architectures": ["YoutuVLForConditionalGeneration"],
            "model_type": "youtu_vl",
            **TEXT,
            "vision_config": {
                **VISION,
                "out_hidden_size": 16,
                "hidden_act": "gelu_pytorch_tanh",
                "window_size": 8,
                "fullatt_block_indexes": [1],
            },
        },
        youtu_vl(),
        {},
        ["f16"],
    ),
    "paddleocr_vl": (
        {
            "architectures": ["PaddleOCRVLForConditionalGeneration"],
            "model_type": "paddleocr_vl_tower",
            **TEXT,
            "vision_config": {**VISION, "architectures": ["PaddleOCRVisionModel"], "spatial_merge_size": 2},
        },
        paddle_ocr(),
        {"min_pixels": 16, "max_pixels": 150},
        ["f16"],
    ),
    "phi4_v": (
        {
            "architectures": ["Phi4ForCausalLMV"],
            "model_type": "phi4-siglip",
            **TEXT,
            "min_num_patches": 4,
            "vision_config": {**VISION, "num_hidden_layers": 4, "num_patches": 9},
        },
        phi4(),
        {"patch_size": 4, "max_num_patches": 16},
        ["f16", "bf16"],
    ),
    "minimax_m3": (
        {
            "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
            "model_type": "minimax_m3_tower",
            "text_config": TEXT,
            "projector_hidden_size": 24,
            "vision_config": {
                **VISION,
                "hidden_size": 80,
                "intermediate_size": 32,
                "num_attention_heads": 1,
                "patch_size": 2,
                "img_token_compression_config": {"spatial_merge_size": 2},
            },
        },
        minimax_m3(),
        {},
        ["f16"],
    ),
    "qwen2_5_omni": (
        {
            "architectures": ["Qwen2_5OmniModel"],
            "model_type": "qwen2_5_omni",
            "thinker_config": {
                "text_config": TEXT,
                "vision_config": {**QWEN, "fullatt_block_indexes": [1, 3]},
                "audio_config": OMNI_AUDIO,
            },
        },
        qwen2_5_omni(),
        {},
        ["f16"],
    ),
    "qwen3_omni": (
        {
            "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
            "model_type": "qwen3_omni",
            "thinker_config": {
                "text_config": TEXT,
                "vision_config": {**QWEN, "num_position_embeddings": 9, "deepstack_visual_indexes": [2]},
                "audio_config": {**OMNI_AUDIO, "encoder_layers": 4},
            },
        },
        qwen3_omni(),
        {},
        ["f16"],
    ),
    "qwen3_asr": (
        {
            "architectures": ["Qwen3ASRForConditionalGeneration"],
            "model_type": "qwen3_asr_thinker",
            "thinker_config": {"text_config": TEXT, "audio_config": {**OMNI_AUDIO, "encoder_layers": 4}},
        },
        qwen3_audio(),
        {},
        ["bf16"],
    ),
    "ling3_vl": (
        {
            "architectures": ["BailingMoeV3VLForConditionalGeneration"],
            "model_type": "bailing_moe_v3_vl",
            "text_config": TEXT,
            "vision_config": {
                **QWEN,
                "out_hidden_size": 64,
                "num_position_embeddings": 9,
                "disable_merger_proj": True,
            },
        },
        ling3_vl(),
        {},
        ["f16"],
    ),
    "deepseek_ocr": ({"architectures": ["DeepseekOCRForCausalLM"], **DEEPSEEK_OCR}, deepseek_ocr(), {}, ["f16", "bf16"]),
    "unlimited_ocr": ({"architectures": ["UnlimitedOCRForCausalLM"], **DEEPSEEK_OCR}, deepseek_ocr(), {}, ["f16"]),
}
