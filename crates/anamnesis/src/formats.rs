//! Formats, schemes and types that this build supports, from its registries.

use crate::catalog::{BlockType, TargetDtype};
use crate::container::{ALL, Format};
use crate::scheme::{self, About};

/// A file format and whether it is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatSupport {
    /// The format.
    pub format: Format,
    /// Whether its files can be read.
    pub reads: bool,
    /// Whether its files can be written.
    pub writes: bool,
}

/// All file formats.
///
/// ```
/// let written: Vec<_> = anamnesis::formats().filter(|format| format.writes).map(|format| format.format.name()).collect();
/// assert!(written.contains(&"safetensors") && written.contains(&"GGUF"));
/// ```
pub fn formats() -> impl Iterator<Item = FormatSupport> {
    // Every container reads its format.
    ALL.iter().map(|about| FormatSupport { format: about.format, reads: true, writes: about.writes })
}

/// A quantisation scheme that can be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemeSupport {
    /// Its usual name.
    pub name: &'static str,
    /// The supported variants.
    pub forms: &'static str,
}

/// All schemes that can be decoded.
pub fn decoded_schemes() -> impl Iterator<Item = SchemeSupport> {
    scheme::about().filter_map(|about| match about {
        About::Decoded(name, forms) => Some(SchemeSupport { name, forms }),
        About::Refused(_) => None,
    })
}

/// Formats of packed weights that are recognised and refused.
pub fn refused_schemes() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for about in scheme::about() {
        let About::Refused(more) = about else { continue };
        // A format may be listed by its tensors and by its method name.
        names.extend(more.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }
    names.into_iter()
}

/// All block types of GGUF; every one can be decoded.
pub fn block_types() -> impl ExactSizeIterator<Item = BlockType> {
    BlockType::all()
}

/// The types that weights can be decoded to.
#[must_use]
pub const fn decoded_types() -> [TargetDtype; 3] {
    [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::ConvertTarget;

    #[test]
    fn every_target_writes_a_format_listed_as_writable() {
        for target in ConvertTarget::all() {
            assert!(formats().any(|format| format.format == target.format() && format.writes), "{target}");
        }
    }

    #[test]
    fn decoded_schemes_are_not_refused() {
        assert!(decoded_schemes().count() >= 5 && refused_schemes().count() > 5);
        for scheme in decoded_schemes() {
            assert!(refused_schemes().all(|refused| refused != scheme.name), "{}", scheme.name);
        }
    }
}
