//! Vocabularies of byte strings with ranks (`*.tiktoken`, `tiktoken.model`): a line per token, its bytes in base64 and its
//! rank. Merges follow from the ranks; special tokens, which the file does not have, come after them.

use std::collections::{BTreeMap, HashMap, HashSet};

use base64::prelude::{BASE64_STANDARD, Engine};

use super::added::bounded;
use super::request::VocabularyRequest;
use super::rules::{RankedSpecials, RankedVocabulary};
use super::sources::Sources;
use super::special::SpecialTokens;
use super::tekken::shown;
use super::token_type::{CONTROL, NORMAL, UNUSED, padding};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// The number of special tokens without a meaning.
const EXTRA: usize = 205;
/// The tokens that Kimi's tokenizer has for special ones. Older versions of it have two more.
const RESERVED: u64 = 256;
/// The class of Kimi's tokenizer, which knows how text is split.
const KIMI_CLASS: &str = "TikTokenTokenizer";
/// The longest token, in bytes: four times the longest known.
const MOST_BYTES: usize = 512;

/// Whether the vocabulary is in the file of ranks.
pub(super) fn is_used(sources: &Sources<'_>, ranked: &RankedVocabulary) -> Result<bool> {
    Ok(sources.document.is_none() && sources.files.read(ranked.file)?.is_some())
}

pub(super) fn write(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    ranked: &RankedVocabulary,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let Some(text) = sources.files.read(ranked.file)? else {
        let detail = format!("there is no {}, which has the vocabulary", ranked.file);
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    };
    let ranks = read(&text, ranked).map_err(|error| error.within(ranked.file))?;
    let merges = merges(&ranks, ranked).map_err(|error| error.within(ranked.file))?;
    let special = match ranked.special {
        RankedSpecials::Listed(listed) => {
            let extra = (0..EXTRA).map(|number| format!("<|extra_{number}|>"));
            listed.iter().map(|&token| token.to_owned()).chain(extra).collect()
        }
        RankedSpecials::Added => added(sources, ranks.len() as u64, request.vocab_size)?,
    };
    check_unique(&ranks, &special)?;
    let known = ranks.len() + special.len();
    let size = bounded(request.vocab_size.unwrap_or(known as u64))?;
    if size < known || ranked.is_whole && size > known {
        let why = format!(
            "{} and its special tokens are {known} tokens, {size} are in the embedding (vocab_size)",
            ranked.file
        );
        return Err(AnamnesisError::parse(why));
    }
    let mut kinds = vec![NORMAL; ranks.len()];
    kinds.resize(known, CONTROL);
    kinds.resize(size, UNUSED);
    let end = ranked.end.and_then(|end| special.iter().position(|token| token == end));
    let end = end.and_then(|place| u32::try_from(ranks.len() + place).ok());
    let own_end = if ranked.ends_by_settings { Some(end_of_settings(sources, &special, ranks.len())?) } else { None };
    let tokens = ranks.iter().map(|token| shown(token)).chain(special).chain((known..size).map(padding)).collect();
    metadata.text("tokenizer.ggml.model", "gpt2");
    metadata.text("tokenizer.ggml.pre", request.pre.unwrap_or(ranked.pre));
    metadata.array("tokenizer.ggml.tokens", MetadataArray::String(tokens));
    metadata.array("tokenizer.ggml.token_type", MetadataArray::I32(kinds));
    metadata.array("tokenizer.ggml.merges", MetadataArray::String(merges));
    let mut specials = SpecialTokens::read(sources.document.as_ref(), &sources.settings, request.config, None)?;
    specials.chat_template = sources.chat_template(metadata)?;
    if let Some(end) = end {
        if specials.is_empty() {
            specials.set("bos", end);
            specials.set("eos", end);
        }
        specials.set("unk", end);
    }
    specials.write(metadata)?;
    own_end.into_iter().for_each(|end| metadata.number("tokenizer.ggml.eos_token_id", end));
    Ok(())
}

/// The special tokens of Kimi's tokenizer, from the id `first` on.
fn added(sources: &Sources<'_>, first: u64, vocab_size: Option<u64>) -> Result<Vec<String>> {
    let class = sources.settings.class();
    if class != Some(KIMI_CLASS) {
        let class = quoted(class.unwrap_or_default());
        let detail = format!("tokenizer_config.json: the tokenizer_class is {class}, {KIMI_CLASS} is known");
        return Err(AnamnesisError::unsupported_model(ModelPart::Tokenizer, "", detail));
    }
    let size = vocab_size.unwrap_or(first + RESERVED);
    if size < first || size > first + RESERVED {
        let why = format!(
            "the embedding has {size} rows (vocab_size); {first} tokens have ranks, and {RESERVED} more can be special"
        );
        return Err(AnamnesisError::parse(why));
    }
    let tokens = sources.settings.added_tokens()?;
    let named: BTreeMap<_, _> =
        tokens.iter().filter_map(|token| Some((u64::from(token.id?), &token.content))).collect();
    let text = |id: u64| named.get(&id).map_or_else(|| format!("<|reserved_token_{id}|>"), |text| (*text).clone());
    Ok((first..size).map(text).collect())
}

/// Refuses two tokens of one text, of which the converter keeps one.
fn check_unique(ranks: &[Vec<u8>], special: &[String]) -> Result<()> {
    let mut known: HashSet<String> = ranks.iter().map(|token| shown(token)).collect();
    match special.iter().find(|token| !known.insert((*token).clone())) {
        Some(token) => Err(AnamnesisError::parse(format!("the special token {} appears twice", quoted(token)))),
        None => Ok(()),
    }
}

/// The id of `eos_token`, which is among the special tokens.
fn end_of_settings(sources: &Sources<'_>, special: &[String], first: usize) -> Result<u32> {
    let named = sources.settings.get("eos_token");
    let text = named.and_then(|named| named.as_str().or_else(|| named.get("content")?.as_str())).unwrap_or("[EOS]");
    let place = special.iter().position(|token| token == text);
    let id = place.and_then(|place| u32::try_from(first + place).ok());
    id.ok_or_else(|| {
        let why = format!("tokenizer_config.json: the eos_token {} is not among the special tokens", quoted(text));
        AnamnesisError::parse(why)
    })
}

/// The tokens by rank.
fn read(text: &[u8], ranked: &RankedVocabulary) -> Result<Vec<Vec<u8>>> {
    let mut tokens: Vec<Vec<u8>> = Vec::new();
    let mut known = HashSet::new();
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let faulty = |why: &str| AnamnesisError::parse(format!("line {}: {why}", number + 1));
        let mut parts = line.trim_ascii().split(u8::is_ascii_whitespace);
        let (Some(bytes), Some(rank), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(faulty("a token and its rank are needed"));
        };
        let bytes = BASE64_STANDARD.decode(bytes).map_err(|_| faulty("the token is not base64"))?;
        if bytes.is_empty() || bytes.len() > MOST_BYTES {
            return Err(faulty(&format!("a token of {} bytes, 1 to {MOST_BYTES} are possible", bytes.len())));
        }
        let rank = std::str::from_utf8(rank).ok().and_then(|rank| rank.parse::<u64>().ok());
        if !known.insert(bytes.clone()) {
            match ranked.is_counted {
                true => continue,
                false => return Err(faulty(&format!("token {} appears twice", quoted(&shown(&bytes))))),
            }
        }
        if !ranked.is_counted && rank != Some(tokens.len() as u64) {
            return Err(faulty(&format!("the rank is not {}, the number of tokens before it", tokens.len())));
        }
        bounded(tokens.len() as u64)?;
        tokens.push(bytes);
    }
    Ok(tokens)
}

/// The merge of each token of several bytes: the two tokens that its bytes are merged to by lower ranks.
fn merges(tokens: &[Vec<u8>], ranked: &RankedVocabulary) -> Result<Vec<String>> {
    let ranks: HashMap<&[u8], u32> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    let mut merges = Vec::new();
    for (token, rank) in tokens.iter().zip(0..).filter(|(token, _)| token.len() > 1) {
        match merged(token, rank, &ranks)[..] {
            [left, right] => merges.push(format!("{} {}", shown(left), shown(right))),
            _ if ranked.has_unmerged => {}
            _ => {
                let why = format!("token {rank}, {}, is not the merge of two others", quoted(&shown(token)));
                return Err(AnamnesisError::parse(why));
            }
        }
    }
    Ok(merges)
}

/// The parts of a token after all merges of lower ranks than its own, the lowest first.
fn merged<'t>(token: &'t [u8], own: u32, ranks: &HashMap<&[u8], u32>) -> Vec<&'t [u8]> {
    // The starts of the parts, each with the rank of the part and the next as one.
    let rank = |start: usize, end: usize| token.get(start..end).and_then(|pair| ranks.get(pair)).copied();
    let rank = |start, end| rank(start, end).filter(|rank| *rank < own).unwrap_or(u32::MAX);
    let mut parts: Vec<(usize, u32)> = (0..token.len()).map(|start| (start, rank(start, start + 2))).collect();
    let end_of = |parts: &[(usize, u32)], place: usize| parts.get(place).map_or(token.len(), |(start, _)| *start);
    let joined = |parts: &[(usize, u32)], place: usize| match parts.get(place) {
        Some((start, _)) if place + 1 < parts.len() => rank(*start, end_of(parts, place + 2)),
        _ => u32::MAX,
    };
    if let Some(last) = parts.last_mut() {
        last.1 = u32::MAX;
    }
    while let Some((place, _)) =
        parts.iter().enumerate().filter(|(_, (_, rank))| *rank != u32::MAX).min_by_key(|(_, (_, rank))| *rank)
    {
        parts.remove(place + 1);
        for changed in [place.checked_sub(1), Some(place)].into_iter().flatten() {
            let rank = joined(&parts, changed);
            if let Some(part) = parts.get_mut(changed) {
                part.1 = rank;
            }
        }
    }
    let ends = (1..=parts.len()).map(|place| end_of(&parts, place));
    parts.iter().zip(ends).filter_map(|((start, _), end)| token.get(*start..end)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rules::KIMI_RANKS;
    use super::*;

    #[test]
    fn a_token_is_merged_by_the_lowest_ranks_first() {
        let ranks: HashMap<&[u8], u32> =
            [&b"a"[..], b"b", b"c", b"bc", b"ab", b"abc", b"abcab"].into_iter().zip(0..).collect();
        assert_eq!(merged(b"abc", 5, &ranks), [&b"a"[..], b"bc"]);
        assert_eq!(merged(b"abcab", 6, &ranks), [&b"abc"[..], b"ab"]);
        assert_eq!(merged(b"a", 0, &ranks), [&b"a"[..]]);
        assert_eq!(merged(b"cc", 9, &ranks), [&b"c"[..], b"c"]);
    }

    #[test]
    fn faulty_lines_are_refused_with_their_number() {
        let ranked = RankedVocabulary { has_unmerged: false, ..KIMI_RANKS };
        assert_eq!(read(b"YQ== 0\nYg== 1\n\n", &ranked).unwrap(), [b"a", b"b"]);
        let long = format!("{} 0", BASE64_STANDARD.encode([0; MOST_BYTES + 1]));
        for (text, part) in [
            ("YQ== 0\nYQ== 1", "line 2: token \"a\" appears twice"),
            ("YQ== 0\nYg== 2", "line 2: the rank is not 1"),
            ("YQ== 0\nYg==", "line 2: a token and its rank"),
            ("YQ== 0 0", "line 1: a token and its rank"),
            ("?? 0", "line 1: the token is not base64"),
            (long.as_str(), "line 1: a token of 513 bytes"),
        ] {
            let error = read(text.as_bytes(), &ranked).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        // Counted ranks: a token that comes again is skipped.
        let counted = RankedVocabulary { is_counted: true, has_unmerged: true, ..ranked };
        assert_eq!(read(b"YQ== 0\nYQ== 1\nYg== 7", &counted).unwrap(), [b"a", b"b"]);
        assert!(merges(&[b"a".to_vec(), b"bcd".to_vec()], &ranked).is_err());
        assert!(merges(&[b"a".to_vec(), b"bcd".to_vec()], &counted).unwrap().is_empty());
    }
}
