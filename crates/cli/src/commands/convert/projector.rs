//! The towers of a multimodal model, written next to its language model.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anamnesis::{AnamnesisError, Checkpoint, ConvertOptions, ConvertPlan, ConvertTarget, Existing};
use serde_json::{Value, json};

use super::Request;
use crate::commands::{counted, shown};
use crate::exit::Failure;
use crate::ui::{Printer, size};

/// The prefix of its file name.
const PREFIX: &str = "mmproj-";

/// A planned projector.
pub(super) struct Projector {
    plan: ConvertPlan,
    output: PathBuf,
}

impl Request<'_> {
    /// Plans the projector, if it is requested; an output that exists is refused before anything is written, unless the
    /// interrupted run that is resumed has written it.
    pub(super) fn projector(
        &self,
        checkpoint: &Checkpoint,
        model: &Path,
        is_resumed: bool,
    ) -> Result<Option<Projector>, Failure> {
        if !self.with_projector {
            return Ok(None);
        }
        let mut name = OsString::from(PREFIX);
        name.push(model.file_name().unwrap_or_default());
        let output = model.with_file_name(name);
        if anamnesis::exists(&output) && !(self.write.force || is_resumed || self.write.dry_run) {
            let text = format!("{}: it exists already", output.display());
            let error = AnamnesisError::Io(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text));
            return Err(Failure::Refused { error, advice: Some("--force replaces it".to_owned()) });
        }
        let mut options = ConvertOptions::new().with_projector(true).with_selection(self.options.selection.clone());
        options.run = self.options.run.clone();
        if is_resumed {
            options.run.existing = Existing::Replace;
        }
        options.like.clone_from(&self.options.like);
        options.output_dtype = self.options.output_dtype.filter(|_| !self.target.is_quantized());
        let plan = checkpoint.plan_convert(ConvertTarget::Gguf, &options);
        Ok(Some(Projector { plan: plan.map_err(|error| self.advise(error, checkpoint))?, output }))
    }
}

impl Projector {
    pub(super) fn document(&self) -> Value {
        let (tensors, bytes) = (self.plan.stats().tensors, self.plan.total_bytes());
        json!({ "output": self.output.to_string_lossy(), "tensor_count": tensors, "bytes": bytes })
    }

    /// A line on the file that would be written.
    pub(super) fn forecast(&self) -> String {
        format!("Would write {} ({})", self.written(), size(self.plan.total_bytes()))
    }

    /// Writes the file, and returns a line about it.
    pub(super) fn write(&self, printer: &Printer) -> Result<String, Failure> {
        let bar = printer.progress(self.plan.total_bytes());
        self.plan.write(&self.output, |progress| bar.set(progress.bytes))?;
        Ok(format!("Wrote {}", self.written()))
    }

    /// Removes the new file again, because the language model was not written.
    pub(super) fn undo(&self) {
        if self.plan.run().existing == Existing::Refuse {
            // What cannot be removed is a complete file.
            let _ = std::fs::remove_file(&self.output);
        }
    }

    fn written(&self) -> String {
        format!("{} -> {}", counted(self.plan.stats().tensors, "tensor"), shown(&self.output))
    }
}
