//! From the value a pickle stands for to named tensors.
//!
//! | the pickle holds | the tensors are named |
//! |---|---|
//! | a dict of tensors | by its keys |
//! | a training checkpoint: a dict with the model's weights under a usual key | by the keys of the weights; the rest is left out |
//! | anything else with tensors inside | by the path to them, with dots |
//! | one tensor | `tensor` |
//!
//! A caller can ask for everything, or for what is at one path.

use std::borrow::Cow;

use super::inside::{Inside, check_depth};
use super::notes::{Listed, shared};
use super::pickle::caps::MAX_PICKLE_WORKING_SET;
use super::pickle::{Id, PickleValues, Value};
use super::rebuild;
use super::storage::{Storages, borrowed_name_of};
use super::view::View;
use crate::catalog::Note;
use crate::error::{AnamnesisError, Remedy, Result, quoted};
use crate::limits::Budget;

/// The name of a tensor that is the whole file.
const BARE_TENSOR: &str = "tensor";
/// Most tensors of a file.
const PTH_MAX_TENSORS: usize = 1 << 21;
/// Bytes of names and shapes that any file may have.
const FREE_LIST_BYTES: u64 = 4 << 20;
/// Bytes of names and shapes for each byte of the pickle. A tensor takes more than a hundred of them; only a long key or a long
/// shape that many tensors have in common gives more than that many times over.
const LIST_BYTES_PER_BYTE: u64 = 8;
/// Bytes that an axis of a tensor takes: its size, its stride, and both again where the tensor is put in order.
const AXIS_BYTES: u64 = 32;
/// Fewest bytes of a pickle that a tensor takes: those of a reference to it.
const REFERENCE_BYTES: usize = 2;
/// Bytes that a tensor in the list takes beside its name.
const ENTRY_BYTES: u64 = 256;
/// Which of a file's tensors are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted<'o> {
    /// What is at this path, with dots between keys.
    pub(super) select: Option<&'o str>,
    /// Everything, by its whole path.
    pub(super) all: bool,
    /// Tensors that are not read are left out instead of refused.
    pub(super) skip_unsupported: bool,
}

/// The tensors of a file in its order, and what to tell about them.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) tensors: Vec<(String, View)>,
    pub(super) notes: Vec<Note>,
}

/// Finds the tensors of a value.
pub(super) fn tensors(
    root: Id,
    values: &PickleValues<'_>,
    storages: &mut Storages,
    wanted: Wanted<'_>,
    budget: &mut Budget,
) -> Result<Tree> {
    let mut walk = Walk::new(values, storages, wanted, budget);
    let mut notes = Vec::new();
    let chosen = match wanted.select {
        Some(path) => walk.inside.select(root, path)?,
        None if wanted.all => root,
        None => walk.inside.weights(root, &mut notes, walk.budget)?,
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
    inside: Inside<'w, 'a>,
    storages: &'w mut Storages,
    wanted: Wanted<'w>,
    budget: &'w mut Budget,
    tensors: Vec<(String, View)>,
    list_bytes: u64,
    /// Values that are no tensors.
    others: Listed,
    unsupported: Listed,
    unsupported_why: String,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(
        values: &'w PickleValues<'a>,
        storages: &'w mut Storages,
        wanted: Wanted<'w>,
        budget: &'w mut Budget,
    ) -> Self {
        Self {
            inside: Inside::new(values),
            storages,
            wanted,
            budget,
            tensors: Vec::new(),
            list_bytes: 0,
            others: Listed::default(),
            unsupported: Listed::default(),
            unsupported_why: String::new(),
        }
    }

    /// Adds the tensors inside a value, whose own name is `path`.
    fn descend(&mut self, id: Id, path: &mut String, depth: usize) -> Result<()> {
        check_depth(depth)?;
        if let Some(entries) = self.inside.mapping(id) {
            let is_script = self.inside.is_script(id);
            let values = self.inside.values;
            refuse_twins(&entries, values, path)?;
            for &(key, value) in &*entries {
                let Some(name) = borrowed_name_of(key, values) else {
                    if self.inside.holds_tensor(value, depth, self.budget)? {
                        let why = format!("a key of {} is neither text nor an integer", place(path));
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
        } else if path.is_empty() {
            return Err(AnamnesisError::parse("the pickle holds neither a tensor nor a dict or list of tensors"));
        }
        Ok(())
    }

    fn child(&mut self, name: &str, value: Id, path: &mut String, depth: usize, tell: bool) -> Result<()> {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        if self.inside.is_tensor(value) {
            self.tensor(path.clone(), value)?;
        } else if self.inside.holds_tensor(value, depth, self.budget)? {
            self.descend(value, path, depth + 1)?;
        } else if tell {
            self.others.add(path);
        }
        path.truncate(length);
        Ok(())
    }

    fn tensor(&mut self, name: String, id: Id) -> Result<()> {
        let Value::Object(object) = self.inside.values.get(id) else { return Ok(()) };
        // A tensor takes many bytes of a pickle; only containers inside one another many times make more of them.
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

    /// Pays for a part of the list of tensors that a pickle can repeat, and for what is the same for all.
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

    fn finish(self, mut notes: Vec<Note>) -> Result<Tree> {
        self.budget.items(self.tensors.len() as u64, "tensors")?;
        let mut names: Vec<&str> = self.tensors.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AnamnesisError::parse(format!("two tensors are called {}", quoted(pair[0]))));
        }
        drop(names);
        if self.unsupported.count > 0 {
            let (names, why) = (self.unsupported.text(), self.unsupported_why);
            notes.push(Note::new(format!("left out {names}: {why}")));
        }
        if self.others.count > 0 {
            let noun = if self.others.count == 1 { "value that is no tensor" } else { "values that are no tensors" };
            notes.push(Note::new(format!("left out {} {noun}: {}", self.others.count, self.others.text())));
        }
        notes.extend(shared(&self.tensors));
        Ok(Tree { tensors: self.tensors, notes })
    }
}

/// Refuses a dict that names two values alike: which of them Python means depends on how it got there.
fn refuse_twins(entries: &[(Id, Id)], values: &PickleValues<'_>, path: &str) -> Result<()> {
    let named = |key| borrowed_name_of(key, values);
    let mut names: Vec<Cow<'_, str>> = entries.iter().filter_map(|&(key, _)| named(key)).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let (name, place) = (quoted(&pair[0]), place(path));
            Err(AnamnesisError::parse(format!("key {name} of {place} occurs twice")))
        }
        None => Ok(()),
    }
}

fn place(path: &str) -> String {
    if path.is_empty() { "the outermost dict".to_owned() } else { quoted(path) }
}
