//! The native half of the Python package `anamnesis`: it translates types, names and errors; everything else is the
//! library's. The Python half, under `python/anamnesis`, gives it the interface that Python users expect.

mod arrays;
mod buffer;
mod checkpoint;
mod command;
mod dlpack;
mod errors;
mod metadata;
mod options;
mod quantize;
mod reading;
mod source;
mod wait;

use pyo3::prelude::*;

/// The native half of `anamnesis`.
#[pymodule(gil_used = false)]
mod _anamnesis {
    #[pymodule_export]
    use super::arrays::save;
    #[pymodule_export]
    use super::checkpoint::Checkpoint;
    #[pymodule_export]
    use super::command::{command, flags, main};
    #[pymodule_export]
    use super::quantize::{assemble, assemble_blocks, block_size, quantize};
}
