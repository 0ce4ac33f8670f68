//! The decoder of WavTokenizer: from codes to audio, by convolutions and one layer of attention.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "wavtokenizer-dec",
    classes: &[class("WavTokenizerDec", "wavtokenizer")],
    dropped: &["codebook."],
    rules: &[TENSORS],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules { kind: VocabularyKind::None, ..BPE },
    restore: None,
    ..PLAIN
};

const POSITIONS: Stack = Stack {
    hf: "backbone.posnet.",
    gguf: "posnet.",
    layers: Some(size(|config| config.needed("posnet.n_layer"), "posnet.n_layer", "posnet.block_count")),
};
const CONVOLUTIONS: Stack = Stack {
    hf: "backbone.convnext.",
    gguf: "convnext.",
    layers: Some(size(|config| config.needed("convnext.n_layer"), "convnext.n_layer", "convnext.block_count")),
};

const FEATURES: Size = size(|config| config.needed("n_embd_features"), "n_embd_features", "features_length");
const INNER: Size = size(|config| config.needed("n_ff"), "n_ff", "feed_forward_length");
const POSITION: Size = size(|config| config.needed("posnet.n_embd"), "posnet.n_embd", "posnet.embedding_length");
const CHANNELS: Size = size(|config| config.needed("convnext.n_embd"), "convnext.n_embd", "convnext.embedding_length");

/// The third of the position network's layers is attention, the sixth a norm, the others are convolutions.
const ATTENTION_LAYER: u64 = 2;
const NORM_LAYER: u64 = 5;
const ATTENDING: Need = Need::When("", |_, layer| Ok(needed_if(layer == ATTENTION_LAYER)));
const NORMED: Need = Need::When("", |_, layer| Ok(needed_if(layer == ATTENTION_LAYER || layer == NORM_LAYER)));
const CONVOLVING: Need = Need::When("", |_, layer| Ok(needed_if(layer != ATTENTION_LAYER && layer != NORM_LAYER)));

const fn position(hf: &'static str, gguf: &'static str, shape: &'static [Size], need: Need) -> Rule {
    layer(hf, gguf, shape).of(POSITIONS).when(need)
}

const CONV: &[Size] = &[POSITION, POSITION, ANY];
const COLUMN: &[Size] = &[POSITION, ONE];

const TENSORS: &[Rule] = &[
    model("token_embd.weight", "token_embd.weight", &[VOCAB, FEATURES]),
    model("backbone.embed.weight", "conv1d.weight", &[POSITION, FEATURES, ANY]),
    model("backbone.embed.bias", "conv1d.bias", &[POSITION, ONE]),
    model("backbone.norm.*", "token_embd_norm.*", &[POSITION]).biased(Need::Always),
    model("backbone.final_layer_norm.*", "output_norm.*", &[POSITION]).biased(Need::Always),
    model("head.out.*", "output.*", &[ANY, POSITION]).biased(Need::Always),
    position("conv1.weight", "conv1.weight", CONV, CONVOLVING),
    position("conv1.bias", "conv1.bias", COLUMN, CONVOLVING),
    position("conv2.weight", "conv2.weight", CONV, CONVOLVING),
    position("conv2.bias", "conv2.bias", COLUMN, CONVOLVING),
    position("norm1.weight", "norm1.weight", COLUMN, CONVOLVING),
    position("norm1.bias", "norm1.bias", COLUMN, CONVOLVING),
    position("norm2.weight", "norm2.weight", COLUMN, CONVOLVING),
    position("norm2.bias", "norm2.bias", COLUMN, CONVOLVING),
    position("norm.weight", "attn_norm.weight", COLUMN, NORMED),
    position("norm.bias", "attn_norm.bias", COLUMN, NORMED),
    position("q.weight", "attn_q.weight", CONV, ATTENDING),
    position("q.bias", "attn_q.bias", COLUMN, ATTENDING),
    position("k.weight", "attn_k.weight", CONV, ATTENDING),
    position("k.bias", "attn_k.bias", COLUMN, ATTENDING),
    position("v.weight", "attn_v.weight", CONV, ATTENDING),
    position("v.bias", "attn_v.bias", COLUMN, ATTENDING),
    position("proj_out.weight", "attn_output.weight", CONV, ATTENDING),
    position("proj_out.bias", "attn_output.bias", COLUMN, ATTENDING),
    layer("dwconv.weight", "dw.weight", &[CHANNELS, ONE, ANY]).of(CONVOLUTIONS),
    layer("dwconv.bias", "dw.bias", &[CHANNELS, ONE]).of(CONVOLUTIONS),
    layer("norm.*", "norm.*", &[CHANNELS]).of(CONVOLUTIONS).biased(Need::Always),
    layer("pwconv1.*", "pw1.*", &[INNER, CHANNELS]).of(CONVOLUTIONS).biased(Need::Always),
    layer("pwconv2.*", "pw2.*", &[CHANNELS, INNER]).of(CONVOLUTIONS).biased(Need::Always),
    layer("gamma", "gamma", &[CHANNELS]).of(CONVOLUTIONS),
];

const KEYS: &[Key] = &[
    needed("vocab_size", "vocab_size"),
    count_fn("features_length", |config| (FEATURES.of)(config).map(Some)),
    count_fn("feed_forward_length", |config| (INNER.of)(config).map(Some)),
    needed_real("attention.group_norm_epsilon", "group_norm_epsilon"),
    needed("attention.group_norm_groups", "group_norm_groups"),
    count_fn("posnet.embedding_length", |config| (POSITION.of)(config).map(Some)),
    needed("posnet.block_count", "posnet.n_layer"),
    count_fn("convnext.embedding_length", |config| (CHANNELS.of)(config).map(Some)),
    needed("convnext.block_count", "convnext.n_layer"),
    flag_fn("attention.causal", |_| Ok(Some(false))),
];
