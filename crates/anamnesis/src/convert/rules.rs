//! Rules: what becomes of single weights, by patterns over their names.
//!
//! A pattern is held against the name of a weight in the input and in the output, as checkpoints and GGUF call the same weight
//! differently. Of several rules the first that fits counts; what has one name each is looked up, as there may be as many rules
//! as weights.

use std::collections::{HashMap, HashSet};

use super::target::ConvertTarget;
use crate::catalog::Glob;
use crate::error::{Request, Result};
use crate::scheme::{Encoding, Override};

/// The word for leaving a weight as it is.
const KEEP: &str = "keep";

/// All rules, in the order they were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    given: Vec<(Glob, Override)>,
    /// The first rule of each name that stands for itself.
    exact: HashMap<String, usize>,
    /// The others.
    open: Vec<usize>,
}

impl Rules {
    /// Adds a rule behind the others.
    pub(crate) fn add(&mut self, pattern: &str, spec: &str) -> Result<()> {
        let glob = Glob::parse(pattern)?;
        let wish = match spec.eq_ignore_ascii_case(KEEP) {
            true => Override::Keep,
            false => Override::Encode(encoding(spec)?),
        };
        let index = self.given.len();
        match glob.only_name() {
            Some(name) => drop(self.exact.entry(name.to_owned()).or_insert(index)),
            None => self.open.push(index),
        }
        self.given.push((glob, wish));
        Ok(())
    }

    /// Adds a rule behind the others for the weight of this name, whatever characters it has.
    pub(crate) fn add_name(&mut self, name: &str, target: ConvertTarget) -> Result<()> {
        self.exact.entry(name.to_owned()).or_insert(self.given.len());
        self.given.push((Glob::literal(name), Override::Encode(encoding(target.name())?)));
        Ok(())
    }

    /// What is wished of a weight of these names.
    pub(crate) fn wish(&self, name: &str, output_name: &str) -> Option<Override> {
        let exact = [name, output_name].into_iter().filter_map(|name| self.exact.get(name).copied()).min();
        let fits = |&index: &usize| {
            let (glob, _) = &self.given[index];
            glob.matches(name) || glob.matches(output_name)
        };
        let open = self.open.iter().copied().take_while(|&index| exact.is_none_or(|exact| index < exact)).find(fits);
        open.or(exact).map(|index| self.given[index].1)
    }

    /// Refuses a rule that fits none of these names.
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

    /// Refuses rules where nothing is quantised.
    pub(crate) fn check_unused(&self, target: &str) -> Result<()> {
        match self.given.first() {
            None => Ok(()),
            Some((glob, _)) => {
                let what = format!("a rule for {}", glob.text());
                Err(Request::Contradiction { what, why: format!("{target} quantises nothing") }.into())
            }
        }
    }

    /// Refuses encodings that the configuration of `usual` cannot tell of beside it.
    pub(crate) fn check_mixes(&self, usual: &Encoding) -> Result<()> {
        let strange = self.given.iter().find_map(|(glob, wish)| match wish {
            Override::Encode(other) if other.name() != usual.name() && !usual.quantiser.mixes_with(other.name()) => {
                Some((glob, other))
            }
            _ => None,
        });
        let Some((glob, other)) = strange else { return Ok(()) };
        let what = format!("{} for {} beside {}", other.name(), glob.text(), usual.name());
        let why = format!("what tells loaders of {} cannot tell of it", usual.name());
        Err(Request::Contradiction { what, why }.into())
    }
}

/// The encoding of a name.
fn encoding(name: &str) -> Result<&'static Encoding> {
    let found = ConvertTarget::parse(name).ok().and_then(ConvertTarget::encoding);
    found.ok_or_else(|| {
        let encodings = ConvertTarget::all().filter(|target| target.is_quantized());
        let known = [KEEP].into_iter().chain(encodings.map(ConvertTarget::name)).map(str::to_owned).collect();
        Request::UnknownName { what: "way of quantising", name: name.to_owned(), known }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wished(rules: &Rules, name: &str) -> String {
        format!("{:?}", rules.wish(name, "blk.0.attn_v.weight"))
    }

    #[test]
    fn the_first_rule_that_fits_counts_whether_it_is_a_name_or_a_pattern() {
        let mut rules = Rules::default();
        for (pattern, spec) in [("a.*", "w8a16"), ("a.weight", "keep"), ("b.weight", "KEEP"), ("*", "w4a16")] {
            rules.add(pattern, spec).unwrap();
        }
        assert_eq!(wished(&rules, "a.weight"), "Some(Encode(w8a16))");
        assert_eq!(wished(&rules, "b.weight"), "Some(Keep)");
        assert_eq!(wished(&rules, "c.weight"), "Some(Encode(w4a16))");
        assert_eq!(wished(&Rules::default(), "c.weight"), "None");
    }

    #[test]
    fn a_rule_may_have_the_name_of_the_input_or_of_the_output() {
        let mut rules = Rules::default();
        rules.add("blk.*.attn_v.weight", "q8_0").unwrap();
        assert_eq!(wished(&rules, "model.layers.0.self_attn.v_proj.weight"), "Some(Encode(q8_0))");
        assert!(rules.check_used(["blk.3.attn_v.weight"].into_iter()).is_ok());
        assert!(rules.check_used(["blk.3.attn_q.weight"].into_iter()).is_err());
    }

    #[test]
    fn what_is_no_encoding_is_refused_with_those_there_are() {
        let error = Rules::default().add("*", "gguf").unwrap_err().to_string();
        assert!(error.starts_with("\"gguf\" is not a known way of quantising; known are keep, bnb-nf4"), "{error}");
    }
}
