//! Model architectures by llama.cpp's names: how a Hugging Face checkpoint and a GGUF file of the same model differ.
//!
//! An architecture is data: its classes in transformers and their defaults (`defaults`), the names of its tensors in both
//! formats (`rule`, `modules`) and the changes between them (`change`), its metadata keys (`key`), its vocabulary
//! (`tokenizer`). A new one is a file in `models` and a line in its list. `map` and `back` read these tables in either
//! direction; the result is a `tree` of steps per tensor, from which `reshape` builds decoders that work tile by tile.

pub(crate) mod adapter;
pub(crate) mod back;
pub(crate) mod card;
mod change;
mod complete;
pub(crate) mod config;
mod defaults;
mod exponential;
mod families;
mod gguf;
pub(crate) mod key;
mod key_names;
mod kind;
pub(crate) mod language_model;
mod latent;
mod map;
pub(crate) mod measured;
pub(crate) mod metadata_builder;
pub(crate) mod mistral_format;
mod models;
mod modules;
mod names;
mod need;
mod prelude;
pub(crate) mod projectors;
mod registry;
pub(crate) mod reshape;
mod restore;
mod rope;
mod rope_freqs;
mod rule;
pub(crate) mod sentence_transformers;
pub(crate) mod sidecars;
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
