"""Configurations and shapes of checkpoints for `gen_one_way.py`: classes that transformers does not have."""

from gen_architectures import SMALL

HIDDEN, INNER, VOCABULARY = 16, 24, 260


def layers(count, shapes, front="model.layers"):
    """The tensors of every layer: `shapes` gets the number of a layer."""
    return {f"{front}.{layer}.{name}": shape for layer in range(count) for name, shape in shapes(layer).items()}


def feed_forward(front, hidden, inner):
    return {f"{front}.{name}_proj.weight": (hidden, inner) if name == "down" else (inner, hidden) for name in ("gate", "up", "down")}


def experts(front, hidden, inner, count):
    each = [feed_forward(f"{front}.{expert}", hidden, inner) for expert in range(count)]
    return {name: shape for shapes in each for name, shape in shapes.items()}


def ends(hidden=HIDDEN, vocabulary=VOCABULARY, tied=False):
    """Embedding, final norm and head."""
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    return shapes if tied else shapes | {"lm_head.weight": (vocabulary, hidden)}


def norms(hidden=HIDDEN):
    return {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}


def attention(hidden, heads, groups, size):
    shapes = {"self_attn.q_proj.weight": (heads * size, hidden), "self_attn.o_proj.weight": (hidden, heads * size)}
    return shapes | {f"self_attn.{name}_proj.weight": (groups * size, hidden) for name in "kv"}


def phi4_vision():
    """Phi 4 with vision: the language model is Phi 3's, the towers are flat members of the same configuration."""
    config = {**SMALL, "architectures": ["Phi4ForCausalLMV"], "model_type": "phi4-siglip", "rms_norm_eps": 1e-5}
    config |= {"rope_theta": 500000.0, "original_max_position_embeddings": 128, "partial_rotary_factor": 0.5, "sliding_window": None}
    config |= {"tie_word_embeddings": False, "hidden_act": "silu", "vision_config": {"hidden_size": 8}}

    def layer(number):
        shapes = {"self_attn.qkv_proj.weight": (32, HIDDEN), "self_attn.o_proj.weight": (HIDDEN, HIDDEN)}
        return norms() | shapes | {"mlp.gate_up_proj.weight": (2 * INNER, HIDDEN), "mlp.down_proj.weight": (HIDDEN, INNER)}

    towers = {"model.vision_tower.vision_tower.vision_model.post_layernorm.weight": (8,), "model.mm_projector.0.weight": (HIDDEN, 8)}
    return config, ends() | layers(2, layer) | towers


def mamba():
    """Mamba in the form of its authors: other keys, and norms under another name."""
    config = {"architectures": ["MambaLMHeadModel"], "d_model": HIDDEN, "n_layer": 2, "vocab_size": VOCABULARY, "ssm_cfg": {}}
    config |= {"rms_norm": True, "residual_in_fp32": True, "fused_add_norm": True, "pad_vocab_size_multiple": 8}
    inner, state, rank = 2 * HIDDEN, 16, 1

    def layer(number):
        shapes = {"norm.weight": (HIDDEN,), "mixer.in_proj.weight": (2 * inner, HIDDEN), "mixer.conv1d.weight": (inner, 1, 4)}
        shapes |= {"mixer.conv1d.bias": (inner,), "mixer.x_proj.weight": (rank + 2 * state, inner), "mixer.dt_proj.weight": (inner, rank)}
        shapes |= {"mixer.dt_proj.bias": (inner,), "mixer.A_log": (inner, state), "mixer.D": (inner,)}
        return shapes | {"mixer.out_proj.weight": (HIDDEN, inner)}

    outer = {"backbone.embedding.weight": (264, HIDDEN), "backbone.norm_f.weight": (HIDDEN,)}
    # The head is the embedding, stored once more.
    return config, outer | {"lm_head.weight": "backbone.embedding.weight"} | layers(2, layer, "backbone.layers")


def puzzle():
    """Nemotron-H with experts of another size and number in every layer, in a space of fewer dimensions."""
    kinds = ["mamba", "moe", "attention", "moe"]
    sizes = {1: (8, 2), 3: (12, 1)}

    def block(number):
        inner, used = sizes.get(number, (None, None))
        return {"block_type": kinds[number], "moe_intermediate_size": inner, "num_experts_per_tok": used}

    config = {**SMALL, "architectures": ["NemotronHPuzzleForCausalLM"], "model_type": "nemotron_h_puzzle", "head_dim": 8}
    config |= {"block_configs": [block(number) for number in range(4)], "num_hidden_layers": 9, "layer_norm_epsilon": 1e-5, "vocab_size": 264}
    config |= {"mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 4, "conv_kernel": 4, "expand": 2}
    config |= {"n_routed_experts": 4, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 10, "moe_latent_size": 6}
    config |= {"norm_topk_prob": True, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1, "tie_word_embeddings": False}
    config |= {"num_nextn_predict_layers": 1, "mtp_block_configs": [{"block_type": "attention"}]}

    def layer(number):
        shapes = {"norm.weight": (HIDDEN,)}
        if kinds[number] == "mamba":
            shapes |= {"mixer.in_proj.weight": (148, HIDDEN), "mixer.conv1d.weight": (80, 1, 4), "mixer.conv1d.bias": (80,)}
            shapes |= {"mixer.dt_bias": (4,), "mixer.A_log": (4,), "mixer.D": (4,), "mixer.norm.weight": (64,)}
            return shapes | {"mixer.out_proj.weight": (HIDDEN, 64)}
        if kinds[number] == "attention":
            shapes |= {"mixer.q_proj.weight": (32, HIDDEN), "mixer.o_proj.weight": (HIDDEN, 32)}
            return shapes | {f"mixer.{name}_proj.weight": (16, HIDDEN) for name in "kv"}
        inner, _ = sizes[number]
        shapes |= {"mixer.gate.weight": (4, HIDDEN), "mixer.gate.e_score_correction_bias": (4,)}
        shapes |= {f"mixer.experts.{expert}.up_proj.weight": (inner, 6) for expert in range(4)}
        shapes |= {f"mixer.experts.{expert}.down_proj.weight": (6, inner) for expert in range(4)}
        shapes |= {"mixer.fc1_latent_proj.weight": (6, HIDDEN), "mixer.fc2_latent_proj.weight": (HIDDEN, 6)}
        return shapes | {"mixer.shared_experts.up_proj.weight": (10, HIDDEN), "mixer.shared_experts.down_proj.weight": (HIDDEN, 10)}

    outer = {"model.embeddings.weight": (264, HIDDEN), "model.norm_f.weight": (HIDDEN,), "lm_head.weight": (264, HIDDEN)}
    return config, outer | layers(4, layer) | {"mtp.layers.0.norm.weight": (HIDDEN,)}


def hunyuan_moe(vocabulary):
    """Hunyuan with experts: sizes are lists with a number for every layer."""
    config = {**SMALL, "architectures": ["HunYuanMoEV1ForCausalLM"], "model_type": "hunyuan_v1_moe", "hidden_size": 128}
    config |= {"num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": vocabulary, "max_position_embeddings": 32768}
    config |= {"num_experts": 2, "moe_topk": [1, 1], "moe_intermediate_size": [8, 8], "num_shared_expert": [1, 1], "intermediate_size": 8}
    config |= {"rope_theta": 10000.0, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}, "rms_norm_eps": 1e-5}
    config |= {"use_qk_norm": True, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 127960, "pad_token_id": 127961}

    def layer(number):
        shapes = norms(128) | attention(128, 1, 1, 128) | {f"self_attn.{name}_layernorm.weight": (128,) for name in ("query", "key")}
        shapes |= {"mlp.gate.wg.weight": (2, 128)} | experts("mlp.experts", 128, 8, 2)
        return shapes | feed_forward("mlp.shared_mlp", 128, 8)

    return config, ends(128, vocabulary, tied=True) | layers(2, layer)


def qwen(vocabulary):
    """The first Qwen: fused attention with biases, and a feed-forward network of half the declared size."""
    config = {"architectures": ["QWenLMHeadModel"], "model_type": "qwen", "hidden_size": HIDDEN, "intermediate_size": 2 * INNER}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4, "kv_channels": 4, "max_position_embeddings": 8192, "seq_length": 8192}
    config |= {"layer_norm_epsilon": 1e-6, "rotary_emb_base": 10000, "rotary_pct": 1.0, "no_bias": True, "vocab_size": vocabulary}
    config |= {"tie_word_embeddings": False, "use_dynamic_ntk": True, "use_logn_attn": True}

    def layer(number):
        shapes = {"ln_1.weight": (HIDDEN,), "ln_2.weight": (HIDDEN,), "attn.c_attn.weight": (3 * HIDDEN, HIDDEN)}
        shapes |= {"attn.c_attn.bias": (3 * HIDDEN,), "attn.c_proj.weight": (HIDDEN, HIDDEN), "mlp.c_proj.weight": (HIDDEN, INNER)}
        return shapes | {f"mlp.{name}.weight": (INNER, HIDDEN) for name in ("w1", "w2")}

    outer = {"transformer.wte.weight": (vocabulary, HIDDEN), "transformer.ln_f.weight": (HIDDEN,), "lm_head.weight": (vocabulary, HIDDEN)}
    return config, outer | layers(2, layer, "transformer.h")


def granite_speech(name):
    """Granite as the language model of a speech model."""
    text = {**SMALL, "architectures": ["GraniteForCausalLM"], "model_type": "granite", "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
    text |= {"attention_multiplier": 0.25, "embedding_multiplier": 12.0, "residual_multiplier": 0.5, "logits_scaling": 8.0}
    text |= {"tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False}
    config = {"architectures": [name], "model_type": "granite_speech", "text_config": text, "encoder_config": {"hidden_dim": 8}}

    def layer(number):
        return norms() | attention(HIDDEN, 4, 2, 4) | feed_forward("mlp", HIDDEN, INNER)

    inner = {f"language_model.{name}": shape for name, shape in (ends(tied=True) | layers(2, layer)).items()}
    return config, inner | {"encoder.input_linear.weight": (8, 8), "projector.linear.weight": (HIDDEN, 8)}


def granite_switch():
    """Granite with adapters that control tokens switch on: one layer fewer than declared, and factors for every adapter."""
    config = {**SMALL, "architectures": ["GraniteSwitchForCausalLM"], "model_type": "granite_switch", "num_hidden_layers": 3}
    config |= {"attention_multiplier": 0.25, "embedding_multiplier": 12.0, "residual_multiplier": 0.5, "logits_scaling": 8.0}
    config |= {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "shared_intermediate_size": INNER}
    config |= {"num_local_experts": 0, "num_experts_per_tok": 2, "num_adapters": 2, "max_lora_rank": 3, "control_token_gain": 12.5}
    config |= {"adapter_token_ids": [250, 251], "adapter_substitute_token_ids": [100, 101]}

    def factors(front, inputs, outputs):
        """The factors of a module, which has several parts if `outputs` is a list."""
        if isinstance(outputs, int):
            return {f"{front}.lora_A": (2, 1, 3, inputs), f"{front}.lora_B": (2, 1, outputs, 3)}
        first = {f"{front}.lora_A_slices.{part}": (2, 1, 3, inputs) for part in range(len(outputs))}
        return first | {f"{front}.lora_B_slices.{part}": (2, 1, rows, 3) for part, rows in enumerate(outputs)}

    def layer(number):
        shapes = norms() | {"self_attn.qkv_proj.base_layer.weight": (32, HIDDEN), "self_attn.o_proj.base_layer.weight": (HIDDEN, HIDDEN)}
        shapes |= {"shared_mlp.input_linear.base_layer.weight": (2 * INNER, HIDDEN)}
        shapes |= {"shared_mlp.output_linear.base_layer.weight": (HIDDEN, INNER)}
        shapes |= factors("self_attn.qkv_proj", HIDDEN, [16, 8, 8]) | factors("self_attn.o_proj", HIDDEN, HIDDEN)
        return shapes | factors("shared_mlp.input_linear", HIDDEN, [INNER, INNER]) | factors("shared_mlp.output_linear", INNER, HIDDEN)

    return config, ends(tied=True) | layers(2, layer) | {"model.switch.control": (2,)}
