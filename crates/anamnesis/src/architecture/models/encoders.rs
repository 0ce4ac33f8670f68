//! Encoders: BERT and its kin, ModernBERT, NeoBERT, Nomic, Jina, EuroBERT, EmbeddingGemma.

use crate::architecture::families::{LLAMA, PLAIN};
use crate::architecture::prelude::*;
use serde_json::Value;

const ENCODER: Architecture = Architecture {
    layer_prefix: "encoder.layer.",
    renames: BERT_NAMES,
    dropped: BERT_DROPPED,
    rules: &[BERT_TENSORS, CLASSIFIER],
    keys: &[COMMON, BIDIRECTIONAL, POOLING, LABELS],
    ..PLAIN
};

/// Older names of BERT's norms, and the prefixes of models with a head.
const BERT_NAMES: &[Rename] = &[
    Rename::Prefix("bert.", ""),
    Rename::Prefix("roberta.", ""),
    Rename::Prefix("distilbert.", ""),
    Rename::Ending(".gamma", ".weight"),
    Rename::Ending(".beta", ".bias"),
];
const BERT_DROPPED: &[&str] =
    &["embeddings.position_ids", "pooler.dense.", "cls.predictions", "cls.seq_relationship", "vocab_", "lm_head."];

const BIDIRECTIONAL: &[Key] = &[flag_fn("attention.causal", |_| Ok(Some(false)))];

/// The labels of a classifier, by their numbers; two labels with the default names are none.
fn labels(config: &Config) -> Result<Option<Vec<String>>> {
    let Some(map) = config.get("id2label").and_then(Value::as_object) else { return Ok(None) };
    let mut labels = Vec::new();
    for (id, label) in map {
        let (Ok(id), Some(label)) = (id.parse::<u64>(), label.as_str()) else {
            return Err(AnamnesisError::parse("config.json: \"id2label\" is no map of numbers to labels"));
        };
        labels.push((id, label.to_owned()));
    }
    labels.sort();
    let is_default = labels.len() == 2 && labels.first().is_some_and(|(_, label)| label == "LABEL_0");
    Ok((!is_default && !labels.is_empty()).then(|| labels.into_iter().map(|(_, label)| label).collect()))
}

const LABELS: &[Key] = &[Key { gguf: "classifier.output_labels", from: ValueSource::TextsFn(labels) }];

const POSITIONS: Size =
    size(|config| config.needed("max_position_embeddings"), "max_position_embeddings", "context_length");
const TYPES: Size =
    size(|config| config.needed("type_vocab_size"), "type_vocab_size", "tokenizer.ggml.token_type_count");
const LABEL_COUNT: Size = size(
    |config| match config.get("id2label").and_then(Value::as_object) {
        Some(labels) => Ok(labels.len() as u64),
        None => Ok(config.count(&["num_labels"])?.unwrap_or(2)),
    },
    "id2label",
    "classifier.output_labels",
);

const BERT_TENSORS: &[Rule] = &[
    model("embeddings.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("embeddings.position_embeddings.*", "position_embd.*", &[POSITIONS, HIDDEN]),
    model("embeddings.token_type_embeddings.*", "token_types.*", &[TYPES, HIDDEN]).when(OPTIONAL),
    model("embeddings.LayerNorm.*", "token_embd_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("attention.self.query.*", "attn_q.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.self.key.*", "attn_k.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.self.value.*", "attn_v.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.output.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.output.LayerNorm.*", "attn_output_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("intermediate.dense.*", "ffn_up.*", &[FFN, HIDDEN]).biased(Need::Always),
    layer("output.dense.*", "ffn_down.*", &[HIDDEN, FFN]).biased(Need::Always),
    layer("output.LayerNorm.*", "layer_output_norm.*", &[HIDDEN]).biased(Need::Always),
];

/// Whether the classifier is one matrix, with labels.
const LABELLED: Need = Need::When("id2label", |config, _| {
    Ok(if labels(config)?.is_some() { Presence::Allowed } else { Presence::Surplus })
});
const UNLABELLED: Need = Need::When("id2label", |config, _| {
    Ok(if labels(config)?.is_none() { Presence::Allowed } else { Presence::Surplus })
});

/// What the files of encoders do not hold.
const POOLER: &str = "the pooler, and settings such as position_embedding_type and hidden_act";
const SETTINGS: &str = "settings of its class such as hidden_act and the pooling of its head";

const CLASSIFIER: &[Rule] = &[
    model("classifier.dense.*", "cls.*", &[HIDDEN, HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    model("pre_classifier.*", "cls.*", &[HIDDEN, HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    model("classifier.out_proj.*", "cls.output.*", &[LABEL_COUNT, HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    model("classifier.*", "cls.output.*", &[LABEL_COUNT, HIDDEN]).when(LABELLED).biased(LABELLED),
];
pub(super) static BERT: Architecture = Architecture {
    name: "bert",
    classes: &[class("BertModel", "bert"), class("CamembertModel", "camembert")],
    tokenizer: TokenizerRules { kind: VocabularyKind::WordPiece("bert-bge"), ..BPE },
    restore: None,
    not_held: Some(POOLER),
    ..ENCODER
};

pub(super) static BERT_WITH_HEAD: Architecture = Architecture {
    name: "bert",
    classes: &[class("BertForMaskedLM", "bert"), class("BertForSequenceClassification", "bert")],
    rules: &[BERT_TENSORS, BERT_CLASSIFIER],
    tokenizer: TokenizerRules { kind: VocabularyKind::WordPiece("jina-v2-en"), ..BPE },
    restore: None,
    not_held: Some(POOLER),
    ..ENCODER
};

const BERT_CLASSIFIER: &[Rule] = &[
    model("classifier.*", "cls.output.*", &[LABEL_COUNT, HIDDEN]).when(LABELLED).biased(LABELLED),
    model("classifier.*", "cls.*", &[LABEL_COUNT, HIDDEN]).when(UNLABELLED).biased(UNLABELLED),
];

pub(super) static DISTILBERT: Architecture = Architecture {
    name: "bert",
    classes: &[
        class("DistilBertModel", "distilbert"),
        class("DistilBertForMaskedLM", "distilbert"),
        class("DistilBertForSequenceClassification", "distilbert"),
    ],
    layer_prefix: "transformer.layer.",
    rules: &[DISTILBERT_TENSORS, CLASSIFIER],
    early_keys: &[],
    keys: &[&[real_fn("attention.layer_norm_epsilon", |_| Ok(Some(1e-12)))], COMMON, BIDIRECTIONAL, POOLING, LABELS],
    tokenizer: TokenizerRules { kind: VocabularyKind::WordPiece("bert-bge"), ..BPE },
    restore: None,
    not_held: Some(POOLER),
    ..ENCODER
};

const DISTILBERT_TENSORS: &[Rule] = &[
    model("embeddings.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("embeddings.position_embeddings.*", "position_embd.*", &[POSITIONS, HIDDEN]),
    model("embeddings.LayerNorm.*", "token_embd_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("attention.q_lin.*", "attn_q.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.k_lin.*", "attn_k.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.v_lin.*", "attn_v.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.out_lin.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("sa_layer_norm.*", "attn_output_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("ffn.lin1.*", "ffn_up.*", &[FFN, HIDDEN]).biased(Need::Always),
    layer("ffn.lin2.*", "ffn_down.*", &[HIDDEN, FFN]).biased(Need::Always),
    layer("output_layer_norm.*", "layer_output_norm.*", &[HIDDEN]).biased(Need::Always),
];

/// The positions before the first token's: those up to the padding token.
fn offset(config: &Config) -> Result<u64> {
    Ok(config.count(&["pad_token_id"])?.map_or(0, |pad| pad + 1))
}

fn positions(config: &Config) -> Result<u64> {
    Ok(config.needed("max_position_embeddings")?.saturating_sub(offset(config)?))
}

const OFFSET: Size = size(offset, "pad_token_id", "");
const CUT_POSITIONS: Size = size(positions, "max_position_embeddings, pad_token_id", "context_length");

const ROBERTA_TENSORS: &[Rule] = &[
    model("embeddings.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("embeddings.position_embeddings.*", "position_embd.*", &[CUT_POSITIONS, HIDDEN])
        .with(&[Change::WithoutFirst(OFFSET)]),
    model("embeddings.token_type_embeddings.*", "token_types.*", &[TYPES, HIDDEN]).when(OPTIONAL),
    model("embeddings.LayerNorm.*", "token_embd_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("attention.self.query.*", "attn_q.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.self.key.*", "attn_k.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.self.value.*", "attn_v.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.output.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.output.LayerNorm.*", "attn_output_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("intermediate.dense.*", "ffn_up.*", &[FFN, HIDDEN]).biased(Need::Always),
    layer("output.dense.*", "ffn_down.*", &[HIDDEN, FFN]).biased(Need::Always),
    layer("output.LayerNorm.*", "layer_output_norm.*", &[HIDDEN]).biased(Need::Always),
];

const CUT_CONTEXT: &[Key] = &[count_fn("context_length", |config| positions(config).map(Some))];

pub(super) static ROBERTA: Architecture = Architecture {
    name: "bert",
    classes: &[class("RobertaModel", "roberta"), class("RobertaForSequenceClassification", "roberta")],
    rules: &[ROBERTA_TENSORS, CLASSIFIER],
    keys: &[COMMON, CUT_CONTEXT, BIDIRECTIONAL, POOLING, LABELS],
    tokenizer: TokenizerRules {
        kind: VocabularyKind::Roberta("bert-bge"),
        pre: &[(PreTokenizer::Gpt2, "roberta-bpe")],
        ..BPE
    },
    restore: None,
    not_held: Some(POOLER),
    ..ENCODER
};

pub(super) static XLM_ROBERTA: Architecture = Architecture {
    name: "bert",
    classes: &[class("XLMRobertaModel", "xlm-roberta"), class("XLMRobertaForSequenceClassification", "xlm-roberta")],
    applies: |raw| !raw.contains_key("lora_adaptations"),
    rules: &[ROBERTA_TENSORS, CLASSIFIER],
    keys: &[COMMON, CUT_CONTEXT, BIDIRECTIONAL, POOLING, LABELS],
    tokenizer: TokenizerRules { kind: VocabularyKind::XlmRoberta, ..BPE },
    restore: None,
    not_held: Some(POOLER),
    ..ENCODER
};

pub(super) static JINA_V2: Architecture = Architecture {
    name: "jina-bert-v2",
    classes: &[class("JinaBertModel", "bert"), class("JinaBertForMaskedLM", "bert")],
    rules: &[JINA_TENSORS],
    tokenizer: TokenizerRules {
        kind: VocabularyKind::Jina("jina-v2-en"),
        pre: &[(PreTokenizer::Gpt2, "jina-v2-es")],
        ..BPE
    },
    restore: None,
    not_held: Some(POOLER),
    ..ENCODER
};

const JINA_TENSORS: &[Rule] = &[
    model("embeddings.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("embeddings.token_type_embeddings.*", "token_types.*", &[TYPES, HIDDEN]).when(OPTIONAL),
    model("embeddings.LayerNorm.*", "token_embd_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("attention.self.query.*", "attn_q.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.self.key.*", "attn_k.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.self.value.*", "attn_v.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.self.layer_norm_q.*", "attn_q_norm.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    layer("attention.self.layer_norm_k.*", "attn_k_norm.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    layer("attention.output.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(Need::Always),
    layer("attention.output.LayerNorm.*", "attn_output_norm.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    layer("layer_norm_1.*", "attn_norm_2.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    layer("mlp.gated_layers.*", "ffn_up.*", &[TWO_FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.wo.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
    layer("mlp.layernorm.*", "layer_output_norm.*", &[HIDDEN]).biased(OPTIONAL),
];

/// Nomic's encoder without experts.
pub(super) static NOMIC: Architecture = Architecture {
    name: "nomic-bert",
    classes: &[class("NomicBertModel", "nomic_bert")],
    applies: |raw| raw.get("moe_every_n_layers").and_then(Value::as_u64).unwrap_or(0) == 0,
    layer_prefix: "encoder.layers.",
    rules: &[NOMIC_TENSORS],
    keys: &[COMMON, NOMIC_CONTEXT, BIDIRECTIONAL, POOLING, LABELS],
    tokenizer: TokenizerRules { kind: VocabularyKind::WordPiece("bert-bge"), ..BPE },
    restore: None,
    not_held: Some(POOLER),
    ..ENCODER
};

/// The context that the model was trained with.
const NOMIC_CONTEXT: &[Key] = &[count_fn("context_length", |config| {
    let trained = config.count(&["max_trained_positions"])?.unwrap_or(2048);
    match (config.needed("n_positions")?, trained) {
        (8192, 2048) => Ok(Some(2048)),
        (2048, 2048) => Ok(Some(512)),
        (positions, trained) => {
            let why = format!(
                "config.json: n_positions is {positions} with {trained} trained positions, 8192 or 2048 with 2048 are known"
            );
            Err(AnamnesisError::parse(why))
        }
    }
})];

const THREE_HIDDEN: Size =
    size(|config| Ok((HIDDEN.of)(config)?.saturating_mul(3)), "hidden_size, n_embd", "embedding_length");

const NOMIC_TENSORS: &[Rule] = &[
    model("embeddings.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("embeddings.token_type_embeddings.*", "token_types.*", &[TYPES, HIDDEN]).when(OPTIONAL),
    model("emb_ln.*", "token_embd_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("attn.Wqkv.*", "attn_qkv.*", &[THREE_HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("attn.out_proj.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("norm1.*", "attn_output_norm.*", &[HIDDEN]).biased(Need::Always),
    layer("mlp.fc11.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.fc12.*", "ffn_gate.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.fc2.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
    layer("norm2.*", "layer_output_norm.*", &[HIDDEN]).biased(Need::Always),
];

pub(super) static NEOBERT: Architecture = Architecture {
    name: "neo-bert",
    classes: &[
        class("NeoBERT", "neobert"),
        class("NeoBERTLMHead", "neobert"),
        class("NeoBERTForSequenceClassification", "neobert"),
    ],
    layer_prefix: "transformer_encoder.",
    renames: &[Rename::Prefix("model.", "")],
    dropped: &["decoder."],
    rules: &[NEOBERT_TENSORS, CLASSIFIER],
    keys: &[COMMON, BIDIRECTIONAL, POOLING, LABELS, NEOBERT_KEYS],
    tokenizer: TokenizerRules { kind: VocabularyKind::WordPiece("bert-bge"), ..BPE },
    restore: None,
    not_held: Some(SETTINGS),
    ..ENCODER
};

/// Two thirds of the inner size, for the gate and for the values.
const NEO_FFN: Size = size(
    |config| Ok(config.needed("intermediate_size")?.saturating_mul(2) / 3),
    "intermediate_size",
    "feed_forward_length",
);
const TWO_NEO_FFN: Size = size(|config| Ok((NEO_FFN.of)(config)?.saturating_mul(2)), NEO_FFN.hf, NEO_FFN.gguf);

const NEOBERT_TENSORS: &[Rule] = &[
    model("encoder.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("layer_norm.*", "enc.output_norm.*", &[HIDDEN]),
    layer("attention_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("ffn_norm.*", "ffn_norm.*", &[HIDDEN]),
    layer("qkv.*", "attn_qkv.*", &[THREE_HIDDEN, HIDDEN]),
    layer("wo.*", "attn_output.*", &[HIDDEN, HIDDEN]),
    layer("ffn.w12.*", "ffn_up.*", &[TWO_NEO_FFN, HIDDEN]),
    layer("ffn.w3.*", "ffn_down.*", &[HIDDEN, NEO_FFN]),
];

const NEOBERT_KEYS: &[Key] = &[
    count_fn("feed_forward_length", |config| (NEO_FFN.of)(config).map(Some)),
    real_fn("rope.freq_base", |_| Ok(Some(10_000.0))),
    text_fn("rope.scaling.type", |_| Ok(Some("none"))),
    real_or("attention.layer_norm_rms_epsilon", &["norm_eps"], 1e-6),
    count_fn("pooling_type", |_| Ok(Some(2))),
];

pub(super) static MODERN_BERT: Architecture = Architecture {
    name: "modern-bert",
    classes: &[
        class("ModernBertModel", "modernbert"),
        class("ModernBertForMaskedLM", "modernbert"),
        class("ModernBertForSequenceClassification", "modernbert"),
    ],
    layer_prefix: "layers.",
    renames: &[Rename::Prefix("model.", "")],
    dropped: &["decoder."],
    rules: &[MODERN_TENSORS, MODERN_CLASSIFIER],
    keys: &[COMMON, BIDIRECTIONAL, POOLING, LABELS, MODERN_KEYS],
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Gpt2, "modern-bert")],
        first_flags: &[("add_bos_token", true), ("add_eos_token", true), ("add_sep_token", true)],
        ..BPE
    },
    restore: None,
    not_held: Some(SETTINGS),
    ..ENCODER
};

/// The first layer has no norm before attention.
const NOT_FIRST: Need = Need::When("", |_, layer| Ok(needed_if(layer > 0)));

const MODERN_TENSORS: &[Rule] = &[
    model("embeddings.tok_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("embeddings.norm.*", "token_embd_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("final_norm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("attn_norm.*", "attn_norm.*", &[HIDDEN]).when(NOT_FIRST),
    layer("attn.Wqkv.*", "attn_qkv.*", &[THREE_HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("attn.Wo.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp_norm.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("mlp.Wi.*", "ffn_up.*", &[TWO_FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.Wo.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

const MODERN_CLASSIFIER: &[Rule] = &[
    model("head.dense.*", "cls.*", &[HIDDEN, HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    model("head.norm.*", "cls.norm.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    model("classifier.*", "cls.output.*", &[LABEL_COUNT, HIDDEN]).when(LABELLED).biased(LABELLED),
];

const MODERN_KEYS: &[Key] = &[
    count("attention.sliding_window", &["local_attention"]),
    count("attention.sliding_window_pattern", &["global_attn_every_n_layers"]),
    text_fn("rope.scaling.type", |_| Ok(Some("none"))),
    count("vocab_size", &["vocab_size"]),
    Key { gguf: "hidden_activation", from: ValueSource::OwnText("hidden_activation") },
];

pub(super) static EUROBERT: Architecture = Architecture {
    name: "eurobert",
    classes: &[class("EuroBertModel", "eurobert"), class("JinaEmbeddingsV5Model", "eurobert")],
    renames: &[Rename::Prefix("model.", "model."), Rename::Prefix("", "model.")],
    rules: &[EMBED_AND_NORM, NORMS, ATTENTION, GATED_FFN_BIASED],
    keys: &[COMMON, BIDIRECTIONAL, &[text_fn("rope.scaling.type", |_| Ok(Some("none")))], POOLING],
    derived_tensors: &[],
    tokenizer: TokenizerRules { first_flags: &[("add_bos_token", false)], ..BPE },
    restore: None,
    not_held: Some(SETTINGS),
    ..LLAMA
};

const EMBED_AND_NORM: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
];

/// EmbeddingGemma.
pub(super) static EMBEDDING_GEMMA: Architecture = Architecture {
    name: "gemma-embedding",
    classes: &[class("Gemma3TextModel", "gemma3_text")],
    renames: &[Rename::Prefix("model.", "model."), Rename::Prefix("", "model.")],
    rules: &[GEMMA_EMBED, FOUR_NORMS, ATTENTION, GEMMA_QK_NORMS, GATED_FFN],
    keys: &[COMMON, GEMMA_KEYS, DENSE_KEYS, POOLING],
    dense_modules: DenseModules::OnRequest,
    tokenizer: TokenizerRules {
        no_space_prefix: true,
        classes: &[("gemma3_text", TokenizerClass::Registered("GemmaTokenizer"))],
        ..PIECES_OR_BPE
    },
    head: Head::Never,
    restore: None,
    not_held: Some(SETTINGS),
    ..PLAIN
};

const TOKENS: Size =
    size(|config| Ok(config.needed("vocab_size")?.min(config.vocabulary.unwrap_or(u64::MAX))), VOCAB.hf, VOCAB.gguf);

const GEMMA_EMBED: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[TOKENS, HIDDEN]).with(&[Change::CutToVocabulary]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
];
const GEMMA_QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]),
];
/// The sizes of the dense modules of sentence-transformers.
const DENSE_KEYS: &[Key] = &[
    count_fn("dense_2_feat_in", |config| Ok(features(config, "dense_2").map(|[inputs, _]| inputs))),
    count_fn("dense_2_feat_out", |config| Ok(features(config, "dense_2").map(|[_, outputs]| outputs))),
    count_fn("dense_3_feat_in", |config| Ok(features(config, "dense_3").map(|[inputs, _]| inputs))),
    count_fn("dense_3_feat_out", |config| Ok(features(config, "dense_3").map(|[_, outputs]| outputs))),
];

fn features(config: &Config, name: &str) -> Option<[u64; 2]> {
    config.dense_modules.iter().find(|module| module.name == name)?.features
}

const GEMMA_KEYS: &[Key] = &[
    real_fn("final_logit_softcapping", |config| {
        Ok(config.real(&["final_logit_softcapping"])?.filter(|cap| *cap != 0.0))
    }),
    count("attention.sliding_window", &["sliding_window"]),
];
