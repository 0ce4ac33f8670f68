//! The architectures: a file of data each, and a line in the list below. Nothing else names one. A file with several
//! architectures of one family lists them in brackets.
//!
//! `cargo fmt` does not follow modules that a macro declares: `cargo xtask fmt` formats these files too.

use super::kind::Architecture;

#[cfg(feature = "architectures")]
macro_rules! architectures {
    ($($(#[$attribute:meta])* $module:ident $([$($item:ident),+])?,)*) => {
        $($(#[$attribute])* mod $module;)*

        /// All architectures, by file.
        pub(super) static FAMILIES: &[&[&Architecture]] =
            &[$($(#[$attribute])* family!($module $([$($item),+])?)),*];
    };
}

/// The architectures of a file: `ARCHITECTURE`, or those listed.
#[cfg(feature = "architectures")]
macro_rules! family {
    ($module:ident) => {
        &[&$module::ARCHITECTURE]
    };
    ($module:ident [$($item:ident),+]) => {
        &[$(&$module::$item),+]
    };
}

/// All architectures, by file: none.
#[cfg(not(feature = "architectures"))]
pub(super) static FAMILIES: &[&[&Architecture]] = &[];

#[cfg(feature = "architectures")]
architectures! {
    llama,
    qwen,
    qwen2,
    qwen2moe,
    qwen3,
    qwen3moe,
    qwen3tts,
    gemma,
    gemma2,
    gemma3,
    gemma3n,
    hy_v4,
    hrm_text,
    muse_glimmer,
    chameleon[CHAMELEON, COGVLM],
    jais,
    wavtokenizer,
    apertus,
    talkie,
    bitnet,
    kimi[KIMI_LINEAR, GLM5_NEXT],
    kimi_k3,
    ling3[TEXT, WITH_VISION],
    phi3,
    deepseek[DEEPSEEK1, AROUND, OCR, DEEPSEEK32, GLM_DSA, GLM_LITE],
    deepseek2,
    deepseek4,
    deepseek4_dspark,
    dots3_note,
    eagle3,
    dflash[FLASH, SPARK, MUSE],
    gemma4_dspark,
    gpt_oss,
    glm4,
    glm4moe,
    granite,
    olmo2,
    starcoder2,
    smollm3,
    cohere2,
    mamba,
    mamba2,
    falcon_h1,
    qwen_family[
        QWEN2_AROUND, KORMO, QWEN2_HEADLESS, QWEN3_AROUND, QWEN3_HEADLESS, QWEN2VL, QWEN3VL, QWEN3ASR, QWEN3VLMOE, QWEN3OMNI, DREAM, RND1
    ],
    qwen3next[QWEN3NEXT, QWEN35, MINICPMV, QWEN35MOE],
    qwen4exp,
    llama_multimodal[PIXTRAL, MULTIMODAL, HEADLESS, SARASHINA, BIDIRECTIONAL],
    llama4,
    mistral3[MISTRAL3, MISTRAL4],
    mistral_native[UNSCALED, SCALED, EXPERT_MODEL],
    arcee[ARCEE, NANBEIGE],
    glm[GLM4V, GLM_OCR, GLM4V_MOE, SOLAR_OPEN],
    minimax[TEXT01, M2, M3],
    cohere[COMMAND_R, COHERE2MOE],
    granite_switch,
    granite_family[MOE, SWA, MOE_SWA, BAMBA_ONLY, HYBRID, ATTENTION_MOE, ATTENTION_ONLY],
    nemotron,
    nemotron_h[WITH_EXPERTS, DENSE_ONLY, PUZZLE],
    lfm2[DENSE_MODEL, ENCODER, DETOKENIZER, MOE],
    hunyuan[DENSE_MODEL, VISION, HY3],
    hunyuan_moe,
    ernie[DENSE_MODEL, PADDLE_OCR, MOE],
    gpt[GPT2, RUGPT3XL, STARCODER, CODESHELL, REFACT],
    neox[NEOX, BLOOM, FALCON],
    phi2[PHI2, STABLELM, ORION, JAIS2, PHIMOE],
    mpt[MPT, DBRX],
    olmo[
        OLMO, OLMOE, SEED_OSS, MAINCODER, PANGU, DOTS1, AFMOE, MELLUM, MAPLE, GROVE, SMALLTHINKER, LLADA, LLADA_MOE
    ],
    encoders[
        BERT, BERT_WITH_HEAD, DISTILBERT, ROBERTA, XLM_ROBERTA, JINA_V2, NOMIC, NEOBERT, MODERN_BERT, EUROBERT, EMBEDDING_GEMMA
    ],
    rwkv[RWKV6, RWKV6_QWEN2, RWKV7],
    arwkv7,
    gemma4[DECODER_MODEL, UNIFIED, ASSISTANT],
    step35,
    t5[BOTH, ENCODER_ONLY],
    plamo[PLAMO2, PLAMO3],
    mimo,
    bailing[V1, V2, SARVAM],
    chatglm[CHATGLM, GLM],
    jamba[JAMBA],
    minicpm[MINICPM, MINICPM3, PLM],
    arctic[ARCTIC],
    openelm[OPENELM],
    deci[DECI_BLOCKS, DECI],
    laguna[LAGUNA, SPARK],
    internlm[INTERNLM2, INTERNLM3, XVERSE],
    grok[GROK],
    exaone[EXAONE3, EXAONE4, EXAONE4_5, MOE],
    #[cfg(test)]
    toy,
}
