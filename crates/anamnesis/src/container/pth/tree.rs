//! From the root value of a pickle to named tensors.
//!
//! | the pickle holds | the tensors are named |
//! |---|---|
//! | a dict of tensors | by its keys |
//! | a training checkpoint: a dict with the model's weights under a usual key | by the keys of the weights; the rest is omitted |
//! | anything else that contains tensors | by their paths, joined with dots |
//! | one tensor | `tensor` |
//!
//! A caller can select everything, or the value at one path.

use std::borrow::Cow;

use super::contents::{PickleContents, check_depth};
use super::notes::{NameList, shared};
use super::pickle::caps::MAX_PICKLE_WORKING_SET;
use super::pickle::{Id, PickleValues, Value};
use super::rebuild;
use super::storage::{Storages, borrowed_name_of};
use super::view::View;
use crate::catalog::Note;
use crate::error::{AnamnesisError, Remedy, Result, quoted};
use crate::limits::Budget;

/// The name of a tensor that is the root value.
const BARE_TENSOR: &str = "tensor";
/// Maximum number of tensors.
const PTH_MAX_TENSORS: usize = 1 << 21;
/// Bytes of names and shapes that every file may have.
const FREE_LIST_BYTES: u64 = 4 << 20;
/// Bytes of names and shapes per byte of the pickle. A tensor takes more than a hundred bytes of pickle; only shared
/// long keys or shapes exceed this ratio.
const LIST_BYTES_PER_BYTE: u64 = 8;
/// Bytes per axis of a tensor: size and stride, twice for reordered tensors.
const AXIS_BYTES: u64 = 32;
/// Minimum bytes of pickle per tensor: a memo reference.
const REFERENCE_BYTES: usize = 2;
/// Bytes per tensor, without its name.
const ENTRY_BYTES: u64 = 256;
/// The tensors that the caller requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TensorRequest<'o> {
    /// The value at this path, with dots between keys.
    pub(super) select: Option<&'o str>,
    /// Everything, named by its full path.
    pub(super) all: bool,
    /// Omit unsupported tensors instead of refusing them.
    pub(super) skip_unsupported: bool,
    /// Accept a value that cannot contain tensors, such as a number.
    pub(super) accepts_any: bool,
}

/// The tensors of a file in file order, with notes.
#[derive(Debug, Default)]
pub(super) struct NamedTensors {
    pub(super) tensors: Vec<(String, View)>,
    pub(super) notes: Vec<Note>,
}

/// Finds the tensors of a value.
pub(super) fn tensors(
    root: Id,
    values: &PickleValues<'_>,
    storages: &mut Storages,
    wanted: TensorRequest<'_>,
    budget: &mut Budget,
) -> Result<NamedTensors> {
    let mut walk = Walk::new(values, storages, wanted, budget);
    let mut notes = Vec::new();
    let chosen = match wanted.select {
        Some(path) => walk.inside.select(root, path)?,
        None if wanted.all => root,
        None => walk.inside.find_weights(root, &mut notes, walk.budget)?,
    };
    if walk.inside.is_tensor(chosen) {
        let name = wanted.select.map_or(BARE_TENSOR, |path| path.rsplit('.').next().unwrap_or(path));
        walk.tensor(name.to_owned(), chosen)?;
    } else {
        walk.descend(chosen, &mut String::new(), 0)?;
    }
    walk.finish(notes)
}

struct Walk<'w, 'a> {
    inside: PickleContents<'w, 'a>,
    storages: &'w mut Storages,
    wanted: TensorRequest<'w>,
    budget: &'w mut Budget,
    tensors: Vec<(String, View)>,
    list_bytes: u64,
    /// Values that are not tensors.
    others: NameList,
    unsupported: NameList,
    unsupported_why: String,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(
        values: &'w PickleValues<'a>,
        storages: &'w mut Storages,
        wanted: TensorRequest<'w>,
        budget: &'w mut Budget,
    ) -> Self {
        Self {
            inside: PickleContents::new(values),
            storages,
            wanted,
            budget,
            tensors: Vec::new(),
            list_bytes: 0,
            others: NameList::default(),
            unsupported: NameList::default(),
            unsupported_why: String::new(),
        }
    }

    /// Adds the tensors inside the value at `path`.
    fn descend(&mut self, id: Id, path: &mut String, depth: usize) -> Result<()> {
        check_depth(depth)?;
        if let Some(entries) = self.inside.mapping(id) {
            let is_script = self.inside.is_script(id);
            let values = self.inside.values;
            refuse_duplicate_keys(&entries, values, path)?;
            for &(key, value) in &*entries {
                let Some(name) = borrowed_name_of(key, values) else {
                    if self.inside.holds_tensor(value, depth, self.budget)? {
                        let why = format!("a key of {} is neither text nor an integer", path_label(path));
                        return Err(AnamnesisError::parse(why));
                    }
                    self.others.count += 1;
                    continue;
                };
                self.child(&name, value, path, depth, !is_script)?;
            }
        } else if let Some(items) = self.inside.sequence(id) {
            for (index, &value) in items.iter().enumerate() {
                self.child(&index.to_string(), value, path, depth, true)?;
            }
        } else if path.is_empty() && !self.wanted.accepts_any {
            return Err(AnamnesisError::parse("the pickle holds neither a tensor nor a dict or list of tensors"));
        }
        Ok(())
    }

    fn child(&mut self, name: &str, value: Id, path: &mut String, depth: usize, notes_omission: bool) -> Result<()> {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        if self.inside.is_tensor(value) {
            self.tensor(path.clone(), value)?;
        } else if self.inside.holds_tensor(value, depth, self.budget)? {
            self.descend(value, path, depth + 1)?;
        } else if notes_omission {
            self.others.add(path);
        }
        path.truncate(length);
        Ok(())
    }

    fn tensor(&mut self, name: String, id: Id) -> Result<()> {
        let Value::Object(object) = self.inside.values.get(id) else { return Ok(()) };
        // A tensor takes many bytes of pickle; only shared containers, nested repeatedly, exceed this.
        let most = PTH_MAX_TENSORS.min(self.inside.values.pickle_bytes() / REFERENCE_BYTES);
        if self.tensors.len() + self.unsupported.count >= most {
            return Err(AnamnesisError::limit("PTH_MAX_TENSORS", format!("the pickle names more than {most} tensors")));
        }
        self.list(name.len() as u64, ENTRY_BYTES)?;
        match rebuild::tensor(object, self.inside.values, self.storages) {
            Ok(view) => {
                self.list(view.shape.len() as u64 * AXIS_BYTES, 0)?;
                self.tensors.push((name, view));
            }
            Err(AnamnesisError::Unsupported { detail, .. }) if self.wanted.skip_unsupported => {
                if self.unsupported.count == 0 {
                    self.unsupported_why = detail;
                }
                self.unsupported.add(&name);
            }
            Err(error) => {
                let error = error.within(format_args!("tensor {}", quoted(&name)));
                return Err(error.with_remedy(Remedy::LeaveOut));
            }
        }
        Ok(())
    }

    /// Charges the memory of the tensor list: a part that a pickle can repeat, and a fixed part.
    fn list(&mut self, bytes: u64, fixed_bytes: u64) -> Result<()> {
        self.budget.working_set(bytes + fixed_bytes, "the list of tensors")?;
        self.list_bytes += bytes;
        let pickle_bytes = self.inside.values.pickle_bytes() as u64;
        let most = FREE_LIST_BYTES.max(pickle_bytes * LIST_BYTES_PER_BYTE).min(MAX_PICKLE_WORKING_SET);
        if self.list_bytes <= most {
            return Ok(());
        }
        let message =
            format!("the names and shapes of the tensors take more than {most} bytes, of a pickle of {pickle_bytes}");
        Err(AnamnesisError::limit("MAX_PICKLE_WORKING_SET", message))
    }

    fn finish(self, mut notes: Vec<Note>) -> Result<NamedTensors> {
        self.budget.items(self.tensors.len() as u64, "tensors")?;
        let mut names: Vec<&str> = self.tensors.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AnamnesisError::parse(format!("two tensors are named {}", quoted(pair[0]))));
        }
        drop(names);
        if self.unsupported.count > 0 {
            let (names, why) = (self.unsupported.text(), self.unsupported_why);
            notes.push(Note::new(format!("left out {names}: {why}")));
        }
        if self.others.count > 0 {
            let noun =
                if self.others.count == 1 { "value that is not a tensor" } else { "values that are not tensors" };
            notes.push(Note::new(format!("left out {} {noun}: {}", self.others.count, self.others.text())));
        }
        notes.extend(shared(&self.tensors));
        Ok(NamedTensors { tensors: self.tensors, notes })
    }
}

/// Refuses a dict with duplicate keys, whose meaning depends on the reader.
fn refuse_duplicate_keys(entries: &[(Id, Id)], values: &PickleValues<'_>, path: &str) -> Result<()> {
    let named = |key| borrowed_name_of(key, values);
    let mut names: Vec<Cow<'_, str>> = entries.iter().filter_map(|&(key, _)| named(key)).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let (name, place) = (quoted(&pair[0]), path_label(path));
            Err(AnamnesisError::parse(format!("key {name} of {place} occurs twice")))
        }
        None => Ok(()),
    }
}

fn path_label(path: &str) -> String {
    if path.is_empty() { "the outermost dict".to_owned() } else { quoted(path) }
}
