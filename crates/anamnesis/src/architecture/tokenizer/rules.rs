//! How llama.cpp's converter reads the vocabulary of an architecture (`set_vocab`), as data.

use crate::architecture::config::Config;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::Result;

/// The files that have the vocabulary of an architecture, and the keys added to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenizerRules {
    /// The kind of vocabulary.
    pub kind: VocabularyKind,
    /// The use of SentencePiece's `tokenizer.model`.
    pub pieces: PiecesUse,
    /// Whether `tokenizer.json` may have a SentencePiece vocabulary.
    pub pieces_in_json: bool,
    /// Whether `add_space_prefix` is false for such a vocabulary.
    pub no_space_prefix_in_json: bool,
    /// Whether pieces of `tokenizer.json` have no scores, and added tokens the types they are declared with.
    pub unscored: bool,
    /// Whether added tokens have the types and scores of Arctic.
    pub arctic_types: bool,
    /// Whether pieces are read as InternLM 2 has them.
    pub internlm: bool,
    /// Added tokens that are control tokens, whatever they are declared as.
    pub control_tokens: &'static [&'static str],
    /// Whether Mistral's `tekken.json` is read, `tokenizer.json` may have a SentencePiece vocabulary, and
    /// `add_prefix_space` is written: `set_vocab` of `LlamaModel`.
    pub is_llama: bool,
    /// Whether added tokens replace pieces of any type: `set_vocab` of `Phi3MiniModel`.
    pub replaces_pieces: bool,
    /// The number of tokens is padded to a multiple of this, or of `pad_vocab_size_multiple`.
    pub pad_to: Option<u64>,
    /// The same multiple, whatever the configuration has.
    pub fixed_padding: Option<u64>,
    /// Whether added tokens are special only if they are declared so, whatever they look like, and keep their text.
    pub declared_types: bool,
    /// Special tokens by text: the role and the added token it is assigned to.
    pub roles: &'static [(&'static str, &'static str)],
    /// Whether `add_space_prefix` is false for SentencePiece vocabularies.
    pub no_space_prefix: bool,
    /// Pre-tokenizers with their names for this architecture, if other architectures use others.
    pub pre: &'static [(PreTokenizer, &'static str)],
    /// The tokenizer class of transformers per `model_type`, which has default special tokens.
    pub classes: &'static [(&'static str, TokenizerClass)],
    /// Adds keys that depend only on the size of the vocabulary.
    pub add: fn(Option<u64>, &mut MetadataBuilder),
    /// Flags that are written before the vocabulary.
    pub first_flags: &'static [(&'static str, bool)],
    /// Whether `suppress_tokens` of `generation_config.json` are written before the vocabulary.
    pub suppressed: bool,
    /// Control tokens that the configuration names, after those of byte-level files.
    pub further: Option<FurtherTokens>,
    /// Keys that are set after the vocabulary, whatever its files have.
    pub overrides: TokenOverrides,
}

/// Tokens by the configuration.
pub(crate) type FurtherTokens = fn(&Config) -> Result<Vec<String>>;

/// Keys that an architecture sets after its vocabulary is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenOverrides {
    /// Special tokens by their text in `added_tokens_decoder`.
    pub ids: &'static [(&'static str, &'static str)],
    /// Special tokens by their ids.
    pub fixed_ids: &'static [(&'static str, u32)],
    /// Special tokens by a key of `config.json`.
    pub config_ids: &'static [(&'static str, &'static str)],
    pub flags: &'static [(&'static str, bool)],
    pub chat_template: Option<&'static str>,
    /// Whether no chat template is written.
    pub no_template: bool,
    /// The chat template of models without one in a file of its own, whatever their settings have.
    pub default_template: Option<&'static str>,
    /// The file of llama.cpp with the template that its converter writes for models without one, and which is not written here.
    pub unwritten_template: Option<&'static str>,
    /// Whether `add_prefix_space` of `tokenizer_config.json` is written, after the types of tokens.
    pub space_prefix: bool,
    /// Whether the first of several `eos_token_id`s of `generation_config.json` ends a turn.
    pub end_of_turn: bool,
    /// Whether the first `eos_token_id` of a list that is not the begin of a text ends a turn.
    pub other_end: bool,
}

/// No keys.
pub(crate) const NO_OVERRIDES: TokenOverrides = TokenOverrides {
    ids: &[],
    fixed_ids: &[],
    config_ids: &[],
    flags: &[],
    chat_template: None,
    no_template: false,
    default_template: None,
    unwritten_template: None,
    space_prefix: false,
    end_of_turn: false,
    other_end: false,
};

/// The kind of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VocabularyKind {
    /// Byte-level BPE or SentencePiece, by the files there are.
    ByFiles,
    /// WordPiece of `tokenizer.json`, with the name of its pre-tokenizer.
    WordPiece(&'static str),
    /// The byte-level vocabulary of RoBERTa, or else WordPiece.
    Roberta(&'static str),
    /// WordPiece or byte-level, by the tokenizer class.
    Jina(&'static str),
    /// SentencePiece's unigram model: `tokenizer.model` or `spiece.model`.
    Unigram,
    /// The unigram model of XLM-RoBERTa: `sentencepiece.bpe.model` or `tokenizer.json`.
    XlmRoberta,
    /// The word list of RWKV.
    Rwkv,
    /// `tekken.json` or `tokenizer.model.v*` of Mistral's own format.
    Mistral,
    /// `tokenizer.jsonl` of PLaMo.
    Plamo,
    /// SentencePiece in `tokenizer.json` with its merges.
    Gemma4,
    /// Byte strings with ranks.
    Ranked(RankedVocabulary),
    /// Byte strings with ranks if their file is there and `tokenizer.json` is not; else by the files there are.
    ByFilesOrRanked(RankedVocabulary),
    /// That of the model that a draft model predicts for, with the rules of its architecture.
    OfTarget,
    /// None.
    None,
}

/// A vocabulary of byte strings with ranks in a file, and special tokens after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankedVocabulary {
    pub file: &'static str,
    /// The name of its pre-tokenizer.
    pub pre: &'static str,
    pub special: RankedSpecials,
    /// Whether ranks are counted, and tokens that come again are skipped.
    pub is_counted: bool,
    /// Whether tokens may have no merge, as they are not that of two others.
    pub has_unmerged: bool,
    /// Whether the embedding has no further rows.
    pub is_whole: bool,
    /// The special token that begins and ends texts if the configuration names none, and stands for unknown ones.
    pub end: Option<&'static str>,
    /// Whether `eos_token` of `tokenizer_config.json` ends texts, whatever the configuration says.
    pub ends_by_settings: bool,
}

/// The special tokens after byte strings with ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RankedSpecials {
    /// Those that the class of the tokenizer lists, before 205 numbered ones.
    Listed(&'static [&'static str]),
    /// As many as the embedding has rows: those of `added_tokens_decoder`, and reserved ones between them.
    Added,
}

/// The vocabulary of Kimi's models.
pub(crate) const KIMI_RANKS: RankedVocabulary = RankedVocabulary {
    file: "tiktoken.model",
    pre: "kimi-k2",
    special: RankedSpecials::Added,
    is_counted: false,
    has_unmerged: true,
    is_whole: true,
    end: None,
    ends_by_settings: false,
};

/// When SentencePiece's `tokenizer.model` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PiecesUse {
    Never,
    /// Before `tokenizer.json`.
    First,
    /// Only if there is no `tokenizer.json`.
    Last,
    /// Always; `tokenizer.json` alone is refused.
    Required,
    /// Always, except for tokenizers of the class `GPT2Tokenizer`.
    RequiredUnlessGpt2,
}

/// The tokenizer class that transformers has for a `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenizerClass {
    /// Regardless of `tokenizer_config.json`.
    Always(&'static str),
    /// If `tokenizer_config.json` names none.
    Registered(&'static str),
    /// Loaded by the generic class, which has no defaults.
    NoDefaults,
}

/// Pre-tokenizers that split identically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreTokenizer {
    /// cl100k with up to three digits, as in Llama 3.
    Llama3,
    /// cl100k with single digits.
    Qwen2,
    Gpt2,
    /// Single digits, then GPT-2.
    Digits,
    DeepSeek3,
    DeepSeekCoder,
    /// o200k.
    Gpt4o,
    Tekken,
    Falcon,
    /// One of the declarations that only one family of models has, by its name in llama.cpp.
    Declared(&'static str),
}

/// The byte-level vocabulary of `tokenizer.json`: most models.
pub(crate) const BPE: TokenizerRules = TokenizerRules {
    kind: VocabularyKind::ByFiles,
    pieces: PiecesUse::Never,
    pieces_in_json: false,
    no_space_prefix_in_json: false,
    unscored: false,
    arctic_types: false,
    internlm: false,
    control_tokens: &[],
    is_llama: false,
    replaces_pieces: false,
    pad_to: None,
    fixed_padding: None,
    declared_types: false,
    roles: &[],
    no_space_prefix: false,
    pre: &[],
    classes: &[],
    add: |_, _| {},
    first_flags: &[],
    suppressed: false,
    further: None,
    overrides: NO_OVERRIDES,
};

/// `tokenizer.json`, else Kimi's file of ranks.
pub(crate) const BPE_OR_RANKS: TokenizerRules =
    TokenizerRules { kind: VocabularyKind::ByFilesOrRanked(KIMI_RANKS), ..BPE };

/// The same; texts end by `eos_token` of the settings of ranks.
pub(crate) const BPE_OR_RANKS_WITH_END: TokenizerRules = TokenizerRules {
    kind: VocabularyKind::ByFilesOrRanked(RankedVocabulary { ends_by_settings: true, ..KIMI_RANKS }),
    ..BPE
};

/// `tokenizer.model`, else `tokenizer.json`.
pub(crate) const PIECES_OR_BPE: TokenizerRules = TokenizerRules { pieces: PiecesUse::First, ..BPE };

/// `tekken.json`, `tokenizer.model`, or `tokenizer.json` of either kind.
pub(crate) const LLAMA_LIKE: TokenizerRules = TokenizerRules {
    is_llama: true,
    add: |vocab_size, metadata| match vocab_size {
        // Code Llama: the end of infilled text.
        Some(32016) => metadata.number("tokenizer.ggml.eot_token_id", 32010),
        // Small Granite models.
        Some(49152) => metadata.truth("tokenizer.ggml.add_bos_token", false),
        _ => {}
    },
    ..PIECES_OR_BPE
};
