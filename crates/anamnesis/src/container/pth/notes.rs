//! Notes on how a file was read.

use super::view::View;
use crate::catalog::Note;
use crate::error::quoted;

/// Number of names in a note; the rest are counted.
const NAMED: usize = 5;

/// The first names of a list, and its length.
#[derive(Debug, Default)]
pub(super) struct NameList {
    names: Vec<String>,
    pub(super) count: usize,
}

impl NameList {
    pub(super) fn add(&mut self, name: &str) {
        if self.names.len() < NAMED {
            self.names.push(quoted(name));
        }
        self.count += 1;
    }

    pub(super) fn text(&self) -> String {
        let more = self.count - self.names.len();
        let names = self.names.join(", ");
        if more == 0 { names } else { format!("{names} and {more} more") }
    }
}

/// A note on tensors that overlap in their storage.
pub(super) fn shared(tensors: &[(String, View)]) -> Option<Note> {
    let mut places: Vec<_> = tensors.iter().filter(|(_, view)| view.span > 0).collect();
    places.sort_by_key(|(_, view)| (view.storage, view.start));
    let mut listed = NameList::default();
    let mut reach: Option<(u32, u64, &str, bool)> = None;
    for (name, view) in places {
        let end = view.start + view.span;
        match &mut reach {
            Some((storage, until, first, is_listed)) if *storage == view.storage && view.start < *until => {
                if !*is_listed {
                    listed.add(first);
                    *is_listed = true;
                }
                listed.add(name);
                *until = end.max(*until);
            }
            _ => reach = Some((view.storage, end, name, false)),
        }
    }
    let text = listed.text();
    (listed.count > 0).then(|| Note::new(format!("{text} share storage with one another; each is written by itself")))
}
