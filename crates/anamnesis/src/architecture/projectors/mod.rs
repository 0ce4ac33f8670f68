//! Projectors: the vision and audio towers of multimodal models, with the layers that connect them to the language model.
//!
//! A projector is an architecture named `clip`, in the same form as those of language models: its class, the names, shapes
//! and changes of its tensors, its keys. Its renames bring the tensors of a tower under `vision.` or `audio.` and those
//! between tower and language model under `mm.`; every other tensor is one of the language model. A new projector is a
//! file here and a line in the list below.
//!
//! `cargo fmt` does not follow modules that a macro declares: `cargo xtask fmt` formats these files too.

#[cfg(feature = "architectures")]
mod keys;
#[cfg(feature = "architectures")]
mod mobilenet;
#[cfg(feature = "architectures")]
mod prelude;
mod registry;
mod settings;
#[cfg(feature = "architectures")]
mod siglip;
#[cfg(feature = "architectures")]
mod sizes;

pub(crate) use settings::config;

use super::kind::Architecture;

macro_rules! projectors {
    ($($module:ident,)*) => {
        $(#[cfg(feature = "architectures")] mod $module;)*

        /// All projectors, by file; none without the feature of the architectures.
        const PROJECTORS: &[&[Architecture]] =
            &[$(#[cfg(feature = "architectures")] $module::ARCHITECTURES),*];
    };
}

projectors! {
    cogvlm,
    deepseek4_vision,
    deepseek_ocr,
    deepseek_ocr2,
    dots3_note,
    dots_ocr,
    exaone,
    gemma3,
    gemma3n,
    gemma4,
    gemma4_unified,
    glm4v,
    granite4_vision,
    granite_speech,
    hunyuan_vl,
    idefics3,
    internvl,
    janus,
    kimi_vl,
    lfm2_audio,
    lfm2_vl,
    ling3_vl,
    llama4,
    minicpmv,
    minimax_m3,
    muse_glimmer,
    nemotron_vl,
    paddle_ocr,
    phi4,
    pixtral,
    qwen2vl,
    qwen3vl,
    qwen_omni,
    step3_vl,
    whisper,
    youtu_vl,
}
