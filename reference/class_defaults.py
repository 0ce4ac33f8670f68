#!/usr/bin/env python3
"""Writes the defaults of transformers' configuration classes as a table, one model type per line.

usage: class_defaults.py MODEL_TYPE.. > crates/anamnesis/src/architecture/class_defaults.txt

    MODEL_TYPE > TEXT_MODEL_TYPE       the type of the language model inside a multimodal configuration
    MODEL_TYPE KEY=VALUE ..            the keys that `config.json` may leave out

A value is a number, `true`, `false`, another key (`num_key_value_heads=num_attention_heads`) or the quotient of two
(`head_dim=hidden_size/num_attention_heads`). Keys that follow from others in another way are left out, as are lists.
"""
import sys
from transformers import CONFIG_MAPPING

IGNORED = set("""architectures transformers_version dtype torch_dtype _name_or_path chunk_size_feed_forward is_encoder_decoder
 output_attentions output_hidden_states return_dict problem_type use_cache initializer_range id2label label2id
 attention_dropout bos_token_id eos_token_id pretraining_tp router_aux_loss_coef output_router_logits resid_pdrop
 embd_pdrop hidden_dropout cross_attention_hidden_size add_cross_attention is_decoder hidden_act router_jitter_noise model_type
 attn_pdrop dropout emb_pdrop use_mamba_kernels rescale_prenorm_residual residual_in_fp32 attention_probs_dropout_prob
 hidden_dropout_prob classifier_dropout time_step_min time_step_max time_step_floor""".split())
CHANGES = [dict(hidden_size=768), dict(num_attention_heads=6), dict(num_hidden_layers=3), dict(hidden_size=1536, num_attention_heads=12),
           dict(n_embd=768), dict(d_model=768), dict(qk_rope_head_dim=32), dict(intermediate_size=1111)]


def flat(config):
    out = {}
    for key, value in config.to_dict().items():
        if key in ("rope_parameters", "rope_scaling") and isinstance(value, dict):
            full, sliding = value.get("full_attention", value), value.get("sliding_attention") or {}
            for name in ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings"):
                if isinstance(full, dict) and full.get(name) is not None:
                    out.setdefault(name, full[name])
            if sliding.get("rope_theta") is not None:
                out["rope_local_base_freq"] = sliding["rope_theta"]
        elif key not in IGNORED and isinstance(value, (bool, int, float)):
            out[key] = value
    return out


def line(kind):
    base = flat(CONFIG_MAPPING[kind]())
    derived = set()
    same = {k for k in base if k == "num_key_value_heads"}
    quotient = {k for k in base if k == "head_dim"}
    for change in CHANGES:
        change = {k: v for k, v in change.items() if k in base}
        if not change:
            continue
        try:
            other = flat(CONFIG_MAPPING[kind](**change))
        except Exception:
            continue
        for key in base:
            if key not in change and other.get(key) != base[key]:
                derived.add(key)
            if key == "num_key_value_heads" and other.get(key) != other.get("num_attention_heads"):
                same.discard(key)
            if key == "head_dim" and other.get("num_attention_heads") and other.get(key) != other["hidden_size"] // other["num_attention_heads"]:
                quotient.discard(key)
    words = []
    for key, value in sorted(base.items()):
        if key in same and key in derived:
            words.append(f"{key}=num_attention_heads")
        elif key in quotient and key in derived:
            words.append(f"{key}=hidden_size/num_attention_heads")
        elif key not in derived:
            words.append(f"{key}={str(value).lower() if isinstance(value, bool) else repr(value)}")
    return " ".join([kind, *words])


for kind in sorted(set(sys.argv[1:])):
    if kind not in CONFIG_MAPPING:
        continue
    try:
        text = getattr(CONFIG_MAPPING[kind](), "text_config", None)
    except Exception:
        text = None
    if text is not None and text.model_type != kind:
        print(kind, ">", text.model_type)
        continue
    try:
        print(line(kind))
    except Exception as error:
        print(kind, error, file=sys.stderr)
