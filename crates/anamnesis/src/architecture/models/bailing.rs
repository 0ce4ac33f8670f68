//! Bailing (Ling) MoE, its second version, and Sarvam MoE.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static V1: Architecture = Architecture {
    name: "bailingmoe",
    classes: &[class("BailingMoeForCausalLM", "bailing_moe")],
    read_tensors: &[read(HEAD, Measure::ColumnNorms)],
    rules: &[EMBED, HEADS_OF_V1, NORMS, SPLIT_ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, V1_KEYS],
    restore: None,
    not_held: Some("the lengths of the columns of lm_head, by which it is divided"),
    ..PLAIN
};

const HEAD: &str = "lm_head.weight";
/// The head; the columns of models with `norm_head` are normed.
const HEADS_OF_V1: &[Rule] = &[
    model(HEAD, "output.weight", &[VOCAB, HIDDEN]).with(&[Change::OverColumnNorms(HEAD)]).when(NORMED),
    model(HEAD, "output.weight", &[VOCAB, HIDDEN]).when(PLAIN_HEAD),
];
const NORMED: Need = Need::When("norm_head", |config, _| {
    Ok(if config.is_set("norm_head")? { Presence::Allowed } else { Presence::Surplus })
});
const PLAIN_HEAD: Need = Need::When("norm_head", |config, _| {
    Ok(if config.is_set("norm_head")? { Presence::Surplus } else { Presence::Allowed })
});

const EMBED: &[Rule] = &[
    model("model.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
];

const HEAD_RULE: &[Rule] = &[model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED)];

const QKV: &[Size] = &[Q_DIM, KV_DIM, KV_DIM];

const SPLIT_ATTENTION: &[Rule] = &[
    layer("attention.query_key_value.weight", "attn_q.weight", &[Q_DIM, HIDDEN]).with(&[
        Change::Parts(&Parts { groups: ONE, parts: QKV, first: 0, count: 1 }),
        Change::Rotary("num_attention_heads"),
    ]),
    layer("attention.query_key_value.weight", "attn_k.weight", &[KV_DIM, HIDDEN]).with(&[
        Change::Parts(&Parts { groups: ONE, parts: QKV, first: 1, count: 1 }),
        Change::Rotary("num_key_value_heads"),
    ]),
    layer("attention.query_key_value.weight", "attn_v.weight", &[KV_DIM, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: ONE,
        parts: QKV,
        first: 2,
        count: 1,
    })]),
    layer("attention.dense.weight", "attn_output.weight", &[HIDDEN, Q_DIM]),
];

const V1_KEYS: &[Key] = &[
    ROPE_OF_HEAD,
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    count("vocab_size", &["vocab_size"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    real_fn("expert_weights_scale", |_| Ok(Some(1.0))),
    count("expert_shared_count", &["num_shared_experts"]),
    flag("expert_weights_norm", "norm_topk_prob"),
];

pub(super) static V2: Architecture = Architecture {
    name: "bailingmoe2",
    classes: &[class("BailingMoeV2ForCausalLM", "bailing_moe")],
    rules: &[
        EMBED,
        HEAD_RULE,
        NORMS,
        WHOLE_ATTENTION,
        GATED_FFN,
        EXPERTS,
        SHARED_EXPERTS,
        EXPERT_BIAS,
        NEXTN_TENSORS,
        LAST,
    ],
    keys: &[COMMON, &[count_fn("rope.dimension_count", half_of_head)], V2_KEYS],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Declared("bailingmoe"), "bailingmoe2")], ..BPE },
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..PLAIN
};

/// Sarvam MoE: all dimensions are rotated, and the biases of experts have a mean of 0.
pub(super) static SARVAM: Architecture = Architecture {
    name: "bailingmoe2",
    classes: &[
        class("SarvamMoEForCausalLM", "bailing_moe"),
        class("modeling_sarvam_moe.SarvamMoEForCausalLM", "bailing_moe"),
    ],
    rules: &[
        EMBED,
        HEAD_RULE,
        NORMS,
        WHOLE_ATTENTION,
        GATED_FFN,
        EXPERTS,
        SHARED_EXPERTS,
        CENTRED,
        NEXTN_TENSORS,
        LAST,
    ],
    read_tensors: &[read_in_layers(EXPERT_BIASES, Measure::Mean)],
    keys: &[COMMON, &[ROPE_OF_HEAD], V2_KEYS],
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    restore: None,
    not_held: Some("the mean of the biases of the experts, which is subtracted"),
    ..PLAIN
};

const EXPERT_BIASES: &str = "mlp.gate.expert_bias";
const CENTRED: &[Rule] = &[layer(EXPERT_BIASES, "exp_probs_b.bias", &[EXPERT_COUNT])
    .with(&[Change::MinusMean(EXPERT_BIASES)])
    .when(OPTIONAL_SPARSE)];

const WHOLE_ATTENTION: &[Rule] = &[
    layer("attention.query_key_value.*", "attn_qkv.*", &[QKV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("attention.query_layernorm.*", "attn_q_norm.*", &[HEAD_DIM]).when(OPTIONAL),
    layer("attention.key_layernorm.*", "attn_k_norm.*", &[HEAD_DIM]).when(OPTIONAL),
    layer("attention.dense.*", "attn_output.*", &[HIDDEN, Q_DIM]).biased(OPTIONAL),
];

const EXPERT_BIAS: &[Rule] =
    &[layer("mlp.gate.expert_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE)];

const LAST: &[Rule] = &[layer("final_layernorm.*", "layer_output_norm.*", &[HIDDEN]).when(NEXTN_OPTIONAL)];

const V2_KEYS: &[Key] = &[
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    count("vocab_size", &["vocab_size"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count_fn("expert_shared_feed_forward_length", |config| {
        match config.count(&["moe_shared_expert_intermediate_size"])? {
            Some(inner) => Ok(Some(inner)),
            None => {
                let shared = config.needed("num_shared_experts")?;
                Ok(Some(config.needed("moe_intermediate_size")?.saturating_mul(shared)))
            }
        }
    }),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    count("expert_shared_count", &["num_shared_experts"]),
    flag("expert_weights_norm", "norm_topk_prob"),
    count_fn("nextn_predict_layers", |config| {
        Ok(config.count(&["num_nextn_predict_layers"])?.map(|_| config.nextn_layers))
    }),
];
