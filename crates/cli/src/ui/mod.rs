//! Presentation of results, progress and failures.

pub(crate) mod bars;
pub(crate) mod json;
pub(crate) mod number;
mod path;
mod printer;
mod progress;
pub(crate) mod shades;
pub(crate) mod size;
pub(crate) mod style;
mod table;
pub(crate) mod width;

pub(crate) use path::shown;
pub(crate) use printer::Printer;
pub(crate) use progress::{ProgressBar, Traffic};
pub(crate) use size::size;
pub(crate) use table::{Column, Page, Table};
