//! Projectors: the vision and audio towers of multimodal models, with the layers that connect them to the language model.
//!
//! A projector is an architecture named `clip`, in the same form as those of language models: its class, the names, shapes
//! and changes of its tensors, its keys. Its renames bring the tensors of a tower under `vision.` or `audio.` and those
//! between tower and language model under `mm.`; every other tensor is one of the language model. A new projector is a
//! file here and a line in [`PROJECTORS`].

#[cfg(feature = "architectures")]
mod dots_ocr;
#[cfg(feature = "architectures")]
mod exaone;
#[cfg(feature = "architectures")]
mod gemma3;
#[cfg(feature = "architectures")]
mod gemma4;
#[cfg(feature = "architectures")]
mod glm4v;
#[cfg(feature = "architectures")]
mod granite_speech;
#[cfg(feature = "architectures")]
mod hunyuan_vl;
#[cfg(feature = "architectures")]
mod idefics3;
#[cfg(feature = "architectures")]
mod internvl;
#[cfg(feature = "architectures")]
mod janus;
#[cfg(feature = "architectures")]
mod keys;
#[cfg(feature = "architectures")]
mod kimi_vl;
#[cfg(feature = "architectures")]
mod lfm2_vl;
#[cfg(feature = "architectures")]
mod llama4;
#[cfg(feature = "architectures")]
mod minicpmv;
#[cfg(feature = "architectures")]
mod muse_glimmer;
#[cfg(feature = "architectures")]
mod pixtral;
#[cfg(feature = "architectures")]
mod prelude;
#[cfg(feature = "architectures")]
mod qwen2vl;
#[cfg(feature = "architectures")]
mod qwen3vl;
mod registry;
mod settings;
#[cfg(feature = "architectures")]
mod siglip;
#[cfg(feature = "architectures")]
mod sizes;
#[cfg(feature = "architectures")]
mod whisper;

pub(crate) use settings::config;

use super::kind::Architecture;

/// All projectors: none.
#[cfg(not(feature = "architectures"))]
const PROJECTORS: &[&[Architecture]] = &[];

/// All projectors.
#[cfg(feature = "architectures")]
const PROJECTORS: &[&[Architecture]] = &[
    dots_ocr::ARCHITECTURES,
    exaone::ARCHITECTURES,
    gemma3::ARCHITECTURES,
    gemma4::ARCHITECTURES,
    glm4v::ARCHITECTURES,
    granite_speech::ARCHITECTURES,
    hunyuan_vl::ARCHITECTURES,
    idefics3::ARCHITECTURES,
    internvl::ARCHITECTURES,
    janus::ARCHITECTURES,
    kimi_vl::ARCHITECTURES,
    lfm2_vl::ARCHITECTURES,
    llama4::ARCHITECTURES,
    minicpmv::ARCHITECTURES,
    muse_glimmer::ARCHITECTURES,
    pixtral::ARCHITECTURES,
    qwen2vl::ARCHITECTURES,
    qwen3vl::ARCHITECTURES,
    whisper::ARCHITECTURES,
];
