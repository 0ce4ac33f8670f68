"""Configurations and shapes of checkpoints for `gen_one_way.py`: classes that transformers does not have."""

import torch
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


def integers(least, end, shape, dtype=torch.uint8):
    return torch.randint(least, end, shape, dtype=dtype)


def kimi_k3(is_packed):
    """Kimi K3: delta attention and gated latent attention, experts in a space of fewer dimensions, residual scores."""
    heads, size, rank, latent = 2, 8, 12, 32
    linear = {"full_attn_layers": [2, 4], "kda_layers": [1, 3], "num_heads": heads, "head_dim": size, "short_conv_kernel_size": 4}
    linear |= {"gate_lower_bound": -5.0} if is_packed else {}
    text = {**SMALL, "model_type": "kimi_linear", "num_hidden_layers": 4, "num_attention_heads": heads, "num_key_value_heads": heads}
    text |= {"linear_attn_config": linear, "kv_lora_rank": 12, "q_lora_rank": rank if is_packed else None, "qk_nope_head_dim": 4}
    text |= {"qk_rope_head_dim": 2, "v_head_dim": 6, "mla_use_nope": True, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
    text |= {"num_experts": 2, "num_experts_per_token": 1, "num_shared_experts": 1, "moe_intermediate_size": 32, "first_k_dense_replace": 1}
    text |= {"routed_scaling_factor": 2.5, "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "moe_layer_freq": 1}
    text |= {"hidden_act": "situ", "activation_situ_beta": 2.0, "activation_situ_linear_beta": 4.0, "attn_res_block_size": 2}
    text |= {"num_expert_group": 1, "topk_group": 1, "tie_word_embeddings": False, "eos_token_id": 258}
    text |= {"routed_expert_hidden_size": latent} if is_packed else {}
    config = {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "text_config": text, "vision_config": {"hidden_size": 8}}
    if is_packed:
        weights = {"num_bits": 4, "type": "float", "group_size": 32, "strategy": "group", "symmetric": True, "dynamic": False}
        group = {"targets": ["Linear"], "weights": weights | {"scale_dtype": "torch.uint8"}, "format": "mxfp4-pack-quantized"}
        ignored = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "re:.*routed_expert_.*"]
        described = {"config_groups": {"group_0": group}, "format": "mxfp4-pack-quantized", "ignore": ignored}
        config["quantization_config"] = {"quant_method": "compressed-tensors", "quantization_status": "compressed", **described}

    def expert(front):
        if not is_packed:
            return {f"{front}.{name}.weight": (HIDDEN, 32) if name == "w2" else (32, HIDDEN) for name in ("w1", "w2", "w3")}
        shapes = {f"{front}.{name}.weight_packed": lambda: integers(0, 256, (32, 16)) for name in ("w1", "w2", "w3")}
        return shapes | {f"{front}.{name}.weight_scale": lambda: integers(118, 128, (32, 1)) for name in ("w1", "w2", "w3")}

    def layer(number):
        shapes = norms() | {f"{name}_res_norm.weight": (HIDDEN,) for name in ("self_attention", "mlp")}
        shapes |= {f"{name}_res_proj.weight": (1, HIDDEN) for name in ("self_attention", "mlp")}
        if number % 2 == 0:
            inner = heads * size
            shapes |= {f"self_attn.{name}_proj.weight": (inner, HIDDEN) for name in "qkvg"}
            shapes |= {f"self_attn.{name}_conv1d.weight": (inner, 1, 4) if is_packed else (inner, 4) for name in "qkv"}
            shapes |= {"self_attn.f_a_proj.weight": (size, HIDDEN), "self_attn.f_b_proj.weight": (inner, size)}
            shapes |= {"self_attn.b_proj.weight": (heads, HIDDEN), "self_attn.A_log": (heads,), "self_attn.dt_bias": (inner,)}
            shapes |= {"self_attn.o_norm.weight": (size,), "self_attn.o_proj.weight": (HIDDEN, inner)}
        else:
            if is_packed:
                shapes |= {"self_attn.q_a_proj.weight": (rank, HIDDEN), "self_attn.q_a_layernorm.weight": (rank,)}
                shapes |= {"self_attn.q_b_proj.weight": (heads * 6, rank), "self_attn.g_proj.weight": (heads * 6, HIDDEN)}
            else:
                shapes["self_attn.q_proj.weight"] = (heads * 6, HIDDEN)
            shapes |= {"self_attn.kv_a_proj_with_mqa.weight": (14, HIDDEN), "self_attn.kv_a_layernorm.weight": (12,)}
            shapes |= {"self_attn.kv_b_proj.weight": (heads * 10, 12), "self_attn.o_proj.weight": (HIDDEN, heads * 6)}
        if number == 0:
            return shapes | feed_forward("mlp", HIDDEN, INNER)
        for number in range(2):
            shapes |= expert(f"block_sparse_moe.experts.{number}")
        if is_packed:
            shapes |= {"block_sparse_moe.routed_expert_down_proj.weight": (latent, HIDDEN)}
            shapes |= {"block_sparse_moe.routed_expert_up_proj.weight": (HIDDEN, latent), "block_sparse_moe.routed_expert_norm.weight": (latent,)}
        shapes |= {"block_sparse_moe.gate.weight": (2, HIDDEN), "block_sparse_moe.gate.e_score_correction_bias": (2,)}
        return shapes | feed_forward("block_sparse_moe.shared_experts", HIDDEN, 32)

    outer = {"model.output_attn_res_norm.weight": (HIDDEN,), "model.output_attn_res_proj.weight": (1, HIDDEN)}
    inner = {f"language_model.{name}": shape for name, shape in (ends() | outer | layers(4, layer)).items()}
    return config, inner | {"vision_tower.patch_embed.proj.weight": (8, 8), "mm_projector.proj.0.weight": (HIDDEN, 8)}


def with_vocabulary(config, shapes, size):
    """The same model with another number of tokens."""
    inner = {"text_config": config["text_config"] | {"vocab_size": size}} if "text_config" in config else {"vocab_size": size}
    ends = ("embed_tokens.weight", "lm_head.weight")
    return config | inner, {name: (size, HIDDEN) if name.endswith(ends) else shape for name, shape in shapes.items()}


def kimi_k2():
    """Kimi K2: DeepSeek V3 with one layer, which has no experts."""
    config = {**SMALL, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "num_hidden_layers": 1, "num_attention_heads": 2}
    config |= {"num_key_value_heads": 2, "q_lora_rank": 12, "kv_lora_rank": 12, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 6}
    config |= {"first_k_dense_replace": 1, "n_routed_experts": 2, "n_shared_experts": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
    config |= {"routed_scaling_factor": 2.5, "norm_topk_prob": True, "scoring_func": "sigmoid", "rms_norm_eps": 1e-6, "rope_theta": 50000.0}
    config |= {"n_group": 1, "topk_group": 1, "bos_token_id": 268, "eos_token_id": 271, "tie_word_embeddings": False}
    attention = {"q_a_proj": (12, HIDDEN), "q_a_layernorm": (12,), "q_b_proj": (12, 12), "kv_a_proj_with_mqa": (14, HIDDEN)}
    attention |= {"kv_a_layernorm": (12,), "kv_b_proj": (20, 12), "o_proj": (HIDDEN, 12)}
    layer = norms() | {f"self_attn.{name}.weight": shape for name, shape in attention.items()} | feed_forward("mlp", HIDDEN, INNER)
    return config, ends() | layers(1, lambda number: layer)


def arwkv7(is_gated):
    """Qwen 2 with the time mix of RWKV 7. Without gates, the mixes of a layer are one tensor."""
    config = {**SMALL, "architectures": ["RwkvHybridForCausalLM"], "model_type": "rwkv_hybrid", "head_size": 8, "rms_norm_eps": 1e-6}
    config |= {"wkv_version": 7, "wkv_has_gate": is_gated, "wkv_has_group_norm": is_gated, "wkv_layers": "full", "tie_word_embeddings": False}
    ranks = {"w": 64, "a": 64, "v": 32} | ({"g": 128} if is_gated else {})

    def layer(number):
        front = "self_attn.time_mixer"
        mixes = {f"{front}.x_{name}": (1, 1, HIDDEN) for name in "rwkvag"} if is_gated else {f"{front}.x_x": (5, 1, 1, HIDDEN)}
        shapes = norms() | mixes | feed_forward("mlp", HIDDEN, INNER) | {f"{front}.r_k": (2, 8)}
        for name, rank in ranks.items():
            # The first layer of some models has no values of a layer before it.
            if name == "v" and number == 0 and is_gated:
                continue
            shapes |= {f"{front}.{name}1": (HIDDEN, rank), f"{front}.{name}2": (rank, HIDDEN)}
            shapes |= {f"{front}.{name}0": (1, 1, HIDDEN)} if name != "g" else {}
        shapes |= {f"{front}.{name}": (1, 1, HIDDEN) for name in ("k_k", "k_a")}
        shapes |= {f"{front}.ln_x.{name}": (HIDDEN,) for name in ("weight", "bias")} if is_gated else {}
        return shapes | {f"{front}.{name}.weight": (HIDDEN, HIDDEN) for name in ("receptance", "key", "value", "output")}

    return config, ends() | layers(2, layer)


def qwen4exp(members, is_nested):
    """Qwen 4 Exp: hyper-connections of two streams, an indexer in full attention, embeddings of n-grams in the first layer."""
    kinds = ["linear_attention", "full_attention", "linear_attention"]
    # Under its own model type, transformers would rename the layers that the converter looks for.
    text = {**SMALL, "model_type": "qwen4_exp_text_tiny", "num_hidden_layers": 3, "head_dim": 8, "layer_types": kinds, "rms_norm_eps": 1e-6}
    text |= {"linear_conv_kernel_dim": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 6, "linear_num_key_heads": 2}
    text |= {"linear_num_value_heads": 4, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    text |= {"shared_expert_intermediate_size": 12, "hc_count": 2, "hc_lowrank": 5, "indexer_n_heads": 2, "indexer_kv_heads": 1}
    text |= {"indexer_head_dim": 6, "indexer_budget": 64, "indexer_compress_ratio": 4, "tie_word_embeddings": False}
    text |= {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 0, 0]}}
    text |= {"ngram_size": 3, "heads_per_ngram": 2, "split_ngram_parts": 3, "ple_conv_kernel_size": 4, **members}
    has_ngrams = bool(text.get("ple_layer_ids"))
    streams, inner = 2 * HIDDEN, 24

    def connection(front):
        shapes = {f"{front}.hc_norm.weight": (streams,), f"{front}.input_mix_weight_down.weight": (5, streams)}
        return shapes | {f"{front}.input_mix_weight_up.weight": (streams, 5)}

    def ngrams():
        shapes = {f"norm_{name}.weight": (streams,) for name in ("key", "query", "conv")} | {"conv1d.weight": (streams, 1, 4)}
        shapes |= {"key_proj.weight": (streams, HIDDEN), "value_proj.weight": (HIDDEN, HIDDEN)}
        # The last part is shorter.
        shapes |= {f"ple_embedding.ngram_embedding.shard_{part}.weight": (rows, 4) for part, rows in enumerate((20, 20, 12))}
        shapes |= {"ple_embedding.layer_multipliers": torch.tensor([23703573184127, 8123456789, 3]), "ple_embedding.ngram_heads_offsets": torch.tensor([0, 11, 24, 41])}
        return shapes | {"ple_embedding.ngram_heads_vocab_sizes": torch.tensor([11, 13, 17, 11])}

    def layer(number):
        shapes = connection("attn_hyper_connection") | connection("mlp_hyper_connection")
        shapes |= {f"{name}_hyper_connection.block_inject_weight.weight": (2, streams) for name in ("attn", "mlp")}
        if kinds[number] == "full_attention":
            shapes |= attention(HIDDEN, 4, 2, 8) | {"self_attn.q_proj.weight": (64, HIDDEN)} | {f"self_attn.{name}_norm.weight": (8,) for name in "qk"}
            shapes |= {"self_attn.indexer.index_qk_proj.weight": (18, HIDDEN)} | {f"self_attn.indexer.{name}_layernorm.weight": (6,) for name in "qk"}
        else:
            shapes |= {"linear_attn.in_proj_qkv.weight": (40, HIDDEN), "linear_attn.in_proj_z.weight": (inner, HIDDEN)}
            shapes |= {f"linear_attn.in_proj_{name}.weight": (4, HIDDEN) for name in "ab"} | {"linear_attn.conv1d.weight": (40, 1, 4)}
            shapes |= {"linear_attn.A_log": (4,), "linear_attn.dt_bias": (4,), "linear_attn.norm.weight": (6,), "linear_attn.out_proj.weight": (HIDDEN, inner)}
        if has_ngrams and number == 0:
            shapes |= {f"ple.{name}": shape for name, shape in ngrams().items()}
        shapes |= {"mlp.gate.weight": (3, HIDDEN), "mlp.shared_expert_gate.weight": (1, HIDDEN)} | feed_forward("mlp.shared_expert", HIDDEN, 12)
        return shapes | experts("mlp.experts", HIDDEN, 8, 3)

    outer = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "lm_head.weight": (VOCABULARY, HIDDEN)} | connection("model.hyper_connection_mixer")
    shapes = outer | layers(3, layer) | {"mtp.fc.weight": (HIDDEN, 2 * HIDDEN), "mtp.norm.weight": (HIDDEN,)}
    if not is_nested:
        return {**text, "architectures": ["Qwen4ExpForCausalLM"]}, shapes
    config = {"architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen4_exp_tiny", "text_config": text, "image_token_id": 250}
    config |= {"vision_config": {"hidden_size": 8}, "tie_word_embeddings": False}
    inner_names = {name.replace("model.", "model.language_model.", 1): shape for name, shape in shapes.items()}
    return config, inner_names | {"model.visual.patch_embed.proj.weight": (8, 8)}


def dots3_note(has_towers):
    """dots3-note: latent attention of other sizes in layers with a sliding window, which that for multi-token prediction has, too."""
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    rank, vocabulary, rotated = 6, 264, 2
    # The heads, the rank of keys and values, and the sizes of a head's keys and values.
    sizes = {"full_attention": (4, 12, 4, 6), "sliding_attention": (2, 20, 6, 5)}
    config = {**SMALL, "num_hidden_layers": 4, "vocab_size": vocabulary, "layer_types": kinds, "rms_norm_eps": 1e-5, "head_dim": 8}
    config |= {"q_lora_rank": rank, "kv_lora_rank": 12, "qk_nope_head_dim": 4, "qk_rope_head_dim": rotated, "v_head_dim": 6}
    config |= {"swa_num_attention_heads": 2, "swa_q_lora_rank": rank, "swa_kv_lora_rank": 20, "swa_qk_nope_head_dim": 6, "swa_v_head_dim": 5}
    config |= {"swa_qk_rope_head_dim": rotated, "swa_head_dim": 8, "sliding_window_size": 33, "rope_theta": 8e6, "swa_rope_theta": 5e4}
    config |= {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 16, "scoring_func": "sigmoid", "topk_method": "noaux_tc", "n_group": 1, "topk_group": 1}
    config |= {"n_routed_experts": 3, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "first_k_dense_replace": 1}
    config |= {"routed_scaling_factor": 2.5, "norm_topk_prob": True, "tie_word_embeddings": False, "attention_gate_type": "headwise"}
    config |= {"apply_mla_qkv_lora_rescale": has_towers, "model_type": "dots3_note_tiny"}

    def layer(number):
        kind = kinds[number] if number < 4 else "sliding_attention"
        heads, latent, keys, values = sizes[kind]
        shapes = norms() | {"self_attn.q_a_proj.weight": (rank, HIDDEN), "self_attn.q_a_layernorm.weight": (rank,)}
        shapes |= {"self_attn.q_b_proj.weight": (heads * (keys + rotated), rank), "self_attn.g_proj.weight": (heads, HIDDEN)}
        shapes |= {"self_attn.kv_a_proj_with_mqa.weight": (latent + rotated, HIDDEN), "self_attn.kv_a_layernorm.weight": (latent,)}
        shapes |= {"self_attn.k_rope_only_layernorm.weight": (rotated,), "self_attn.kv_b_proj.weight": (heads * (keys + values), latent)}
        shapes["self_attn.o_proj.weight"] = (HIDDEN, heads * values)
        if kind == "full_attention":
            shapes |= {"self_attn.indexer.wq_b.weight": (16, rank), "self_attn.indexer.wk.weight": (8, HIDDEN)}
            shapes |= {"self_attn.indexer.k_norm.weight": (8,), "self_attn.indexer.k_norm.bias": (8,), "self_attn.indexer.weights_proj.weight": (2, HIDDEN)}
        if number >= 4:
            shapes |= {"eh_proj.weight": (HIDDEN, 2 * HIDDEN), "shared_head.norm.weight": (HIDDEN,)}
            shapes |= {f"{name}norm.weight": (HIDDEN,) for name in "eh"}
        if number in (0, 4):
            return shapes | feed_forward("mlp", HIDDEN, INNER)
        shapes |= {"mlp.gate.weight": (3, HIDDEN), "mlp.gate.e_score_correction_bias": (3,)}
        return shapes | experts("mlp.experts", HIDDEN, 8, 3) | feed_forward("mlp.shared_experts", HIDDEN, 8)

    if not has_towers:
        return {**config, "architectures": ["Dots3NoteTextForCausalLM"]}, ends(HIDDEN, vocabulary) | layers(4, layer)
    config |= {"architectures": ["Dots3NoteForConditionalGeneration"], "vision_config": {"embed_dim": 8}, "audio_config": {"chunk_seconds": 60}}
    towers = {"vision_encoder.patch_embed.norm.weight": (8,), "audio_encoder.audio_adapter.proj.0.weight": (8,)}
    return config, ends(HIDDEN, vocabulary) | layers(5, layer) | {"model.mtp.embed_tokens.weight": (vocabulary, HIDDEN)} | towers


def lfm25_detokenizer():
    """The detokenizer of LFM 2.5 Audio: LFM 2 with a window, the embeddings of codes before it and spectra behind it."""
    kinds = ["conv", "sliding_attention", "conv"]
    config = {"architectures": ["Lfm25AudioTokenizer"], "model_type": "lfm2", **SMALL, "num_hidden_layers": 3, "layer_types": kinds}
    config |= {"sliding_window": 30, "output_size": 22, "conv_L_cache": 3, "conv_bias": False, "norm_eps": 1e-5, "rope_theta": 1000000.0}
    config |= {"block_auto_adjust_ff_dim": False, "block_ffn_dim_multiplier": None, "block_multiple_of": 8, "block_ff_dim": INNER}
    config |= {"tie_word_embeddings": True}

    def layer(number):
        shapes = {"operator_norm.weight": (HIDDEN,), "ffn_norm.weight": (HIDDEN,)}
        shapes |= {f"feed_forward.{name}.weight": (HIDDEN, INNER) if name == "w2" else (INNER, HIDDEN) for name in ("w1", "w2", "w3")}
        if kinds[number] == "conv":
            shapes |= {"conv.conv.weight": (HIDDEN, 1, 3), "conv.in_proj.weight": (3 * HIDDEN, HIDDEN)}
            return shapes | {"conv.out_proj.weight": (HIDDEN, HIDDEN)}
        size = HIDDEN // config["num_attention_heads"]
        shapes |= {f"self_attn.{name}_layernorm.weight": (size,) for name in "qk"}
        shapes |= {"self_attn.q_proj.weight": (HIDDEN, HIDDEN), "self_attn.out_proj.weight": (HIDDEN, HIDDEN)}
        return shapes | {f"self_attn.{name}_proj.weight": (config["num_key_value_heads"] * size, HIDDEN) for name in "kv"}

    shapes = {"lfm.embed_tokens.weight": (VOCABULARY, HIDDEN), "lfm.embedding_norm.weight": (HIDDEN,)} | layers(3, layer, "lfm.layers")
    shapes |= {"lin.weight": (22, HIDDEN), "lin.bias": (22,), "emb.emb.weight": (12, HIDDEN), "istft.window": (20,)}
    return config, shapes


def qwen3tts():
    """Qwen 3 TTS: the talker, beside the predictor of further codes and the speaker encoder, which are in the projector's file."""
    codes, texts, inner = 40, 20, 28
    ids = {"codec_bos_id": 30, "codec_eos_token_id": 31, "codec_language_id": {"english": 32, "chinese": 34}, "codec_pad_id": 33, "spk_id": {}}
    sizes = {key: value for key, value in SMALL.items() if not key.endswith("_id")}
    talker = {**sizes, "head_dim": 8, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "text_hidden_size": texts}
    talker |= {"rope_scaling": {"interleaved": True, "mrope_section": [2, 1, 1], "rope_type": "default", "type": "default"}}
    talker |= {"vocab_size": codes, "text_vocab_size": VOCABULARY, "codec_bos_token_id": None, "tie_word_embeddings": False, **ids}
    talker |= {"code_predictor_config": {"hidden_size": 8}}
    config = {"architectures": ["Qwen3TTSForConditionalGeneration"], "model_type": "qwen3_tts", "talker_config": talker}
    config |= {"speaker_encoder_config": {"enc_dim": HIDDEN}, "tts_bos_token_id": 256, "tts_model_type": "base"}

    def layer(_):
        shapes = norms() | attention(HIDDEN, 4, 2, 8) | feed_forward("mlp", HIDDEN, INNER)
        return shapes | {f"self_attn.{name}_norm.weight": (8,) for name in "qk"}

    shapes = {"model.norm.weight": (HIDDEN,), "codec_head.weight": (codes, HIDDEN)} | layers(2, layer)
    shapes |= {"model.codec_embedding.weight": (codes, HIDDEN), "model.text_embedding.weight": (VOCABULARY, texts)}
    shapes |= {"text_projection.linear_fc1.weight": (inner, texts), "text_projection.linear_fc1.bias": (inner,)}
    shapes |= {"text_projection.linear_fc2.weight": (HIDDEN, inner), "text_projection.linear_fc2.bias": (HIDDEN,)}
    shapes |= {"code_predictor.model.norm.weight": (8,)}
    return config, {f"talker.{name}": shape for name, shape in shapes.items()} | {"speaker_encoder.fc.weight": (HIDDEN, 8, 1)}
