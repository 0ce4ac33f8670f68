//! What commands that write a model share: the tensors of a plan, directories, and what to do where writing fails.

mod advice;
mod directory;
mod disk;
mod forecast;
pub(super) mod tensors;

pub(super) use advice::{advise, refuse_options_of_directories};
pub(super) use directory::DirectoryJob;
