//! Directories of several models: one command for every component, one output directory.

use std::path::{Path, PathBuf};

use anamnesis::{AnamnesisError, Component, Components, ConvertStats, Existing, Origin};
use serde_json::{Value, json};

use super::writing::{sidecar_document, sidecar_lines};
use super::{open, output_path, shown};
use crate::args::{InputArgs, ProvenanceArgs, WriteArgs};
use crate::exit::Failure;
use crate::ui::Printer;

/// The components of the input; `None` if it is not a directory of several models.
pub(super) fn of(input: &InputArgs) -> Result<Option<Components>, Failure> {
    if input.is_stream() || input.only_this_file {
        return Ok(None);
    }
    let found = Components::find(&input.path).map_err(|error| open::advise(error, &input.path))?;
    let given = [(input.config.is_some(), "--config"), (input.select.is_some(), "--select")];
    match (&found, given.iter().find(|(is_given, _)| *is_given)) {
        (Some(components), Some((_, option))) => Err(Failure::Usage(format!(
            "{option} is about one model, and {} has several; name one of {}",
            shown(&input.path),
            open::component_names(components)
        ))),
        _ => Ok(found),
    }
}

/// A command that writes.
pub(super) struct Writing<'a> {
    pub(super) command: &'static str,
    pub(super) components: &'a Components,
    pub(super) input: &'a InputArgs,
    pub(super) write: &'a WriteArgs,
    /// The suffix of the default output.
    pub(super) suffix: &'a str,
    /// Whether nothing is written if no component has anything to quantise.
    pub(super) must_quantise: bool,
}

impl Writing<'_> {
    /// Plans every component, then writes them one after the other, and copies the other files last.
    pub(super) fn run(
        &self,
        plan: impl Fn(&InputArgs) -> Result<ConvertStats, Failure>,
        run: impl Fn(&InputArgs, &WriteArgs) -> Result<Value, Failure>,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let output = self.output()?;
        if output_path::is_address(&output) {
            let why = "a model of several components is written to a directory, not to a store".to_owned();
            return Err(Failure::Usage(why));
        }
        let existing = if self.write.force { Existing::Replace } else { Existing::Refuse };
        let Self { components, write, .. } = self;
        components.check_output(&output, existing).map_err(advise)?;
        let mut quantised = 0;
        for component in components.models() {
            let stats = plan(&self.input.again(&component.path))?;
            quantised += stats.quantized + stats.repacked;
        }
        if self.must_quantise && quantised == 0 {
            let why = "no weight of any component would be quantised; --allow-empty writes the output anyway";
            return Err(Failure::Nothing(why.to_owned()));
        }
        let is_created = !write.dry_run && !output.exists();
        if is_created {
            std::fs::create_dir(&output).map_err(|error| AnamnesisError::Io(at(&error, &output)))?;
        }
        let documents = self.write_each(&output, run, printer).inspect_err(|_| {
            // Succeeds only if nothing was written.
            let _ = if is_created { std::fs::remove_dir(&output) } else { Ok(()) };
        })?;
        let sidecars = components.sidecars()?;
        if !write.dry_run {
            components.copy_sidecars(&output)?;
        }
        printer.text(format_args!("{}", shown(&output)))?;
        for line in sidecar_lines(&sidecars) {
            printer.text(format_args!("  {line}"))?;
        }
        let document = json!({
            "path": self.input.path.to_string_lossy(),
            "output": output.to_string_lossy(),
            "dry_run": write.dry_run,
            "pipeline": components.class(),
            "components": documents,
            "sidecars": sidecars.iter().map(sidecar_document).collect::<Value>(),
        });
        printer.document(self.command, document)
    }

    fn write_each(
        &self,
        output: &Path,
        run: impl Fn(&InputArgs, &WriteArgs) -> Result<Value, Failure>,
        printer: &Printer,
    ) -> Result<Vec<Value>, Failure> {
        let mut documents = Vec::new();
        for component in self.components.models() {
            printer.text(format_args!("{} ({})", component.name, component.class))?;
            let (output, provenance) = (Some(output.join(&component.name)), ProvenanceArgs::default());
            let write = WriteArgs { output, provenance, is_inside: true, ..*self.write };
            let mut document = run(&self.input.again(&component.path), &write)?;
            describe(component, &mut document);
            documents.push(document);
        }
        Ok(documents)
    }

    /// The output directory: by default next to the input, with the suffix appended to its name.
    fn output(&self) -> Result<PathBuf, Failure> {
        let output = match &self.write.output {
            Some(output) => output.clone(),
            None => output_path::directory_of(&Origin::of(&self.input.path), self.suffix)?,
        };
        if output_path::is_file(&output) {
            let (input, output) = (shown(&self.input.path), shown(&output));
            return Err(Failure::Usage(format!("{input} has several models, which {output} as one file cannot hold")));
        }
        output_path::check_directory(&output)?;
        Ok(output)
    }
}

/// Adds the fields of a component to its document.
pub(super) fn describe(component: &Component, document: &mut Value) {
    document["component"] = component.name.as_str().into();
    document["library"] = component.library.as_str().into();
    document["class"] = component.class.as_str().into();
}

fn at(error: &std::io::Error, path: &Path) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Adds advice to the error of an output that has other files.
fn advise(error: AnamnesisError) -> Failure {
    let advice = match &error {
        AnamnesisError::Io(cause) => match cause.kind() {
            std::io::ErrorKind::AlreadyExists => Some("--force replaces it, -o chooses another directory"),
            std::io::ErrorKind::InvalidInput => Some("choose another directory with -o"),
            _ => None,
        },
        _ => None,
    };
    Failure::Refused { error, advice: advice.map(str::to_owned) }
}
