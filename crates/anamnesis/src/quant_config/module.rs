//! What is said about one module.

use super::args::{Args, Layer};
use super::description::{Description, WEIGHT_KEYS, telling};
use super::groups::{Groups, Target};
use super::ignored::{Left, Only};
use super::place::Place;
use super::rules::Effect;

/// What the configuration says about a module: whether it is left as it is, and the arguments that apply to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModuleConfig<'a> {
    left: Option<Left<'a>>,
    rule: Option<Place<'a>>,
    groups: Vec<Args<'a>>,
    target: Option<Target>,
    args: Args<'a>,
    undecided: Option<String>,
    /// Where there are groups, whether or not one is for the module.
    grouped: Option<Place<'a>>,
    marker: Option<Args<'a>>,
}

impl<'a> ModuleConfig<'a> {
    pub(super) fn of(descriptions: &'a [Description], marker: Option<Args<'a>>, module: &str) -> Self {
        let mut config = Self { marker, ..Self::default() };
        for description in descriptions {
            config.left = config.left.or_else(|| left(description, module));
            config.add_rules(description, module);
            config.add_groups(description, module);
        }
        config.args.layers.extend(descriptions.iter().map(Description::layer));
        config
    }

    /// The first description with a rule for the module counts.
    fn add_rules(&mut self, description: &'a Description, module: &str) {
        for rules in &description.rules {
            let place = description.place().with(rules.key);
            if let (None, Some((key, effect))) = (self.rule, rules.find(module, &description.members)) {
                self.rule = Some(place.with(key));
                match effect {
                    Effect::Args(members) => self.args.layers.push(Layer { members, place: place.with(key) }),
                    Effect::Left => self.left = self.left.or(Some(Left { place, entry: key, is_rule: true })),
                }
            }
            if let Some(problem) = rules.problem() {
                self.undecided.get_or_insert_with(|| format!("{place}: {problem}"));
            }
        }
    }

    /// The first description with groups for the module counts.
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

    /// What leaves the module as it is, where something does.
    pub(crate) fn left(&self) -> Option<&Left<'a>> {
        self.left.as_ref()
    }

    /// The arguments that apply to the module: those of its rule, then the general ones.
    pub(crate) fn args(&self) -> &Args<'a> {
        &self.args
    }

    /// The arguments of the module's own rule, without the general ones.
    pub(crate) fn rule(&self) -> Option<Args<'a>> {
        let first = self.args.layers.first().filter(|layer| Some(layer.place) == self.rule)?;
        Some(Args { layers: vec![*first] })
    }

    /// What the file of the module says about it by itself.
    pub(crate) fn marker(&self) -> Option<&Args<'a>> {
        self.marker.as_ref()
    }

    /// The arguments of the groups for the module, of its weights first, and how these groups mean it. Several groups mean a
    /// module in the same way.
    pub(crate) fn groups(&self) -> Option<(Target, &[Args<'a>])> {
        Some((self.target?, &self.groups))
    }

    /// Why it is open which rule or group the module has.
    pub(crate) fn undecided(&self) -> Option<&str> {
        self.undecided.as_deref()
    }

    /// What decides for this module in particular, for people.
    pub(crate) fn evidence(&self) -> Option<String> {
        if let Some(left) = &self.left {
            return Some(left.to_string());
        }
        let layer = match (self.rule, self.groups.first(), self.grouped) {
            (None, Some(group), _) => group.layers.first(),
            (None, None, Some(groups)) => return Some(format!("{groups} has no group for it")),
            _ => self.args.layers.first(),
        }?;
        let keys = ["quant_method", "quant_algo", "bits", "mode"].into_iter().chain(WEIGHT_KEYS).collect::<Vec<_>>();
        Some(format!("{}: {}", layer.place, telling(layer.members, &keys)))
    }
}

/// What leaves a module as it is in one description, apart from its rules.
fn left<'a>(description: &'a Description, module: &str) -> Option<Left<'a>> {
    let place = description.place();
    match description.ignored.find(module) {
        Some((list, entry)) => Some(Left { place: place.with(list), entry, is_rule: false }),
        None => {
            description.only.leaves_out(module).then(|| Left { place: place.with(Only::KEY), entry: "", is_rule: true })
        }
    }
}
