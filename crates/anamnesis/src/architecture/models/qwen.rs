//! The first Qwen: fused attention with biases, and a vocabulary of byte strings with ranks.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen",
    classes: &[class("QWenLMHeadModel", "qwen")],
    layer_prefix: "transformer.h.",
    rules: &[TENSORS],
    tokenizer: TokenizerRules { kind: VocabularyKind::Ranked(RANKS), ..BPE },
    not_held: Some("seq_length, use_dynamic_ntk and use_logn_attn, and the class of its tokenizer"),
    restore: None,
    ..PLAIN
};

const RANKS: RankedVocabulary = RankedVocabulary {
    file: "qwen.tiktoken",
    pre: "qwen2",
    special: RankedSpecials::Listed(&["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    is_counted: false,
    has_unmerged: false,
    is_whole: false,
    end: Some("<|endoftext|>"),
    ends_by_settings: false,
};

/// The feed-forward network has half of the size in the configuration.
const HALF_FFN: Size = size(|config| Ok(first(config, FFN_KEYS)? / 2), "intermediate_size", "feed_forward_length");

const TENSORS: &[Rule] = &[
    model("transformer.wte.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("transformer.ln_f.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("ln_1.*", "attn_norm.*", &[HIDDEN]),
    layer("attn.c_attn.*", "attn_qkv.*", &[QKV_DIM, HIDDEN]).biased(Need::Always),
    layer("attn.c_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("ln_2.*", "ffn_norm.*", &[HIDDEN]),
    layer("mlp.w1.*", "ffn_up.*", &[HALF_FFN, HIDDEN]),
    layer("mlp.w2.*", "ffn_gate.*", &[HALF_FFN, HIDDEN]),
    layer("mlp.c_proj.*", "ffn_down.*", &[HIDDEN, HALF_FFN]),
];
