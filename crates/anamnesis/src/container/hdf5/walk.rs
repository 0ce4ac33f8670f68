//! Finding all datasets of a file, from the root group down.

use super::dataset::{Dataset, is_dataset};
use super::file::File;
use super::group::{is_group, links};
use super::header::messages;
use crate::container::pages::Pages;
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Maximum depth of groups.
const MAX_DEPTH: usize = 64;
/// Maximum number of objects that are visited: a group may be linked many times.
const MAX_OBJECTS: usize = 200_000;
/// Maximum bytes of all names.
const MAX_NAMES_BYTES: usize = 64 << 20;

/// The datasets of a file with their paths.
#[derive(Default)]
pub(super) struct Found {
    pub(super) datasets: Vec<(String, Dataset)>,
    /// Why others are not read.
    pub(super) refused: Vec<String>,
}

struct Walk<'f, 'p, 's, 'b> {
    file: &'f File<'p, 's>,
    budget: &'b mut Budget,
    found: Found,
    objects: usize,
    names_bytes: usize,
    /// The addresses of the groups that lead to the current one.
    above: Vec<u64>,
}

pub(super) fn walk(pages: &Pages<'_>, budget: &mut Budget) -> Result<Found> {
    let file = File::new(pages)?;
    let (root, found) = (file.root, Found::default());
    let mut walk = Walk { file: &file, budget, found, objects: 0, names_bytes: 0, above: Vec::new() };
    walk.object("", root)?;
    Ok(walk.found)
}

impl Walk<'_, '_, '_, '_> {
    fn object(&mut self, path: &str, address: u64) -> Result<()> {
        self.objects += 1;
        self.names_bytes += path.len();
        if self.objects > MAX_OBJECTS || self.names_bytes > MAX_NAMES_BYTES {
            let why = format!("more than {MAX_OBJECTS} objects or {MAX_NAMES_BYTES} bytes of names");
            return Err(AnamnesisError::limit("MAX_OBJECTS", why));
        }
        self.budget.items(self.objects as u64, "objects")?;
        self.budget.working_set((size_of::<(String, Dataset)>() + path.len()) as u64, "an object's entry")?;
        let within = |error: AnamnesisError| if path.is_empty() { error } else { error.in_tensor(path) };
        let messages = messages(self.file, address).map_err(within)?;
        if is_dataset(&messages) {
            match Dataset::read(self.file, &messages, self.budget).map_err(within)? {
                Ok(dataset) => self.found.datasets.push((path.to_owned(), dataset)),
                Err(why) => self.found.refused.push(format!("dataset {} {why}", quoted(path))),
            }
            return Ok(());
        }
        if !is_group(&messages) {
            // A committed type, or an empty object.
            return Ok(());
        }
        if self.above.contains(&address) || self.above.len() >= MAX_DEPTH {
            let why = format!("group {} contains itself, or is below {MAX_DEPTH} others", quoted(path));
            return Err(AnamnesisError::parse(why));
        }
        self.above.push(address);
        for (name, child) in links(self.file, &messages).map_err(within)? {
            if name.is_empty() || name.contains('/') {
                return Err(AnamnesisError::parse(format!(
                    "group {} has a link named {}",
                    quoted(path),
                    quoted(&name)
                )));
            }
            let child_path = if path.is_empty() { name } else { format!("{path}/{name}") };
            self.object(&child_path, child)?;
        }
        self.above.pop();
        Ok(())
    }
}
