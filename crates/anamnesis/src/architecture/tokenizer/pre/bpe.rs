//! BPE merging, restricted to the words of one text.

use std::collections::{HashMap, HashSet};

use crate::architecture::tokenizer::added::Vocabulary;
use crate::architecture::tokenizer::document::Document;

/// The merges that can occur in the words.
pub(super) struct Merges {
    /// By two ids: the rank, and the merged id.
    pairs: HashMap<(u32, u32), (usize, u32)>,
    /// Ids of characters and, with `ignore_merges`, of whole words.
    ids: HashMap<String, u32>,
    whole_words: bool,
}

impl Merges {
    pub(super) fn of<'w>(
        document: &Document,
        vocabulary: &Vocabulary<'_>,
        words: impl Iterator<Item = &'w str>,
    ) -> Self {
        let words: HashSet<&str> = words.collect();
        let characters: HashSet<char> = words.iter().flat_map(|word| word.chars()).collect();
        let mut ids = HashMap::new();
        for character in &characters {
            let text = character.to_string();
            if let Some(id) = vocabulary.id(&text) {
                ids.insert(text, id);
            }
        }
        // One search decides whether any word has a token.
        let all = words.iter().copied().collect::<Vec<_>>().join("\n");
        let mut pairs = HashMap::new();
        for (rank, merge) in document.model.merges.iter().enumerate() {
            let Some((left, right)) = merge.parts() else { continue };
            if !left.chars().chain(right.chars()).all(|character| characters.contains(&character)) {
                continue;
            }
            let joined = format!("{left}{right}");
            if !all.contains(&joined) {
                continue;
            }
            let ids = (vocabulary.id(left), vocabulary.id(right), vocabulary.id(&joined));
            if let (Some(left), Some(right), Some(joined)) = ids {
                // The last one of duplicate merges applies.
                pairs.insert((left, right), (rank, joined));
            }
        }
        let whole_words = document.model.ignore_merges;
        if whole_words {
            let known = words.iter().filter_map(|word| Some(((*word).to_owned(), vocabulary.id(word)?)));
            ids.extend(known);
        }
        Self { pairs, ids, whole_words }
    }

    /// Adds the ids of a word.
    pub(super) fn encode(&self, word: &str, into: &mut Vec<u32>) {
        if let Some(&id) = self.ids.get(word).filter(|_| self.whole_words) {
            into.push(id);
            return;
        }
        let mut buffer = [0; 4];
        let one = |character: char| self.ids.get(&*character.encode_utf8(&mut buffer)).copied();
        let mut ids: Vec<u32> = word.chars().filter_map(one).collect();
        loop {
            let pairs = ids.iter().zip(ids.iter().skip(1)).enumerate();
            let ranked = pairs.filter_map(|(at, (&left, &right))| Some((self.pairs.get(&(left, right))?, at)));
            let Some((&(_, joined), at)) = ranked.min_by_key(|((rank, _), at)| (*rank, *at)) else { break };
            ids.splice(at..at + 2, [joined]);
        }
        into.extend(ids);
    }
}
