//! What llama.cpp calls a model's architecture: how a checkpoint of Hugging Face and a GGUF file of the same model differ.
#![allow(dead_code, reason = "conversions begin to ask for vocabularies and names here")]

pub(crate) mod beside;
pub(crate) mod card;
pub(crate) mod tokenizer;
pub(crate) mod told;
