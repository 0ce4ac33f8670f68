//! Character classes of expressions, defined only for the characters of the fixed text: no other text is split.

/// A class like `\s` or `\p{Lu}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Space,
    Digit,
    Word,
    /// A general category, or the letter that groups several.
    Category(&'static str),
    Han,
    /// Hiragana, Katakana, Hangul and other scripts that the text does not use.
    Foreign,
    Any,
}

const CATEGORIES: [&str; 37] = [
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe", "Pi",
    "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co", "Cn", "Cs",
];

impl Class {
    /// The class of a name inside `\p{..}`.
    pub(super) fn property(name: &str) -> Option<Self> {
        let name = name.strip_prefix("Script=").or_else(|| name.strip_prefix("sc=")).unwrap_or(name);
        if let Some(category) = CATEGORIES.iter().find(|category| **category == name) {
            return Some(Self::Category(category));
        }
        match name {
            "Han" => Some(Self::Han),
            "Hiragana" | "Katakana" | "Hangul" | "Thai" | "Lao" | "Arabic" | "Hebrew" | "Devanagari" => {
                Some(Self::Foreign)
            }
            "Letter" | "Alphabetic" => Some(Self::Category("L")),
            "Number" => Some(Self::Category("N")),
            "Punct" | "Punctuation" => Some(Self::Category("P")),
            _ => None,
        }
    }

    /// Whether the class has a character; `None` for characters without data.
    pub(super) fn has(self, character: char) -> Option<bool> {
        let category = category(character);
        match self {
            Self::Any => Some(character != '\n'),
            Self::Space => Some(character.is_whitespace()),
            Self::Foreign => category.map(|_| false),
            Self::Han => category.map(|_| matches!(character, '\u{4e00}'..='\u{9fff}')),
            Self::Digit => category.map(|category| category == "Nd"),
            Self::Word => category.map(|category| matches!(category.as_bytes(), [b'L' | b'M' | b'N', ..] | b"Pc")),
            Self::Category(wanted) => category.map(|category| category.starts_with(wanted)),
        }
    }
}

/// The general category of a character of the text.
fn category(character: char) -> Option<&'static str> {
    Some(match character {
        '\t' | '\n' | '\r' => "Cc",
        ' ' => "Zs",
        'a'..='z' | 'а'..='я' => "Ll",
        'A'..='Z' | 'А'..='Я' => "Lu",
        '0'..='9' => "Nd",
        '-' => "Pd",
        '(' | '[' | '{' => "Ps",
        ')' | ']' | '}' => "Pe",
        '_' => "Pc",
        '!' | '"' | '#' | '%' | '&' | '\'' | '*' | ',' | '.' | '/' | ':' | ';' | '?' | '@' | '\\' => "Po",
        '`' | '^' => "Sk",
        '+' | '<' | '=' | '>' | '|' | '~' | '\u{ff5e}' => "Sm",
        '$' => "Sc",
        '\u{200d}' => "Cf",
        '\u{1780}'..='\u{17b3}' | '\u{4e00}'..='\u{9fff}' => "Lo",
        '\u{17b6}' | '\u{17be}'..='\u{17c5}' => "Mc",
        '\u{17b7}'..='\u{17bd}' | '\u{17c9}'..='\u{17d3}' | '\u{fe0f}' => "Mn",
        '\u{2705}' | '\u{1f300}'..='\u{1faff}' => "So",
        // The replacement of a space by normalizers.
        '\u{2581}' => "So",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::text::TEXT;
    use super::*;

    #[test]
    fn every_character_of_the_text_has_a_category() {
        for character in TEXT.chars() {
            assert!(category(character).is_some(), "{character:?}");
        }
        assert!(category('\u{120}').is_none());
    }

    #[test]
    fn classes_have_their_characters() {
        let has = |class: &str, character| Class::property(class).unwrap().has(character);
        assert_eq!(
            (has("L", 'x'), has("Lu", 'x'), has("M", '\u{fe0f}'), has("N", '3')),
            (Some(true), Some(false), Some(true), Some(true))
        );
        assert_eq!(
            (has("Han", '我'), has("Lo", '我'), has("P", '\''), has("L", '\u{ad}')),
            (Some(true), Some(true), Some(true), None)
        );
        assert_eq!(Class::property("Klingon"), None);
    }
}
