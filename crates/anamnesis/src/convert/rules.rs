//! Rules: encodings for individual weights, by name patterns.
//!
//! A pattern is matched against the name of a weight in the input and in the output, since checkpoints and GGUF name
//! the same weight differently. The first matching rule applies. Rules without wildcards are looked up in a map, as
//! there may be one rule per weight.

use std::collections::{HashMap, HashSet};

use super::target::ConvertTarget;
use crate::catalog::Glob;
use crate::error::{Request, Result};
use crate::scheme::{Encoding, Override};

/// The keyword for keeping a weight unquantised.
const KEEP: &str = "keep";

/// All rules, in the order given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    given: Vec<(Glob, Override)>,
    /// Rules without wildcards: the index of the first rule for each name.
    exact: HashMap<String, usize>,
    /// Indices of the rules with wildcards.
    wildcards: Vec<usize>,
}

impl Rules {
    /// Appends a rule.
    pub(crate) fn add(&mut self, pattern: &str, spec: &str) -> Result<()> {
        let glob = Glob::parse(pattern)?;
        let rule = match spec.eq_ignore_ascii_case(KEEP) {
            true => Override::Keep,
            false => Override::Encode(encoding(spec)?),
        };
        let index = self.given.len();
        match glob.only_name() {
            Some(name) => drop(self.exact.entry(name.to_owned()).or_insert(index)),
            None => self.wildcards.push(index),
        }
        self.given.push((glob, rule));
        Ok(())
    }

    /// Appends a rule for the weight of exactly this name; wildcard characters in it are literal.
    pub(crate) fn add_name(&mut self, name: &str, target: ConvertTarget) -> Result<()> {
        self.exact.entry(name.to_owned()).or_insert(self.given.len());
        self.given.push((Glob::literal(name), Override::Encode(encoding(target.name())?)));
        Ok(())
    }

    /// The override for a weight with these names in the input and the output.
    pub(crate) fn override_for(&self, name: &str, output_name: &str) -> Option<Override> {
        let exact = [name, output_name].into_iter().filter_map(|name| self.exact.get(name).copied()).min();
        let fits = |&index: &usize| {
            let (glob, _) = &self.given[index];
            glob.matches(name) || glob.matches(output_name)
        };
        let wildcard =
            self.wildcards.iter().copied().take_while(|&index| exact.is_none_or(|exact| index < exact)).find(fits);
        wildcard.or(exact).map(|index| self.given[index].1)
    }

    /// Refuses a rule that matches none of these names.
    pub(crate) fn check_used<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        if self.given.is_empty() {
            return Ok(());
        }
        let names: HashSet<&str> = names.collect();
        let is_unused = |(glob, _): &&(Glob, Override)| match glob.only_name() {
            Some(name) => !names.contains(name),
            None => !names.iter().any(|name| glob.matches(name)),
        };
        match self.given.iter().find(is_unused) {
            None => Ok(()),
            Some((glob, _)) => Err(Request::UnusedPattern { pattern: glob.text().to_owned() }.into()),
        }
    }

    /// Refuses rules if the target does not quantise.
    pub(crate) fn check_unused(&self, target: &str) -> Result<()> {
        match self.given.first() {
            None => Ok(()),
            Some((glob, _)) => {
                let what = format!("a rule for {}", glob.text());
                Err(Request::Contradiction { what, why: format!("{target} quantises nothing") }.into())
            }
        }
    }

    /// Refuses encodings that cannot be mixed with `usual` in one output.
    pub(crate) fn check_mixes(&self, usual: &Encoding) -> Result<()> {
        let unmixable = self.given.iter().find_map(|(glob, rule)| match rule {
            Override::Encode(other) if other.name() != usual.name() && !usual.quantiser.mixes_with(other.name()) => {
                Some((glob, other))
            }
            _ => None,
        });
        let Some((glob, other)) = unmixable else { return Ok(()) };
        let what = format!("{} for {} in a model of {}", other.name(), glob.text(), usual.name());
        let why = format!("loaders of {} do not support it in the same model", usual.name());
        Err(Request::Contradiction { what, why }.into())
    }
}

/// The encoding of this name.
fn encoding(name: &str) -> Result<&'static Encoding> {
    let found = ConvertTarget::parse(name).ok().and_then(ConvertTarget::encoding);
    found.ok_or_else(|| {
        let encodings = ConvertTarget::all().filter(|target| target.is_quantized());
        let known = [KEEP].into_iter().chain(encodings.map(ConvertTarget::name)).map(str::to_owned).collect();
        Request::UnknownName { what: "encoding", name: name.to_owned(), known }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn override_of(rules: &Rules, name: &str) -> String {
        format!("{:?}", rules.override_for(name, "blk.0.attn_v.weight"))
    }

    #[test]
    fn the_first_rule_that_fits_counts_whether_it_is_a_name_or_a_pattern() {
        let mut rules = Rules::default();
        for (pattern, spec) in [("a.*", "w8a16"), ("a.weight", "keep"), ("b.weight", "KEEP"), ("*", "w4a16")] {
            rules.add(pattern, spec).unwrap();
        }
        assert_eq!(override_of(&rules, "a.weight"), "Some(Encode(w8a16))");
        assert_eq!(override_of(&rules, "b.weight"), "Some(Keep)");
        assert_eq!(override_of(&rules, "c.weight"), "Some(Encode(w4a16))");
        assert_eq!(override_of(&Rules::default(), "c.weight"), "None");
    }

    #[test]
    fn a_rule_may_have_the_name_of_the_input_or_of_the_output() {
        let mut rules = Rules::default();
        rules.add("blk.*.attn_v.weight", "q8_0").unwrap();
        assert_eq!(override_of(&rules, "model.layers.0.self_attn.v_proj.weight"), "Some(Encode(q8_0))");
        assert!(rules.check_used(["blk.3.attn_v.weight"].into_iter()).is_ok());
        assert!(rules.check_used(["blk.3.attn_q.weight"].into_iter()).is_err());
    }

    #[test]
    fn an_unknown_encoding_is_refused_with_the_known_ones() {
        let error = Rules::default().add("*", "gguf").unwrap_err().to_string();
        assert!(error.starts_with("\"gguf\" is not a known encoding; known are keep, bnb-nf4"), "{error}");
    }
}
