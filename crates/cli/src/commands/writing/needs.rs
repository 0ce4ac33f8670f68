//! Resources of a conversion, printed before it starts.

use std::path::Path;

use anamnesis::RememberOptions;
use serde_json::Value;

use crate::commands::output_path;
use crate::exit::Failure;
use crate::ui::{Printer, size};

/// Memory and disk space.
pub(super) struct Needs {
    memory_bytes: u64,
    disk_bytes: u64,
    /// `None` if the system does not report it.
    free_bytes: Option<u64>,
}

impl Needs {
    /// The resources for writing `disk_bytes` bytes to `output`.
    pub(super) fn of(output: &Path, disk_bytes: u64, run: &RememberOptions) -> Self {
        let free_bytes = if output_path::is_stream(output) { None } else { anamnesis::free_bytes(output) };
        Self { memory_bytes: run.memory_bytes(), disk_bytes, free_bytes }
    }

    pub(super) fn print(&self, printer: &Printer) -> Result<(), Failure> {
        printer.text(format_args!("Memory: about {}", size(self.memory_bytes)))?;
        let free = match self.free_bytes {
            Some(free) if free < self.disk_bytes => format!(", only {} free", size(free)),
            Some(free) => format!(", {} free", size(free)),
            None => String::new(),
        };
        printer.text(format_args!("Disk: {} needed{free}", size(self.disk_bytes)))
    }

    pub(super) fn add_to(&self, document: &mut Value) {
        document["memory_bytes"] = self.memory_bytes.into();
        document["disk_bytes"] = self.disk_bytes.into();
        document["free_bytes"] = self.free_bytes.into();
    }
}
