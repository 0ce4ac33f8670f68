//! `inspect`: how a model is quantised, and how large it gets.

use anamnesis::{InspectOptions, TargetDtype};
use serde_json::json;

use super::{counts, open};
use crate::args::InspectArgs;
use crate::exit::Failure;
use crate::ui::{Printer, json::texts};

pub(super) fn run(args: &InspectArgs, printer: &Printer) -> Result<(), Failure> {
    let target: TargetDtype = args.to.parse()?;
    let info = open(&args.path)?.inspect_with_options(&InspectOptions::new().with_output_dtype(target));
    printer.text(&info)?;
    if printer.is_json() {
        let mut document = counts(&args.path, &info);
        let scheme = |(scheme, weights): &(String, usize)| json!({ "scheme": scheme, "weights": weights });
        document["schemes"] = info.schemes.iter().map(scheme).collect();
        document["to"] = target.to_string().into();
        document["decoded_bytes"] = info.dequantized_size.into();
        document["problems"] = texts(&info.problems);
        printer.document("inspect", document)?;
    }
    Ok(())
}
