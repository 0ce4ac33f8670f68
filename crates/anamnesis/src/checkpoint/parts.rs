//! Split models: every file says which part of how many it is, and all of them must be there.

use crate::catalog::{Catalog, SplitPart};
use crate::container::Format;
use crate::error::{AnamnesisError, Result, quoted};

/// Refuses a part that was opened as if it were a whole model.
pub(super) fn check_alone(catalog: &Catalog, format: Format) -> Result<()> {
    let Some(SplitPart { index, count, .. }) = catalog.part else { return Ok(()) };
    let (number, ending) = (index + 1, format.extensions().first().unwrap_or(&""));
    Err(AnamnesisError::parse(format!(
        "this file is part {number} of {count}; the parts are found by their names, which must end in \
         -{number:05}-of-{count:05}.{ending}"
    )))
}

/// Holds what the files of a set say of themselves against the set.
pub(super) fn check_set(catalogs: &[Catalog], files: &[String]) -> Result<()> {
    let stored: usize = catalogs.iter().map(Catalog::len).sum();
    for (place, (catalog, file)) in catalogs.iter().zip(files).enumerate() {
        let Some(SplitPart { index, count, tensors }) = catalog.part else { continue };
        let refuse = |why: String| Err(AnamnesisError::parse(format!("{}: {why}", quoted(file))));
        if count as usize != files.len() {
            return refuse(format!("it is one of {count} parts (split.count), {} are here", files.len()));
        }
        if index as usize != place {
            return refuse(format!("it is part {} of {count} (split.no), its name says {}", index + 1, place + 1));
        }
        if let Some(tensors) = tensors.filter(|&tensors| tensors as usize != stored) {
            let why = format!("all parts have {tensors} tensors together (split.tensors.count), {stored} are here");
            return refuse(why);
        }
    }
    Ok(())
}
