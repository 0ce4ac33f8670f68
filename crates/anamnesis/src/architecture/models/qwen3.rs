//! Qwen 3: norms of queries and keys.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    classes: CLASSES,
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    tokenizer: TokenizerRules { classes: &[("qwen3", TokenizerClass::Registered("Qwen2Tokenizer"))], ..PIECES_OR_BPE },
    restore: Some(|_, config| {
        set(config, "use_sliding_window", false);
        Ok(0)
    }),
    reranker: Some((&["qwen3-reranker", "qwen3-vl-reranker"], &RERANKER)),
    ..DECODER
};

const CLASSES: &[Class] = &[Class {
    name: "Qwen3ForCausalLM",
    model_type: "qwen3",
    defaults: &[
        BASE,
        &[
            ("vocab_size", Count(151_936)),
            ("intermediate_size", Count(22016)),
            ("num_key_value_heads", Count(32)),
            ("head_dim", Count(128)),
            ("max_position_embeddings", Count(32768)),
        ],
    ],
}];

/// Qwen 3 Reranker: the head has the rows of two answers only.
static RERANKER: Architecture = Architecture {
    name: "qwen3",
    classes: CLASSES,
    rules: &[RERANKER_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    keys: &[COMMON, RERANKER_KEYS],
    tokenizer: TokenizerRules { classes: &[("qwen3", TokenizerClass::Registered("Qwen2Tokenizer"))], ..PIECES_OR_BPE },
    restore: None,
    not_held: Some("the rows of lm_head but those of its answers"),
    ..DECODER
};

const ANSWERS: &[&str] = &["yes", "no"];
const ANSWER_COUNT: Size = size(|_| Ok(ANSWERS.len() as u64), "", "");
const TIED: Need = Need::When("tie_word_embeddings", |config, _| Ok(needed_if(config.is_set("tie_word_embeddings")?)));
const APART: Need =
    Need::When("tie_word_embeddings", |config, _| Ok(needed_if(!config.is_set("tie_word_embeddings")?)));

const RERANKER_HEAD: &[Rule] = &[
    model("model.embed_tokens.weight", "cls.output.weight", &[ANSWER_COUNT, HIDDEN])
        .with(&[Change::TokenRows(ANSWERS)])
        .when(TIED),
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.weight", "cls.output.weight", &[ANSWER_COUNT, HIDDEN])
        .with(&[Change::TokenRows(ANSWERS)])
        .when(APART),
];

const RERANKER_KEYS: &[Key] = &[
    count_fn("pooling_type", |_| Ok(Some(4))),
    Key {
        gguf: "classifier.output_labels",
        from: ValueSource::TextsFn(|_| Ok(Some(ANSWERS.iter().map(|answer| (*answer).to_owned()).collect()))),
    },
    text_fn("tokenizer.chat_template.rerank", |_| Ok(Some(PROMPT))),
    Key { gguf: "tokenizer.chat_templates", from: ValueSource::TextsFn(|_| Ok(Some(vec!["rerank".to_owned()]))) },
];

/// The prompt of its model card.
const PROMPT: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the \
                      Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n\
                      <Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: \
                      {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
