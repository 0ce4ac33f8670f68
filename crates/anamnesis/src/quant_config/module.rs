//! The options of one module.

use super::args::{Args, Layer};
use super::description::{Description, WEIGHT_KEYS, summary};
use super::groups::{Groups, Target};
use super::ignored::{Exclusion, Inclusions};
use super::place::Place;
use super::rules::Effect;

/// The configuration of a module: its exclusion, if any, and the options that apply to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModuleConfig<'a> {
    exclusion: Option<Exclusion<'a>>,
    rule: Option<Place<'a>>,
    groups: Vec<Args<'a>>,
    target: Option<Target>,
    args: Args<'a>,
    undecided: Option<String>,
    /// The place of the groups, whether or not one matches the module.
    grouped: Option<Place<'a>>,
    marker: Option<Args<'a>>,
}

impl<'a> ModuleConfig<'a> {
    pub(super) fn of(descriptions: &'a [Description], marker: Option<Args<'a>>, module: &str) -> Self {
        let mut config = Self { marker, ..Self::default() };
        for description in descriptions {
            config.exclusion = config.exclusion.or_else(|| exclusion(description, module));
            config.add_rules(description, module);
            config.add_groups(description, module);
        }
        config.args.layers.extend(descriptions.iter().map(Description::layer));
        config
    }

    /// The first description with a matching rule applies.
    fn add_rules(&mut self, description: &'a Description, module: &str) {
        for rules in &description.rules {
            let place = description.place().with(rules.key);
            if let (None, Some((key, effect))) = (self.rule, rules.find(module, &description.members)) {
                self.rule = Some(place.with(key));
                match effect {
                    Effect::Args(members) => self.args.layers.push(Layer { members, place: place.with(key) }),
                    Effect::Exclude => {
                        self.exclusion = self.exclusion.or(Some(Exclusion { place, entry: key, is_rule: true }))
                    }
                }
            }
            if let Some(problem) = rules.problem() {
                self.undecided.get_or_insert_with(|| format!("{place}: {problem}"));
            }
        }
    }

    /// The first description with matching groups applies.
    fn add_groups(&mut self, description: &'a Description, module: &str) {
        let place = description.place().with(Groups::KEY);
        if let Some(problem) = description.groups.problem() {
            self.undecided.get_or_insert_with(|| format!("{place}: {problem}"));
        }
        self.grouped = self.grouped.or_else(|| description.groups.iter().next().map(|_| place));
        let (None, Some((target, groups))) = (self.target, description.groups.find(module)) else { return };
        self.target = Some(target);
        for group in groups {
            let place = place.with(&group.name);
            let of_group = description.group(&group.name);
            let weights = of_group.and_then(|group| group.get("weights")?.members());
            let weights = weights.map(|members| Layer { members, place: place.with("weights") });
            let of_group = of_group.map(|members| Layer { members, place });
            let layers = [weights, of_group, Some(description.layer())].into_iter().flatten().collect();
            self.groups.push(Args { layers });
        }
    }

    /// Why the module is not quantised, if it is excluded.
    pub(crate) fn exclusion(&self) -> Option<&Exclusion<'a>> {
        self.exclusion.as_ref()
    }

    /// The options of the module: those of its rule, then the general ones.
    pub(crate) fn args(&self) -> &Args<'a> {
        &self.args
    }

    /// The options of the rule alone.
    pub(crate) fn rule(&self) -> Option<Args<'a>> {
        let first = self.args.layers.first().filter(|layer| Some(layer.place) == self.rule)?;
        Some(Args { layers: vec![*first] })
    }

    /// The options of the marker in the weight file.
    pub(crate) fn marker(&self) -> Option<&Args<'a>> {
        self.marker.as_ref()
    }

    /// The arguments of the matching groups, those of `weights` first, and how the groups match. Several groups match
    /// only in the same way.
    pub(crate) fn groups(&self) -> Option<(Target, &[Args<'a>])> {
        Some((self.target?, &self.groups))
    }

    /// Why it is undecided which rule or group matches the module.
    pub(crate) fn undecided(&self) -> Option<&str> {
        self.undecided.as_deref()
    }

    /// The entry that decides for this module, for people.
    pub(crate) fn evidence(&self) -> Option<String> {
        if let Some(exclusion) = &self.exclusion {
            return Some(exclusion.to_string());
        }
        let layer = match (self.rule, self.groups.first(), self.grouped) {
            (None, Some(group), _) => group.layers.first(),
            (None, None, Some(groups)) => return Some(format!("{groups} has no group for it")),
            _ => self.args.layers.first(),
        }?;
        let keys = ["quant_method", "quant_algo", "bits", "mode"].into_iter().chain(WEIGHT_KEYS).collect::<Vec<_>>();
        Some(format!("{}: {}", layer.place, summary(layer.members, &keys)))
    }
}

/// The exclusion of a module by the lists of one description.
fn exclusion<'a>(description: &'a Description, module: &str) -> Option<Exclusion<'a>> {
    let place = description.place();
    match description.ignored.find(module) {
        Some((list, entry)) => Some(Exclusion { place: place.with(list), entry, is_rule: false }),
        None => description.only.excludes(module).then(|| Exclusion {
            place: place.with(Inclusions::KEY),
            entry: "",
            is_rule: true,
        }),
    }
}
