//! Patterns that match modules, in the dialect of the library that wrote them.
//!
//! | dialect | members | an entry matches |
//! |---|---|---|
//! | compressed-tensors | `ignore`, `targets` | `re:` and a regular expression that matches from the start of the name (not to its end), or one exact name |
//! | transformers | `modules_to_not_convert`, `ignored_layers` | a regular expression that matches from the start up to a boundary, or the plain end of the name |
//! | ModelOpt | `exclude_modules`, `quantized_layers` | `*` and `?` over the whole name, or a module with everything below it |
//! | GPTQModel | `dynamic` | a regular expression that matches from the start |
//! | AutoRound | `extra_config` | one exact name, or a regular expression that matches anywhere |
//!
//! Ignoring too much would hide a missing scale, so ambiguous cases do not match. transformers lets an expression end
//! anywhere, so that `layers.1` also matches `layers.10`; here it must end before or after a dot, or at the end. Class
//! names (`Linear`) are in no file and match nothing. Unsupported expressions (look-around, back-references) are
//! errors, which the caller reports.

use super::expression::Expression;
use crate::error::{AnamnesisError, Result, quoted};

/// Longest entry, in characters.
const MAX_ENTRY_CHARS: usize = 1000;

/// The parser of one library for an entry of its lists.
pub(super) type Dialect = fn(&str) -> Result<ModulePattern>;

/// The pattern of one entry.
#[derive(Debug, Clone)]
pub(super) struct ModulePattern(pub(super) Matcher);

#[derive(Debug, Clone)]
pub(super) enum Matcher {
    /// Exactly this name.
    Exact(String),
    /// This module and everything below it.
    Subtree(String),
    /// Names with this prefix.
    Start(String),
    /// Names with this suffix.
    End(String),
    /// An expression or a wildcard pattern.
    Expression(Expression),
    /// A key of letters, digits and dots, in which a dot matches any character, up to a boundary; or a literal suffix.
    PlainKey(String),
    /// Any other expression up to a boundary; or a literal suffix.
    Key { expression: Expression, end: String },
}

impl ModulePattern {
    /// An entry of compressed-tensors' `ignore` or `targets`.
    pub(super) fn compressed_tensors(entry: &str) -> Result<Self> {
        check_length(entry)?;
        match entry.strip_prefix("re:") {
            Some(expression) => Ok(Self(Matcher::Expression(compile(entry, expression, "")?))),
            None => Ok(Self(Matcher::Exact(entry.to_owned()))),
        }
    }

    /// An entry of transformers' `modules_to_not_convert` or `ignored_layers`.
    pub(super) fn transformers(entry: &str) -> Result<Self> {
        check_length(entry)?;
        if entry.is_empty() {
            // As an expression it would match every module.
            return Err(unreadable(entry, "it is empty"));
        }
        if is_plain(entry) {
            return Ok(Self(Matcher::PlainKey(entry.to_owned())));
        }
        let expression = match entry.strip_suffix('.') {
            Some(stem) if stem.ends_with('\\') => compile(entry, entry, "")?,
            Some(stem) => compile(entry, stem, r"\.")?,
            None => compile(entry, entry, r"(?:\.|$)")?,
        };
        Ok(Self(Matcher::Key { expression, end: entry.to_owned() }))
    }

    /// An entry of ModelOpt's `exclude_modules`.
    pub(super) fn modelopt(entry: &str) -> Result<Self> {
        check_length(entry)?;
        let is_plain = |text: &str| !text.contains(['*', '?']);
        Ok(Self(match (entry.strip_suffix('*').filter(|start| is_plain(start)), entry.strip_prefix('*')) {
            (Some(start), _) => Matcher::Start(start.to_owned()),
            (_, Some(end)) if is_plain(end) => Matcher::End(end.to_owned()),
            _ if is_plain(entry) => Matcher::Subtree(entry.to_owned()),
            _ => Matcher::Expression(Expression::wildcard(entry).map_err(|why| unreadable(entry, &why))?),
        }))
    }

    /// A key of ModelOpt's `quantized_layers`.
    pub(super) fn subtree(entry: &str) -> Result<Self> {
        check_length(entry)?;
        Ok(Self(Matcher::Subtree(entry.to_owned())))
    }

    /// A key of GPTQModel's `dynamic`, without its sign.
    pub(super) fn gptqmodel(entry: &str) -> Result<Self> {
        check_length(entry)?;
        let literal = entry.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')).and_then(literal);
        Ok(Self(match literal {
            Some(name) => Matcher::Exact(name),
            None => Matcher::Expression(compile(entry, entry, "")?),
        }))
    }

    /// A key of AutoRound's `extra_config`.
    pub(super) fn auto_round(entry: &str) -> Result<Self> {
        check_length(entry)?;
        if is_plain(entry) {
            return Ok(Self(Matcher::Exact(entry.to_owned())));
        }
        Ok(Self(Matcher::Expression(Expression::anywhere(entry).map_err(|why| unreadable(entry, &why))?)))
    }

    /// An expression that matches anywhere in a module's name.
    pub(super) fn searched(entry: &str) -> Result<Self> {
        check_length(entry)?;
        Ok(Self(Matcher::Expression(Expression::anywhere(entry).map_err(|why| unreadable(entry, &why))?)))
    }

    /// The end of a module's name.
    pub(super) fn end(entry: &str) -> Result<Self> {
        check_length(entry)?;
        Ok(Self(Matcher::End(entry.to_owned())))
    }

    /// A module's name.
    pub(super) fn exact(entry: &str) -> Result<Self> {
        check_length(entry)?;
        Ok(Self(Matcher::Exact(entry.to_owned())))
    }

    /// Bytes of its automaton; 0 without one.
    pub(super) fn automaton_bytes(&self) -> usize {
        match &self.0 {
            Matcher::Expression(expression) | Matcher::Key { expression, .. } => expression.bytes(),
            _ => 0,
        }
    }

    /// Whether the pattern matches the module.
    pub(super) fn matches(&self, module: &str) -> bool {
        match &self.0 {
            Matcher::Exact(name) => module == name,
            Matcher::Subtree(name) => {
                let below = module.strip_prefix(name.as_str());
                !name.is_empty() && below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
            }
            Matcher::Start(start) => module.starts_with(start.as_str()),
            Matcher::End(end) => module.ends_with(end.as_str()),
            Matcher::Expression(expression) => expression.is_match(module),
            Matcher::PlainKey(key) => starts_with_key(module, key) || module.ends_with(key.as_str()),
            Matcher::Key { expression, end } => expression.is_match(module) || module.ends_with(end.as_str()),
        }
    }
}

fn check_length(entry: &str) -> Result<()> {
    let chars = entry.chars().count();
    if chars > MAX_ENTRY_CHARS {
        return Err(unreadable(entry, &format!("it has {chars} characters, at most {MAX_ENTRY_CHARS} are allowed")));
    }
    Ok(())
}

/// Whether this is a module name or a part of one, and not an expression.
fn is_plain(entry: &str) -> bool {
    entry.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// The only text that an expression without anchors matches, if there is one.
fn literal(expression: &str) -> Option<String> {
    let mut text = String::with_capacity(expression.len());
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match c {
            // `\d` and the like are classes.
            '\\' => text.push(chars.next().filter(|escaped| !escaped.is_alphanumeric())?),
            '.' | '^' | '$' | '*' | '+' | '?' | '{' | '}' | '[' | ']' | '(' | ')' | '|' => return None,
            plain => text.push(plain),
        }
    }
    Some(text)
}

/// `expression` from the start of a name, followed by `boundary`.
fn compile(entry: &str, expression: &str, boundary: &str) -> Result<Expression> {
    Expression::from_start(expression, boundary).map_err(|why| unreadable(entry, &why))
}

fn unreadable(entry: &str, why: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("the entry {} cannot be read: {why}", quoted(entry)))
}

/// Whether the name starts with the key, in which a dot matches any character, and the match ends at a boundary.
fn starts_with_key(module: &str, key: &str) -> bool {
    let mut rest = module.chars();
    for wanted in key.chars() {
        match rest.next() {
            Some(c) if c == wanted || (wanted == '.' && c != '\n') => {}
            _ => return false,
        }
    }
    let rest = rest.as_str();
    let matched = module.strip_suffix(rest).unwrap_or(module);
    if key.ends_with('.') { matched.ends_with('.') } else { rest.is_empty() || rest.starts_with('.') }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::pattern_set::PatternSet;

    /// Checks which modules an entry matches, alone and in a set.
    fn check(dialect: Dialect, entry: &str, meant: &[&str], not_meant: &[&str]) {
        let pattern = dialect(entry).unwrap();
        let mut set = PatternSet::default();
        set.insert(pattern.clone());
        for (modules, is_meant) in [(meant, true), (not_meant, false)] {
            for module in modules {
                assert_eq!(pattern.matches(module), is_meant, "{entry} and {module}");
                assert_eq!(set.first(module).is_some(), is_meant, "{entry} and {module} in a set");
            }
        }
    }

    #[test]
    fn compressed_tensors_names_are_exact() {
        let dialect: Dialect = ModulePattern::compressed_tensors;
        check(dialect, "lm_head", &["lm_head"], &["model.lm_head", "lm_head.x", "lm_heads", ""]);
        check(dialect, "model.layers.*.mlp", &[], &["model.layers.1.mlp"]);
        check(dialect, "Linear", &[], &["model.linear", "model.Linear", "linear"]);
        check(dialect, "", &[], &["a"]);
    }

    #[test]
    fn compressed_tensors_expressions_are_anchored_at_the_start_only() {
        let dialect: Dialect = ModulePattern::compressed_tensors;
        check(dialect, "re:.*lm_head", &["lm_head", "model.lm_head", "lm_head.inner"], &["lm_hea"]);
        check(dialect, "re:visual", &["visual", "visual.blocks.0", "visualised"], &["model.visual"]);
        check(
            dialect,
            r"re:model\.layers\.\d+\.mlp\.gate$",
            &["model.layers.12.mlp.gate"],
            &["model.layers.1.mlp.gate_up"],
        );
        check(dialect, "re:a|b", &["a", "bc"], &["ca", "cb"]);
        check(dialect, "re:.*self_attn.*", &["model.layers.0.self_attn.q_proj"], &["model.layers.0.mlp"]);
        check(dialect, "re:vision_tower.*", &["vision_tower.x"], &["model.vision_tower.x"]);
        check(dialect, "re:^(model|language_model)[.]mtp", &["model.mtp.0"], &["x.model.mtp"]);
    }

    #[test]
    fn transformers_keys_match_from_the_start_to_a_boundary_or_are_the_end() {
        let dialect: Dialect = ModulePattern::transformers;
        check(
            dialect,
            "lm_head",
            &["lm_head", "lm_head.x", "model.lm_head", "x_lm_head"],
            &["lm_heads", "model.lm_head.x"],
        );
        check(
            dialect,
            "model.layers.1",
            &["model.layers.1", "model.layers.1.mlp"],
            &["model.layers.10", "model.layers.10.mlp"],
        );
        check(dialect, "model.layers.0.", &["model.layers.0.mlp"], &["model.layers.00", "model.layers.1.mlp"]);
        check(
            dialect,
            "mlp.gate",
            &["model.layers.3.mlp.gate"],
            &["model.layers.3.mlp.gate_proj", "model.layers.3.mlp"],
        );
        check(
            dialect,
            "model.layers.*.self_attn",
            &["model.layers.7.self_attn", "model.layers.7.self_attn.q_proj"],
            &["model.layers.7.mlp", "layers.7.self_attn", "model.layers.7.self_attention"],
        );
        check(dialect, r"model\.layers\.(0|1)", &["model.layers.0", "model.layers.1.mlp"], &["model.layers.10"]);
        check(
            dialect,
            r"(vision|audio)_tower\.",
            &["vision_tower.x", "audio_tower.y"],
            &["vision_tower", "model.vision_tower"],
        );
        check(dialect, "(vision|audio).", &["vision.x"], &["vision", "visions"]);
    }

    #[test]
    fn a_plain_key_is_the_expression_it_spells() {
        for key in ["lm_head", "model.layers.1", "model.layers.0.", "a.b", ".", "a..b"] {
            let plain = ModulePattern::transformers(key).unwrap();
            let forced = ModulePattern::transformers(&format!("(?:{key})")).unwrap();
            for module in
                ["lm_head", "model.layers.1", "model.layers.10", "model_layers_1.x", "a.b", "axb", "a.b.c", "a", ""]
            {
                // The parentheses disable the literal suffix and the special last dot.
                if !module.ends_with(key) && !key.ends_with('.') {
                    assert_eq!(plain.matches(module), forced.matches(module), "{key} {module}");
                }
            }
        }
    }

    #[test]
    fn modelopt_entries_are_wildcards_or_whole_modules() {
        let dialect: Dialect = ModulePattern::modelopt;
        check(dialect, "lm_head", &["lm_head", "lm_head.x"], &["model.lm_head", "lm_heads"]);
        check(dialect, "*lm_head", &["lm_head", "model.lm_head"], &["lm_head.x"]);
        check(dialect, "model.layers.0*", &["model.layers.0", "model.layers.0.mlp"], &["model.layers.1"]);
        check(dialect, "*.router*", &["a.router", "a.router.gate"], &["router", "arouter"]);
        check(dialect, "layers.?.mlp", &["layers.1.mlp", "layers.ü.mlp"], &["layers.10.mlp", "layers..mlp2"]);
        check(dialect, "*", &["", "anything"], &[]);
        check(dialect, "a.b*c", &["a.bc", "a.bxc"], &["aXbc", "a.bcd"]);
        check(dialect, "", &[], &["", "a"]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_names_the_entry() {
        for entry in ["re:(", "re:a)(b", "re:*lm_head", r"re:(?!a)b", r"re:(a)\1", "re:(a{1000}){1000}"] {
            let error = ModulePattern::compressed_tensors(entry).unwrap_err().to_string();
            assert!(error.contains(&quoted(entry)), "{error}");
        }
        for entry in ["*lm_head", "(", "", "a)(b"] {
            assert!(ModulePattern::transformers(entry).is_err(), "{entry}");
        }
        let nested = format!("re:{}a{}", "(".repeat(400), ")".repeat(400));
        assert!(ModulePattern::compressed_tensors(&nested).is_err());
        let longest = format!("re:{}", r"[a-z]\.".repeat(MAX_ENTRY_CHARS / 7));
        assert!(ModulePattern::compressed_tensors(&longest).is_ok());
        let long = "x".repeat(MAX_ENTRY_CHARS + 1);
        for dialect in [ModulePattern::compressed_tensors, ModulePattern::transformers, ModulePattern::modelopt] {
            assert!(dialect(&long).is_err());
            assert!(dialect(&long[1..]).is_ok());
        }
    }

    #[test]
    fn gptqmodel_rules_match_from_the_start() {
        let dialect: Dialect = ModulePattern::gptqmodel;
        check(
            dialect,
            r"^model\.layers\.1\.mlp$",
            &["model.layers.1.mlp"],
            &["model.layers.1.mlp.up", "model_layers_1.mlp"],
        );
        check(dialect, r"model\.layers\.1\.", &["model.layers.1.mlp"], &["x.model.layers.1.mlp", "model.layers.10"]);
        check(dialect, r".*\.(18|19)\..*gate.*", &["model.layers.18.mlp.gate_proj"], &["model.layers.8.mlp.gate_proj"]);
        check(dialect, "^a$|b", &["a", "bc"], &["ab"]);
        assert!(matches!(ModulePattern::gptqmodel(r"^a\.b\-c$").unwrap().0, Matcher::Exact(name) if name == "a.b-c"));
        assert!(matches!(ModulePattern::gptqmodel(r"^layers\.\d$").unwrap().0, Matcher::Expression(_)));
        assert!(ModulePattern::gptqmodel("(?!a)").is_err());
    }

    #[test]
    fn auto_round_keys_are_names_or_expressions_that_match_anywhere() {
        let dialect: Dialect = ModulePattern::auto_round;
        check(dialect, "lm_head", &["lm_head"], &["model.lm_head", "lm_head.x"]);
        check(dialect, r".*mlp\.gate.*", &["a.mlp.gate", "mlp.gate_proj"], &["a.mlp_gate"]);
        check(dialect, r"mlp\.gate$", &["a.mlp.gate"], &["a.mlp.gate_proj"]);
    }

    #[test]
    fn searched_expressions_match_anywhere() {
        check(ModulePattern::searched, "mlp", &["a.mlp.b", "mlp"], &["ml.p"]);
        check(ModulePattern::searched, r"up_proj$", &["a.up_proj"], &["a.up_proj.b"]);
    }

    #[test]
    fn ends_and_names_are_plain_text() {
        check(ModulePattern::end, "attn.q", &["a.attn.q", "attn.q", "xattn.q"], &["attn_q", "attn.q.x"]);
        check(ModulePattern::exact, "a.b", &["a.b"], &["axb", "a.b.c"]);
        check(ModulePattern::subtree, "a.*", &["a.*.b"], &["a.b"]);
    }

    #[test]
    fn hostile_patterns_stay_fast() {
        let module = "a".repeat(10_000);
        check(ModulePattern::modelopt, &"*a".repeat(450), &[&module], &["b"]);
        check(ModulePattern::modelopt, &format!("{}b", "*a".repeat(450)), &[], &[&module]);
        check(ModulePattern::compressed_tensors, "re:(a*)*(a*)*(a*)*b", &[], &[&module]);
        check(ModulePattern::compressed_tensors, &format!("re:{}b", ".*a".repeat(100)), &[], &[&module]);
    }
}
