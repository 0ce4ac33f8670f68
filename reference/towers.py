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


def sam(channels):
    """SAM with two layers, one with windows; the channels of its last two convolutions."""
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
    first, second = channels
    return tensors | {f"{at}net_2.weight": [first, 6, 3, 3], f"{at}net_3.weight": [second, first, 3, 3]}


SAM = {"downsample_channels": [8, 16], "global_attn_indexes": [1], "heads": 2, "layers": 2, "width": 12}


def deepseek_ocr():
    tensors = sam([8, 16])
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
            "sam_vit_b": SAM,
        },
    },
    "projector_config": {"input_dim": 32, "n_embed": 16, "projector_type": "linear"},
}

def deepseek4_vision():
    tensors = linear("vision.patch_embed.proj", 16, 48) | norm("vision.norm", 16, False)
    for layer in range(3):
        at = f"vision.blocks.{layer}."
        tensors |= norm(f"{at}norm1", 16, False) | norm(f"{at}norm2", 16, False)
        tensors |= linear(f"{at}attn.wqkv", 48, 16, False) | linear(f"{at}attn.wo", 16, 16, False)
        tensors |= linear(f"{at}mlp.w1", 48, 16, False) | linear(f"{at}mlp.w2", 16, 24, False)
    tensors |= linear("aligner.w1", 20, 144) | linear("aligner.w2", 16, 20)
    return tensors | {f"image_{name}": [16] for name in ("start", "end", "newline", "pad")}


def deepseek_ocr2():
    tensors = sam([8, 20])
    at = "model.qwen2_model.model.model."
    for layer in range(4):
        inner = f"{at}layers.{layer}."
        tensors |= norm(f"{inner}input_layernorm", 20, False) | norm(f"{inner}post_attention_layernorm", 20, False)
        for part, rows in (("q_proj", 20), ("k_proj", 10), ("v_proj", 10)):
            tensors |= linear(f"{inner}self_attn.{part}", rows, 20)
        tensors |= linear(f"{inner}self_attn.o_proj", 20, 20, False)
        for part in ("gate_proj", "up_proj"):
            tensors |= linear(f"{inner}mlp.{part}", 24, 20, False)
        tensors |= linear(f"{inner}mlp.down_proj", 20, 24, False)
    tensors |= norm(f"{at}norm", 20, False) | linear("model.projector.layers", 16, 20)
    tensors |= {f"model.qwen2_model.query_{side}.weight": [count, 20] for side, count in ((768, 144), (1024, 256))}
    return tensors | {"model.view_seperator": [16]}


def window_qformer(prefix):
    """A projector of Granite 4 Vision, a Q-Former over windows."""
    tensors = {f"{prefix}image_positions": [1, 16, 16], f"{prefix}query": [1, 4, 16]} | norm(f"{prefix}norm", 16)
    tensors |= linear(f"{prefix}out_linear", 20, 16) | norm(f"{prefix}qformer.layernorm", 16)
    at = f"{prefix}qformer.encoder.layer.0."
    for kind in ("attention", "crossattention"):
        for part in ("query", "key", "value"):
            tensors |= linear(f"{at}{kind}.attention.{part}", 16, 16)
        tensors |= linear(f"{at}{kind}.output.dense", 16, 16) | norm(f"{at}{kind}.output.LayerNorm", 16)
    tensors |= linear(f"{at}intermediate_query.dense", 28, 16) | linear(f"{at}output_query.dense", 16, 28)
    return tensors | norm(f"{at}output_query.LayerNorm", 16)


def granite4_vision():
    at = "model.vision_tower.vision_model."
    tensors = siglip(f"{at}encoder.layers.", layers=4) | norm(f"{at}post_layernorm", 16) | {"model.image_newline": [20]}
    tensors |= {f"{at}embeddings.patch_embedding.weight": [16, 3, 4, 4], f"{at}embeddings.patch_embedding.bias": [16]}
    tensors |= {f"{at}embeddings.position_embedding.weight": [4, 16], f"{at}head.probe": [1, 1, 16]}
    for kind in ("layerwise", "spatial"):
        for place in range(2):
            tensors |= window_qformer(f"model.{kind}_projectors.{place}.")
    return tensors


def batch_norm(name, size):
    parts = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{part}": [size] for part in parts} | {f"{name}.num_batches_tracked": []}


def lfm2_audio():
    at = "conformer.pre_encode."
    tensors = linear(f"{at}out", 16, 8)
    for place, shape in ((0, [8, 1, 3, 3]), (2, [8, 1, 3, 3]), (3, [8, 8, 1, 1]), (5, [8, 1, 3, 3]), (6, [8, 8, 1, 1])):
        tensors |= {f"{at}conv.{place}.weight": shape, f"{at}conv.{place}.bias": [8]}
    for layer in range(7):
        at = f"conformer.layers.{layer}."
        for place in (1, 2):
            tensors |= norm(f"{at}norm_feed_forward{place}", 16)
            tensors |= linear(f"{at}feed_forward{place}.linear1", 32, 16)
            tensors |= linear(f"{at}feed_forward{place}.linear2", 16, 32)
        for name in ("norm_conv", "norm_self_att", "norm_out"):
            tensors |= norm(f"{at}{name}", 16)
        for part in "qkv":
            tensors |= linear(f"{at}self_attn.linear_{part}", 16, 16)
        tensors |= linear(f"{at}self_attn.linear_out", 16, 16) | linear(f"{at}self_attn.linear_pos", 16, 16, False)
        tensors |= {f"{at}self_attn.pos_bias_{part}": [2, 8] for part in "uv"} | batch_norm(f"{at}conv.batch_norm", 16)
        for part, shape in (("pointwise_conv1", [32, 16, 1]), ("depthwise_conv", [16, 1, 9]), ("pointwise_conv2", [16, 16, 1])):
            tensors |= {f"{at}conv.{part}.weight": shape, f"{at}conv.{part}.bias": shape[:1]}
    tensors |= norm("audio_adapter.model.0", 16)
    tensors |= linear("audio_adapter.model.1", 20, 16) | linear("audio_adapter.model.3", 24, 20)
    tensors |= {"audio_embedding.embedding.weight": [34, 24], "audio_embedding.embedding_norm.weight": [24]}
    tensors |= {"audio_embedding.to_logits.weight": [34, 24], "audio_loss_weights": [4], "codebook_offsets": [4]}
    return tensors | {"depth_linear.weight": [8, 24], "depth_embeddings.0.embedding.weight": [6, 8]}


def dots3_note():
    at = "vision_encoder."
    tensors = {f"{at}patch_embed.proj.weight": [16, 3, 4, 4], f"{at}patch_embed.proj.bias": [16]}
    tensors |= norm(f"{at}patch_embed.norm", 16, False) | norm(f"{at}post_trunk_norm", 16, False)
    for layer, experts in enumerate((-1, 2, 3)):
        inner = f"{at}blocks.{layer}."
        tensors |= norm(f"{inner}norm_1", 16, False) | norm(f"{inner}norm_2", 16, False)
        tensors |= linear(f"{inner}attn.qkv", 48, 16, False) | linear(f"{inner}attn.proj", 16, 16, False)
        tensors |= norm(f"{inner}attn.q_norm", 8, False) | norm(f"{inner}attn.k_norm", 8, False)
        if experts > 0:
            tensors |= {f"{inner}mlp.gate_weight": [experts, 16], f"{inner}mlp.router_bias": [experts]}
        for name in [f"experts.{expert}." for expert in range(experts)] or [""]:
            tensors |= linear(f"{inner}mlp.{name}fc1", 24, 16, False) | linear(f"{inner}mlp.{name}fc3", 24, 16, False)
            tensors |= linear(f"{inner}mlp.{name}fc2", 16, 24, False)
    tensors |= norm(f"{at}adapter.ln_q", 16) | linear(f"{at}adapter.mlp.0", 64, 64) | linear(f"{at}adapter.mlp.2", 20, 64)
    at = "audio_encoder.dots_encoder.speech_encoder."
    for place, channels in ((1, 1), (2, 12), (3, 12)):
        tensors |= {f"{at}conv2d{place}.weight": [12, channels, 3, 3], f"{at}conv2d{place}.bias": [12]}
    tensors |= linear(f"{at}conv_out", 16, 12, False) | norm(f"{at}layer_norm", 16, False)
    for layer in range(4):
        inner = f"{at}layers.{layer}."
        tensors |= norm(f"{inner}self_attn_layer_norm", 16, False) | norm(f"{inner}final_layer_norm", 16, False)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            tensors |= linear(f"{inner}self_attn.{part}", 16, 16, part != "k_proj")
        tensors |= linear(f"{inner}fc1", 48, 16) | linear(f"{inner}fc2", 16, 24)
    at = "audio_encoder.audio_adapter.proj."
    return tensors | norm(f"{at}0", 16) | linear(f"{at}1", 20, 16) | linear(f"{at}3", 20, 20)


def step3_vl():
    at = "vision_model."
    tensors = {f"{at}conv1.weight": [1536, 3, 28, 28], f"{at}positional_embedding": [676, 1536]} | norm(f"{at}ln_pre", 1536)
    for layer in range(47):
        inner = f"{at}transformer.resblocks.{layer}."
        tensors |= norm(f"{inner}ln_1", 1536) | norm(f"{inner}ln_2", 1536)
        tensors |= {f"{inner}attn.in_proj_weight": [4608, 1536], f"{inner}attn.in_proj_bias": [4608]}
        tensors |= linear(f"{inner}attn.out_proj", 1536, 1536)
        tensors |= linear(f"{inner}mlp.c_fc", 48, 1536) | linear(f"{inner}mlp.c_proj", 1536, 48)
        tensors |= {f"{inner}ls_1.gamma": [1536], f"{inner}ls_2.gamma": [1536]}
    tensors |= {f"{at}vit_downsampler1.weight": [3072, 1536, 3, 3], f"{at}vit_downsampler1.bias": [3072]}
    tensors |= {f"{at}vit_downsampler2.weight": [6144, 3072, 3, 3], f"{at}vit_downsampler2.bias": [6144]}
    return tensors | {"vit_large_projector.weight": [16, 6144]}


def mobilenet(at):
    """MobileNetV5 with 300 million parameters."""
    tensors = {f"{at}conv_stem.conv.weight": [64, 3, 3, 3], f"{at}conv_stem.conv.bias": [64], f"{at}conv_stem.bn.weight": [64]}

    def convolution(name, normed, outputs, inputs, size=1):
        return {f"{name}.weight": [outputs, inputs, size, size], f"{normed}.weight": [outputs]}

    def inverted(name, first, inner, second, inputs, outputs):
        tensors = {f"{name}layer_scale.gamma": [outputs]}
        if first:
            tensors |= convolution(f"{name}dw_start.conv", f"{name}dw_start.bn", inputs, 1, first)
        tensors |= convolution(f"{name}pw_exp.conv", f"{name}pw_exp.bn", inner, inputs)
        if second:
            tensors |= convolution(f"{name}dw_mid.conv", f"{name}dw_mid.bn", inner, 1, second)
        return tensors | convolution(f"{name}pw_proj.conv", f"{name}pw_proj.bn", outputs, inner)

    def attention(name, queries, keys, width, is_sampled):
        tensors = {f"{name}layer_scale.gamma": [width], f"{name}norm.weight": [width]}
        for part, rows, columns in (("query", queries, width), ("key", keys, width), ("value", keys, width), ("output", width, queries)):
            tensors[f"{name}attn.{part}.proj.weight"] = [rows, columns, 1, 1]
        for part in ("key", "value") if is_sampled else ():
            tensors |= convolution(f"{name}attn.{part}.down_conv", f"{name}attn.{part}.norm", width, 1, 3)
        return tensors

    for place in range(3):
        inner, inputs = (512, 128) if place else (256, 64)
        name = f"{at}blocks.0.{place}."
        tensors |= convolution(f"{name}conv_exp", f"{name}bn1", inner, inputs, 3)
        tensors |= convolution(f"{name}conv_pwl", f"{name}bn2", 128, inner)
    stages = [[(3, 768, 5), *[(5, 1024, 0), (3, 1024, 0)] * 2]]
    stages += [[(5, 1536, 5), *[(5, 2560, 0)] * 7, (0, 640, 0), *[(768, 64), (0, 1280, 0)] * 14]]
    stages += [[(5, 3840, 5), *[(1536, 96), (0, 2560, 0)] * 19]]
    width = 128
    for stage, blocks in enumerate(stages, 1):
        outputs = (256, 640, 1280)[stage - 1]
        for place, block in enumerate(blocks):
            name = f"{at}blocks.{stage}.{place}."
            tensors |= attention(name, *block, outputs, stage == 2) if len(block) == 2 else inverted(name, *block, width, outputs)
            width = outputs
    tensors |= convolution(f"{at}msfa.ffn.pw_exp.conv", f"{at}msfa.ffn.pw_exp.bn", 3840, 1920)
    tensors |= convolution(f"{at}msfa.ffn.pw_proj.conv", f"{at}msfa.ffn.pw_proj.bn", 2048, 3840)
    return tensors | {f"{at}msfa.norm.weight": [2048]}


def gemma3n():
    tensors = mobilenet("model.vision_tower.timm_model.")
    at = "model.audio_tower.subsample_conv_projection."
    tensors |= {f"{at}conv_0.conv.weight": [8, 1, 3, 3], f"{at}conv_0.norm.weight": [8]}
    tensors |= {f"{at}conv_1.conv.weight": [4, 8, 3, 3], f"{at}conv_1.norm.weight": [4]}
    tensors |= linear(f"{at}input_proj_linear", 16, 12, False)
    for layer in range(2):
        at = f"model.audio_tower.conformer.{layer}."
        for part in ("ffw_layer_start", "ffw_layer_end"):
            tensors |= norm(f"{at}{part}.pre_layer_norm", 16, False) | norm(f"{at}{part}.post_layer_norm", 16, False)
            tensors |= linear(f"{at}{part}.ffw_layer_1", 64, 16, False) | linear(f"{at}{part}.ffw_layer_2", 16, 64, False)
        tensors |= norm(f"{at}attention.pre_attn_norm", 16, False) | norm(f"{at}attention.post_norm", 16, False)
        tensors |= {f"{at}attention.attn.per_dim_scale": [8]} | linear(f"{at}attention.post", 16, 16, False)
        for part in ("q_proj", "k_proj", "v_proj", "relative_position_embedding.pos_proj"):
            tensors |= linear(f"{at}attention.attn.{part}", 16, 16, False)
        tensors |= norm(f"{at}lconv1d.pre_layer_norm", 16, False) | norm(f"{at}lconv1d.conv_norm", 16, False)
        tensors |= linear(f"{at}lconv1d.linear_start", 32, 16, False) | linear(f"{at}lconv1d.linear_end", 16, 16, False)
        tensors |= {f"{at}lconv1d.depthwise_conv1d.weight": [16, 1, 5], f"{at}norm.weight": [16]}
    for part, tokens, width in (("vision", 8, 2048), ("audio", 6, 16)):
        at = f"model.embed_{part}."
        tensors |= {f"{at}embedding.weight": [tokens, width]} | linear(f"{at}embedding_projection", 20, width, False)
        tensors |= norm(f"{at}hard_embedding_norm", width, False) | norm(f"{at}soft_embedding_norm", width, False)
    return tensors


def radio():
    """RADIO's ViT-H and the layers behind it."""
    at = "vision_model.radio_model.model.patch_generator."
    tensors = {f"{at}cls_token.token": [10, 1280], f"{at}embedder.weight": [1280, 48], f"{at}pos_embed": [1, 49, 1280]}
    tensors |= {f"{at}video_embedder.weight": [1280, 96], "vision_model.radio_model.input_conditioner.norm_mean": [3, 1, 1]}
    for layer in range(32):
        at = f"vision_model.radio_model.model.blocks.{layer}."
        tensors |= norm(f"{at}norm1", 1280) | norm(f"{at}norm2", 1280)
        tensors |= linear(f"{at}attn.qkv", 3840, 1280) | linear(f"{at}attn.proj", 1280, 1280)
        tensors |= linear(f"{at}mlp.fc1", 5120, 1280) | linear(f"{at}mlp.fc2", 1280, 5120)
    return tensors | norm("mlp1.0", 5120, False) | linear("mlp1.1", 24, 5120, False) | linear("mlp1.3", 20, 24, False)


def parakeet(bias):
    at = "sound_encoder.encoder.subsampling."
    tensors = linear(f"{at}linear", 16, 12)
    for place, inputs, size in ((0, 1, 3), (2, 1, 3), (3, 6, 1), (5, 1, 3), (6, 6, 1)):
        tensors |= {f"{at}layers.{place}.weight": [6, inputs, size, size], f"{at}layers.{place}.bias": [6]}
    at = "sound_encoder.encoder.feature_extractor.featurizer."
    tensors |= {f"{at}fb": [1, 16, 9], f"{at}window": [12]}
    for layer in range(2):
        at = f"sound_encoder.encoder.layers.{layer}."
        for part in ("feed_forward1", "feed_forward2"):
            tensors |= linear(f"{at}{part}.linear1", 28, 16, bias) | linear(f"{at}{part}.linear2", 16, 28, bias)
            tensors |= norm(f"{at}norm_{part}", 16)
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            tensors |= linear(f"{at}self_attn.{part}", 16, 16, bias)
        tensors |= linear(f"{at}self_attn.relative_k_proj", 16, 16, False)
        tensors |= {f"{at}self_attn.bias_{part}": [2, 8] for part in "uv"} | batch_norm(f"{at}conv.norm", 16)
        for part in ("norm_self_att", "norm_conv", "norm_out"):
            tensors |= norm(f"{at}{part}", 16)
        for part, shape in (("pointwise_conv1", [32, 16, 1]), ("depthwise_conv", [16, 1, 5]), ("pointwise_conv2", [16, 16, 1])):
            tensors |= {f"{at}conv.{part}.weight": shape} | ({f"{at}conv.{part}.bias": shape[:1]} if bias else {})
    at = "sound_projection."
    return tensors | norm(f"{at}norm", 16, False) | linear(f"{at}linear1", 22, 16, False) | linear(f"{at}linear2", 20, 22, False)


# Towers that the converter has one size for. Only the headers of their files are kept.
LARGE_TOWERS = {
    "nemotron_vl": (
        {
            "architectures": ["NemotronH_Nano_VL_V2"],
            "model_type": "nemotron_vl_tower",
            "llm_config": {**TEXT, "hidden_size": 20},
            "vision_config": {"patch_size": 4},
            "force_image_size": 20,
            "projector_hidden_size": 24,
        },
        radio(),
        "f16",
    ),
    "nemotron_omni": (
        {
            "architectures": ["NemotronH_Nano_Omni"],
            "model_type": "nemotron_omni_tower",
            "llm_config": {**TEXT, "hidden_size": 20},
            "vision_config": {"architectures": ["RADIOModel"], "patch_size": 4},
            "sound_config": {
                "hidden_size": 16,
                "intermediate_size": 28,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_mel_bins": 16,
                "subsampling_factor": 8,
                "subsampling_conv_channels": 6,
                "conv_kernel_size": 5,
                "projection_hidden_size": 22,
            },
            "force_image_size": 28,
            "downsample_ratio": 0.5,
            "projector_hidden_size": 24,
        },
        radio() | parakeet(True),
        "f16",
    ),
    "gemma3n": (
        {
            "architectures": ["Gemma3nForConditionalGeneration"],
            "model_type": "gemma3n_tower",
            "text_config": {**TEXT, "hidden_size": 20},
            "vision_config": {"architecture": "mobilenetv5_300m_enc", "model_args": None, "hidden_size": 2048, "vocab_size": 8},
            "audio_config": {
                "vocab_size": 6,
                "hidden_size": 16,
                "input_feat_size": 10,
                "conf_num_attention_heads": 2,
                "conf_num_hidden_layers": 2,
                "conf_conv_kernel_size": 5,
                "sscp_conv_channel_size": [8, 4],
                "sscp_conv_kernel_size": [[3, 3], [3, 3]],
                "sscp_conv_stride_size": [[2, 2], [2, 2]],
            },
        },
        gemma3n(),
        "f16",
    ),
    "step3_vl": (
        {
            "architectures": ["StepVLForConditionalGeneration"],
            "model_type": "step_robotics_tower",
            "text_config": TEXT,
            "understand_projector_stride": 2,
            "vision_config": {
                "width": 1536,
                "layers": 47,
                "heads": 16,
                "image_size": 728,
                "patch_size": 28,
                "mlp_ratio": 0.03125,
            },
        },
        step3_vl(),
        "f16",
    ),
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
    "deepseek4_vision": (
        {
            "architectures": ["DeepseekV4ForCausalLM"],
            "model_type": "deepseek_v4",
            **TEXT,
            "vision_n_layers": 3,
            "vision_dim": 16,
            "vision_n_heads": 2,
            "vision_inter_dim": 24,
            "vision_patch_size": 4,
            "vision_downsample_ratio": 3,
            "vision_min_pixels": 144,
            "vision_max_n_token": 384,
            "vision_max_wh_ratio": 8,
        },
        deepseek4_vision(),
        None,
        ["f16", "bf16"],
    ),
    "deepseek_ocr2": (
        {
            "architectures": ["DeepseekOCR2ForCausalLM"],
            "model_type": "deepseek_ocr2_tower",
            "language_config": TEXT,
            "vision_config": {
                "image_size": 64,
                "model_type": "vision",
                "patch_size": 16,
                "intermediate_size": 24,
                "num_attention_heads": 4,
                "layers": 4,
                "width": {"qwen2-0-5b": {"dim": 20}, "sam_vit_b": SAM},
            },
            "projector_config": {"input_dim": 20, "n_embed": 16, "projector_type": "linear"},
        },
        deepseek_ocr2(),
        {},
        ["f16"],
    ),
    "granite4_vision": (
        {
            "architectures": ["Granite4VisionForConditionalGeneration"],
            "model_type": "granite4_vision_tower",
            "text_config": {**TEXT, "hidden_size": 20, "num_hidden_layers": 4},
            "vision_config": {**VISION, "num_hidden_layers": 4, "model_type": "siglip_vision_model"},
            "qformer_config": {"hidden_size": 16, "intermediate_size": 28, "num_hidden_layers": 1, "encoder_hidden_size": 16},
            "downsample_rate": "2/4",
            "deepstack_layer_map": [[-1, 1], [-3, 2]],
            "spatial_vision_layer": -2,
            "spatial_target_layers": [0, 3],
            "image_grid_pinpoints": [[8, 16], [16, 8]],
        },
        granite4_vision(),
        {},
        ["f16", "bf16"],
    ),
    "lfm2_audio": (
        {
            "architectures": ["Lfm2AudioForConditionalGeneration"],
            "model_type": "lfm2_audio_tower",
            "lfm": {**TEXT, "hidden_size": 24},
            "encoder": {
                "feat_in": 8,
                "n_layers": 7,
                "d_model": 16,
                "n_heads": 2,
                "ff_expansion_factor": 2,
                "subsampling_factor": 8,
                "subsampling_conv_channels": 8,
                "conv_kernel_size": 9,
            },
        },
        lfm2_audio(),
        {},
        ["f16", "bf16"],
    ),
    "dots3_note": (
        {
            "architectures": ["Dots3NoteForConditionalGeneration"],
            "model_type": "dots3_note_tower",
            "text_config": {**TEXT, "hidden_size": 20},
            "vision_config": {
                "embed_dim": 16,
                "hidden_size": 20,
                "intermediate_size": 24,
                "num_hidden_layers": 3,
                "num_attention_heads": 2,
                "patch_size": 4,
                "spatial_merge_size": 2,
                "pyramid_num_routed": [-1, 2, 3],
                "capacity_factor": 2.0,
                "adapter_type": "patch_merger",
                "pre_pixel_shuffle": True,
                "rms_norm_eps": 1e-5,
                "use_qk_norm": True,
                "use_bias": False,
            },
            "audio_config": {
                "whisper_config": {**WHISPER, "encoder_layers": 4, "activation_function": "swiglu"},
                "use_conv2d_stem": True,
                "use_rope": True,
                "use_rms_norm": True,
                "use_causal": False,
                "chunk_seconds": 60,
                "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0},
            },
        },
        dots3_note(),
        {"vision_config": {"min_pixels": 64, "max_pixels": 256}},
        ["f16", "bf16"],
    ),
}
