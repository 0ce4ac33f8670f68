//! The parts of a model's name (`Metadata.get_model_id_components` of gguf): organisation, base name, fine-tune, version, size.

use super::counts::TotalSize;
use std::sync::LazyLock;

use regex_lite::Regex;

/// The parts of a name such as `org/Llama-3.1-8B-Instruct`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ModelName {
    /// The whole name without its owner.
    pub(super) full: String,
    pub(super) organization: Option<String>,
    pub(super) basename: Option<String>,
    pub(super) finetune: Option<String>,
    pub(super) version: Option<String>,
    pub(super) size_label: Option<String>,
}

/// A part between two hyphens, with its meaning.
#[derive(Debug, Default, Clone)]
struct Part {
    text: String,
    is_basename: bool,
    is_size: bool,
    is_finetune: bool,
    is_version: bool,
    is_type: bool,
}

impl Part {
    const fn is_something(&self) -> bool {
        self.is_basename || self.is_size || self.is_finetune || self.is_version || self.is_type
    }
}

struct Expressions {
    version: Regex,
    quantisation: Regex,
    size: Regex,
    finetune: Regex,
    untitled: Regex,
}

/// Expressions that are written here are expressions.
#[allow(clippy::expect_used, reason = "tested below, and known when this is compiled")]
static EXPRESSIONS: LazyLock<Expressions> = LazyLock::new(|| {
    let whole = |expression: &str| Regex::new(&format!("(?i)^(?:{expression})$")).expect("a valid expression");
    Expressions {
        version: whole(r"(v|iter)?\d+([.]\d+)*"),
        quantisation: whole(r"i?q\d(_\w)*|b?fp?(16|32)"),
        size: whole(r"([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl"),
        finetune: whole("chat|instruct|vision|lora"),
        untitled: Regex::new(r"^(v\d+(\.\d+)*|\d.*)$").expect("a valid expression"),
    }
});

impl ModelName {
    /// Takes a name apart. A size far from that of the model, which has `total` parameters, is taken for something else, such
    /// as the length of its context.
    pub(super) fn guess(id: &str, total: TotalSize) -> Self {
        if id.contains(' ') {
            // A sentence is a name by itself.
            return Self { full: id.to_owned(), ..Self::default() };
        }
        let (organization, full) = match id.split_once('/') {
            Some((organization, full)) => (Some(organization).filter(|owner| !owner.starts_with('.')), full),
            None => (None, id),
        };
        let mut parts: Vec<Part> = Vec::new();
        for text in full.split('-').filter(|text| !text.is_empty()) {
            let part = Part { text: text.to_owned(), ..Part::default() };
            parts.push(taken_for(part, parts.is_empty(), total));
        }
        settle(&mut parts);
        let joined = |is_one: fn(&Part) -> bool| {
            let texts: Vec<&str> = parts.iter().filter(|part| is_one(part)).map(|part| part.text.as_str()).collect();
            Some(texts.join("-")).filter(|text| !text.is_empty())
        };
        let mut sizes: Vec<&str> = Vec::new();
        for part in parts.iter().filter(|part| part.is_size) {
            if !sizes.contains(&part.text.as_str()) {
                sizes.push(&part.text);
            }
        }
        let size_label = Some(sizes.join("-")).filter(|text| !text.is_empty());
        let finetune = joined(|part| part.is_finetune);
        let version = joined(|part| part.is_version && !part.is_basename);
        // Alone it is no name.
        let is_clear = size_label.is_some() || finetune.is_some() || version.is_some();
        Self {
            full: full.to_owned(),
            organization: organization.map(str::to_owned),
            basename: joined(|part| part.is_basename).filter(|_| is_clear),
            finetune,
            version,
            size_label,
        }
    }
}

/// The meaning of a part by itself.
fn taken_for(mut part: Part, is_first: bool, total: TotalSize) -> Part {
    if EXPRESSIONS.version.is_match(&part.text) {
        part.is_version = true;
    } else if EXPRESSIONS.quantisation.is_match(&part.text) {
        part.is_type = true;
        part.text = part.text.to_uppercase();
    } else if !is_first && EXPRESSIONS.size.is_match(&part.text) {
        let mut letters: Vec<char> = part.text.replace('_', ".").chars().collect();
        if let [front @ .., unit, digit] = letters.as_slice() {
            // 7b1 is 7.1b.
            if digit.is_ascii_digit() {
                letters = front.iter().chain(&['.', *digit, *unit]).copied().collect();
            }
        }
        if let [.., before, unit] = letters.as_mut_slice()
            && before.is_ascii_digit()
            && "kmbt".contains(*unit)
        {
            *unit = unit.to_ascii_uppercase();
        }
        if let Some((unit, digits)) = letters.split_last_mut() {
            let digits: String = digits.iter().collect();
            let thousands = " KMBT".find(*unit).map_or(-1, |place| place as i32);
            let label = digits.parse::<f64>().ok().map(|number| number * 1000_f64.powi(thousands));
            if label.is_some_and(|label| total.is_far(label)) {
                part.is_finetune = true;
                *unit = unit.to_ascii_lowercase();
            }
        }
        part.is_size = !part.is_finetune;
        part.text = letters.into_iter().collect();
    } else if !is_first && EXPRESSIONS.finetune.is_match(&part.text) {
        // An adapter is one without its name saying so.
        part.is_type = total.is_of_adapter() && part.text.eq_ignore_ascii_case("lora");
        part.is_finetune = !part.is_type;
    }
    part
}

/// The meaning of parts in view of the others.
fn settle(parts: &mut [Part]) {
    let is_counted = |part: &Part| part.is_size && part.text.chars().any(|letter| letter.is_ascii_digit());
    if parts.iter().any(is_counted) {
        for part in parts.iter_mut().filter(|part| part.text.chars().all(char::is_alphabetic)) {
            part.is_size = false;
        }
    }
    let mut at_start = true;
    for part in parts.iter_mut() {
        let is_word = !part.is_something() && part.text.starts_with(char::is_alphabetic);
        if at_start && (is_word || part.is_version) {
            part.is_basename = true;
        } else {
            at_start = false;
            part.is_finetune |= !part.is_something();
        }
    }
    // A version at the end of the base name is the model's.
    for part in parts.iter_mut().rev() {
        let is_more = part.is_size || part.is_finetune || part.is_version || part.is_type;
        if !(part.is_basename && is_more) {
            break;
        }
        part.is_basename = false;
    }
}

/// A name for people: words of lower case begin with a capital, hyphens are spaces.
pub(super) fn titled(name: &str) -> String {
    let spaced = name.trim().replace('-', " ");
    let words: Vec<String> = spaced.split_whitespace().map(titled_word).collect();
    words.join(" ")
}

fn titled_word(word: &str) -> String {
    let is_lower = word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
    if !is_lower || EXPRESSIONS.untitled.is_match(word) {
        return word.to_owned();
    }
    let mut follows = false;
    let mut title = String::new();
    for letter in word.chars() {
        match follows {
            true => title.push(letter),
            false => title.extend(letter.to_uppercase()),
        }
        follows = letter.is_alphabetic();
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(id: &str, total: u64) -> [Option<String>; 5] {
        let name = ModelName::guess(id, TotalSize::Exact(total));
        [name.organization, name.basename, name.finetune, name.version, name.size_label]
    }

    fn some<const N: usize>(texts: [&str; N]) -> [Option<String>; N] {
        texts.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()))
    }

    #[test]
    fn names_are_taken_apart() {
        for (id, total, wanted) in [
            ("Mistral", 0, ["", "", "", "", ""]),
            ("Mistral-7B-Instruct-v0.2", 7241732096, ["", "Mistral", "Instruct", "v0.2", "7B"]),
            ("meta-llama/Llama-3.1-8B-Instruct", 8030261248, ["meta-llama", "Llama-3.1", "Instruct", "", "8B"]),
            ("bigscience/bloom-7b1-petals", 7100000000, ["bigscience", "bloom", "petals", "", "7.1B"]),
            ("Mixtral-8x7B-v0.1", 46702792704, ["", "Mixtral", "", "v0.1", "8x7B"]),
            ("Phi-3-mini-4k-instruct", 3821079552, ["", "Phi-3", "4k-instruct", "", "mini"]),
            ("Qwen3-30B-A3B", 30532122624, ["", "Qwen3", "", "", "30B-A3B"]),
            ("model-Q4_K_M", 0, ["", "", "", "", ""]),
            ("./x-7B", 7000000000, ["", "x", "", "", "7B"]),
            ("a b-7B", 0, ["", "", "", "", ""]),
            ("-", 0, ["", "", "", "", ""]),
            ("deepseek-ai/DeepSeek-V2-Lite-Chat", 15706484224, ["deepseek-ai", "DeepSeek-V2-Lite", "Chat", "", ""]),
            ("Qwen2.5-Coder-32B-Instruct-128k", 32763876352, ["", "Qwen2.5-Coder", "Instruct-128k", "", "32B"]),
            ("google/gemma-2-2b-it", 2614341888, ["google", "gemma-2", "it", "", "2B"]),
            ("gemma-3-4b-it", 21000, ["", "gemma-3", "4b-it", "", ""]),
            ("x-1_5B-fp16", 1500000000, ["", "x", "", "", "1.5B"]),
            ("A/B/C-7B", 0, ["A", "B/C", "", "", "7B"]),
            ("Llama-2-7b-hf", 6738415616, ["", "Llama-2", "hf", "", "7B"]),
            ("smol-360M-large", 361821120, ["", "smol", "large", "", "360M"]),
            ("tiny", 40000, ["", "", "", "", ""]),
            ("granite-3.0-8b-v1.2", 8000000000, ["", "granite-3.0", "", "v1.2", "8B"]),
            ("7B-x", 1, ["", "", "7B-x", "", ""]),
            ("qwen2-0.5b", 494032768, ["", "qwen2", "", "", "0.5B"]),
        ] {
            assert_eq!(guess(id, total), some(wanted), "{id}");
        }
    }

    #[test]
    fn titles_are_for_people() {
        for (name, title) in [
            ("llama3_bpe", "Llama3_Bpe"),
            ("meta-llama", "Meta Llama"),
            ("Qwen2.5-0.5B", "Qwen2.5 0.5B"),
            ("v1.5-beta", "v1.5 Beta"),
            ("it's", "It'S"),
            ("7b-chat", "7b Chat"),
        ] {
            assert_eq!(titled(name), title);
        }
    }
}
