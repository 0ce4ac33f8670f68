//! What llama.cpp calls a model's architecture: how a checkpoint of Hugging Face and a GGUF file of the same model differ.
//!
//! An architecture is data: the classes it is for, the names of its tensors in both worlds and what is changed between them
//! (`rule`, `change`), the keys of its metadata and where they come from (`key`). A new one is a file here and a line in
//! `registry`. What is common is read from these tables: `map` says what every tensor of an output is made of, as `tree`s of
//! steps, and `reshape` makes decoders of them, which go tile by tile.

pub(crate) mod back;
pub(crate) mod beside;
pub(crate) mod card;
mod change;
mod complete;
pub(crate) mod config;
mod defaults;
mod gguf;
mod key;
mod kind;
mod map;
pub(crate) mod metadata_builder;
mod models;
mod modules;
mod names;
mod need;
mod registry;
pub(crate) mod reshape;
mod restore;
mod rope;
mod rope_freqs;
mod rule;
mod size;
mod sleef;
mod state_space;
#[cfg(test)]
mod tests;
pub(crate) mod tokenizer;
pub(crate) mod tree;
pub(crate) mod types;
mod value;

pub(crate) use gguf::Gguf;
pub use kind::Architecture;
pub(crate) use map::{Mapped, Mapping, Named};
