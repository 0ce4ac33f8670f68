//! Models whose language model is Llama: multimodal ones, encoders and drafts of other names.

use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;

/// Multimodal models around a Llama, Mistral or Mixtral.
pub(super) static MULTIMODAL: Architecture = Architecture {
    name: "llama",
    classes: &[
        class("LLaMAForCausalLM", "llama"),
        class("LlavaForConditionalGeneration", "llava"),
        class("VoxtralForConditionalGeneration", "voxtral"),
        class("Idefics3ForConditionalGeneration", "idefics3"),
        class("SmolVLMForConditionalGeneration", "smolvlm"),
        class("JanusForConditionalGeneration", "janus"),
        class("VLlama3ForCausalLM", "llama"),
        class("IQuestCoderForCausalLM", "llama"),
    ],
    renames: &[Rename::Anywhere("text_model.", "")],
    dropped: &["model.aligner.", "model.vqmodel.", "model.generation_"],
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Digits, "smollm"), (PreTokenizer::Llama3, "llama-bpe")],
        ..LLAMA_LIKE
    },
    ..LLAMA
};

/// Llava around Pixtral's language model.
pub(super) static PIXTRAL: Architecture = Architecture {
    applies: |raw| {
        raw.get("vision_config").and_then(|vision| vision.get("model_type")).is_some_and(|kind| kind == "pixtral")
    },
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Llama3, "pixtral")], ..LLAMA_LIKE },
    classes: &[class("LlavaForConditionalGeneration", "llava")],
    name: "llama",
    ..LLAMA
};

/// Checkpoints without a head: names without `model.`.
pub(super) static HEADLESS: Architecture = Architecture {
    name: "llama",
    classes: &[class("LlamaModel", "llama")],
    renames: &[Rename::Prefix("", "model.")],
    rules: &[EMBED_AND_NORM, NORMS, PERMUTED_ATTENTION, GATED_FFN_BIASED],
    ..LLAMA
};

/// Embedding and final norm.
const EMBED_AND_NORM: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
];

/// Sarashina 2 Vision.
pub(super) static SARASHINA: Architecture = Architecture {
    name: "llama",
    classes: &[class("Sarashina2VisionForCausalLM", "sarashina2_vision")],
    renames: &[Rename::Prefix("llm.", "")],
    dropped: &["norm."],
    ..LLAMA
};

/// Encoders with attention in both directions.
pub(super) static BIDIRECTIONAL: Architecture = Architecture {
    name: "llama-embed",
    classes: &[class("LlamaBidirectionalModel", "llama_bidirec")],
    renames: &[Rename::Prefix("model.", "model."), Rename::Prefix("", "model.")],
    rules: &[EMBED_AND_NORM, NORMS, PERMUTED_ATTENTION, GATED_FFN_BIASED],
    ..LLAMA
};
