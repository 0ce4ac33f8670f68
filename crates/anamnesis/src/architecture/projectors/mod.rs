//! Projectors: the vision and audio towers of multimodal models, with the layers that connect them to the language model.
//!
//! A projector is an architecture named `clip`, in the same form as those of language models: its class, the names, shapes
//! and changes of its tensors, its keys. Its renames bring the tensors of a tower under `vision.` or `audio.` and those
//! between tower and language model under `mm.`; every other tensor is one of the language model. A new projector is a
//! file here and a line in [`PROJECTORS`].

mod dots_ocr;
mod exaone;
mod gemma3;
mod gemma4;
mod glm4v;
mod granite_speech;
mod hunyuan_vl;
mod idefics3;
mod internvl;
mod janus;
mod keys;
mod kimi_vl;
mod lfm2_vl;
mod llama4;
mod minicpmv;
mod muse_glimmer;
mod pixtral;
mod prelude;
mod qwen2vl;
mod qwen3vl;
mod registry;
mod settings;
mod siglip;
mod sizes;
mod whisper;

pub(crate) use settings::config;

use super::kind::Architecture;

/// All projectors.
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
