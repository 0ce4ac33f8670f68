//! What this build reads, writes, decodes and encodes, as its own registries tell it.

use crate::catalog::{BlockType, TargetDtype};
use crate::container::{ALL, Format};
use crate::scheme::{self, About};

/// A file format, and what can be done with its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatSupport {
    /// The format.
    pub format: Format,
    /// Whether its files are read.
    pub reads: bool,
    /// Whether a conversion writes them.
    pub writes: bool,
}

/// Every file format that is told apart.
///
/// ```
/// let written: Vec<_> = anamnesis::formats().filter(|format| format.writes).map(|format| format.format.name()).collect();
/// assert!(written.contains(&"safetensors") && written.contains(&"GGUF"));
/// ```
pub fn formats() -> impl Iterator<Item = FormatSupport> {
    // Whatever has a container is read.
    ALL.iter().map(|about| FormatSupport { format: about.format, reads: true, writes: about.writes })
}

/// A quantisation scheme whose weights are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemeSupport {
    /// The name users know.
    pub name: &'static str,
    /// Which forms of it.
    pub forms: &'static str,
}

/// Every scheme that is decoded.
pub fn decoded_schemes() -> impl Iterator<Item = SchemeSupport> {
    scheme::about().filter_map(|about| match about {
        About::Decoded(name, forms) => Some(SchemeSupport { name, forms }),
        About::Refused(_) => None,
    })
}

/// The formats of packed weights that are recognised and refused.
pub fn refused_schemes() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for about in scheme::about() {
        let About::Refused(more) = about else { continue };
        // A format may be known by its tensors and by the name of its method.
        names.extend(more.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }
    names.into_iter()
}

/// Every block type of GGUF, all of which are decoded.
pub fn block_types() -> impl ExactSizeIterator<Item = BlockType> {
    BlockType::all()
}

/// The types that weights are decoded to.
#[must_use]
pub const fn decoded_types() -> [TargetDtype; 3] {
    [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::ConvertTarget;

    #[test]
    fn every_target_writes_a_format_that_is_listed_as_written() {
        for target in ConvertTarget::all() {
            assert!(formats().any(|format| format.format == target.format() && format.writes), "{target}");
        }
    }

    #[test]
    fn what_is_decoded_is_not_refused() {
        assert!(decoded_schemes().count() >= 5 && refused_schemes().count() > 5);
        for scheme in decoded_schemes() {
            assert!(refused_schemes().all(|refused| refused != scheme.name), "{}", scheme.name);
        }
    }
}
