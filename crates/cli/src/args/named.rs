//! Names for shell completion. Unknown names are accepted here, so that the command can suggest others.

use std::ffi::OsStr;

use anamnesis::ConvertTarget;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

/// A parser with completions.
#[derive(Clone)]
pub(super) struct Named(fn() -> Vec<PossibleValue>);

/// Targets of a conversion.
pub(super) const TARGETS: Named = Named(|| ConvertTarget::all().map(target).collect());
/// Targets that quantise.
pub(super) const ENCODINGS: Named =
    Named(|| ConvertTarget::all().filter(|target| target.is_quantized()).map(target).collect());
/// Types of decoded weights.
pub(super) const DTYPES: Named = Named(|| DTYPE_NAMES.map(PossibleValue::new).to_vec());
const DTYPE_NAMES: [&str; 3] = ["bf16", "f16", "f32"];
/// Types of matrices in a conversion to GGUF.
pub(super) const MATRIX_TYPES: Named =
    Named(|| DTYPE_NAMES.into_iter().chain(["q8_0", "auto"]).map(PossibleValue::new).collect());

fn target(target: ConvertTarget) -> PossibleValue {
    PossibleValue::new(target.name()).help(target.about())
}

impl TypedValueParser for Named {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_of_decoded_weights_are_completed() {
        assert_eq!(anamnesis::decoded_types().map(|dtype| dtype.to_string().to_lowercase()), DTYPE_NAMES);
    }
}
