//! How results, progress and failures look.

pub(crate) mod json;
mod printer;
mod progress;
mod table;

pub(crate) use printer::Printer;
pub(crate) use progress::ProgressBar;
pub(crate) use table::{Column, Table};
