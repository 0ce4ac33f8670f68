//! `hash`: the SHA-256 of every tensor and of the whole.

use std::io::Write;

use anamnesis::{CpuLevel, HashForm, ModelHash, TargetDtype, TensorHash};
use serde_json::{Value, json};

use super::small_file::{self, SmallFile};
use super::{open, patterns, to};
use crate::args::HashArgs;
use crate::exit::Failure;
use crate::ui::{Printer, size};

pub(super) fn run(args: &HashArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let dtype = args.to.as_deref().map(to::dtype).transpose()?;
    let form = match args.decoded {
        true => HashForm::Decoded(dtype.unwrap_or(TargetDtype::F32)),
        false => HashForm::Stored,
    };
    let run = args.run.options(cpu)?;
    let checkpoint = patterns::select(&args.choice, open::checkpoint(&args.input, printer)?)?;
    let bar = printer.progress(0);
    let hash = checkpoint.hash(form, &run, |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.bytes);
    });
    drop(bar);
    let hash = hash.map_err(|error| patterns::advise(error, &checkpoint))?;
    let text = hash.to_string();
    match &args.output {
        None => printer.text(text.trim_end())?,
        Some(path) => {
            let fill =
                |out: &mut SmallFile| Ok(out.write_all(text.as_bytes()).map_err(anamnesis::AnamnesisError::Io)?);
            let bytes = small_file::write(path, args.force, fill)?;
            printer.text(format_args!("{} ({})", super::shown(path), size(bytes)))?;
        }
    }
    if printer.is_json() {
        printer.document("hash", document(args, &hash))?;
    }
    Ok(())
}

fn document(args: &HashArgs, hash: &ModelHash) -> Value {
    let tensor = |tensor: &TensorHash| {
        json!({
            "name": tensor.name,
            "dtype": tensor.dtype.to_string(),
            "shape": tensor.shape,
            "sha256": tensor.sha256.to_string(),
        })
    };
    json!({
        "path": args.input.path.to_string_lossy(),
        "form": hash.form.to_string(),
        "tensors": hash.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "sha256": hash.sha256(),
    })
}
