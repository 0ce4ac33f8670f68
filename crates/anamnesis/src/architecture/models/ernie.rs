//! Ernie 4.5, dense and with experts, and PaddleOCR-VL.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static DENSE_MODEL: Architecture = Architecture {
    name: "ernie4_5",
    classes: &[class("Ernie4_5ForCausalLM", "ernie4_5"), class("Ernie4_5_ForCausalLM", "ernie4_5")],
    ..ERNIE
};

pub(super) static PADDLE_OCR: Architecture = Architecture {
    name: "paddleocr",
    classes: &[class("PaddleOCRVLForConditionalGeneration", "paddleocr_vl")],
    ..ERNIE
};

const ERNIE: Architecture = Architecture {
    renames: &[Rename::Anywhere("ernie.", "model.")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, GATED_FFN_BIASED, FUSED],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Required,
        overrides: TokenOverrides { space_prefix: true, ..NO_OVERRIDES },
        ..BPE
    },
    ..PLAIN
};

const ALL: Size = ONE;
const QKV: &[Size] = &[Q_DIM, KV_DIM, KV_DIM];

/// Projections that some checkpoints store as one.
const FUSED: &[Rule] = &[
    layer("self_attn.qkv_proj.weight", "attn_q.weight", &[Q_DIM, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: ALL,
        parts: QKV,
        first: 0,
        count: 1,
    })]),
    layer("self_attn.qkv_proj.weight", "attn_k.weight", &[KV_DIM, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: ALL,
        parts: QKV,
        first: 1,
        count: 1,
    })]),
    layer("self_attn.qkv_proj.weight", "attn_v.weight", &[KV_DIM, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: ALL,
        parts: QKV,
        first: 2,
        count: 1,
    })]),
    layer("mlp.up_gate_proj.weight", "ffn_gate.weight", &[FFN, HIDDEN]).with(&[Change::First(Halves::Rows)]),
    layer("mlp.up_gate_proj.weight", "ffn_up.weight", &[FFN, HIDDEN]).with(&[Change::Second(Halves::Rows)]),
];

pub(super) static MOE: Architecture = Architecture {
    name: "ernie4_5-moe",
    classes: &[class("Ernie4_5_MoeForCausalLM", "ernie4_5_moe")],
    dropped: &["model.mtp_block.", "model.mtp_emb_norm.", "model.mtp_hidden_norm.", "model.mtp_linear_proj."],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, GATED_FFN_BIASED, STATICS, GATE_FIRST_EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, MOE_KEYS],
    ..ERNIE
};

const STATICS: &[Rule] =
    &[layer("mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", &[ONE, EXPERT_COUNT]).when(OPTIONAL_SPARSE)];

/// Experts in the order gate, up, down.
pub(super) const GATE_FIRST_EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
];

const MOE_KEYS: &[Key] = &[
    count("expert_count", &["moe_num_experts"]),
    count("expert_used_count", &["moe_k"]),
    count("interleave_moe_layer_step", &["moe_layer_interval"]),
    count("leading_dense_block_count", &["moe_layer_start_index"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_count", &["moe_num_shared_experts"]),
    count_fn("expert_shared_feed_forward_length", |config| {
        let shared = config.count(&["moe_num_shared_experts"])?.unwrap_or(0);
        match (config.count(&["intermediate_size"])?, config.get("num_key_value_heads")) {
            (Some(inner), Some(_)) if shared > 0 => Ok(Some(inner / config.divisor("num_key_value_heads")?)),
            _ => Ok(None),
        }
    }),
];
