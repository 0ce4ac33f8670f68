//! The tokens that a post-processor adds around a text: whether BOS, EOS and separators are added, and their ids.

use serde_json::Value;

use super::document::Document;
use super::settings::Settings;

/// The `add_*_token` flags, in the order they were determined.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct AddFlags(Vec<(&'static str, bool)>);

impl AddFlags {
    fn set(&mut self, role: &'static str, truth: bool) {
        match self.0.iter_mut().find(|(known, _)| *known == role) {
            Some((_, old)) => *old = truth,
            None => self.0.push((role, truth)),
        }
    }

    pub(super) fn unless_known(&mut self, role: &'static str, truth: bool) {
        if self.0.iter().all(|(known, _)| *known != role) {
            self.0.push((role, truth));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.0.iter().copied()
    }

    /// Reads a post-processor. Tokens that it adds and the settings do not name get their roles in the settings; one
    /// that replaces the named EOS makes that the end of a turn (`eot`).
    pub(super) fn from_post_processor(
        post_processor: &Value,
        settings: &mut Settings,
        roles: &mut Vec<&'static str>,
    ) -> Self {
        let mut added = Self::default();
        let mut names = RoleTokens::of(settings);
        let single = std::slice::from_ref(post_processor);
        let processors = post_processor.get("processors").and_then(Value::as_array).map_or(single, Vec::as_slice);
        for processor in processors {
            match processor.get("type").and_then(Value::as_str) {
                Some("ByteLevel") => {
                    added.unless_known("bos", false);
                    added.unless_known("eos", false);
                }
                Some("RobertaProcessing") => {
                    ["bos", "eos", "sep"].into_iter().for_each(|role| added.set(role, true));
                    names.read_roberta(processor);
                }
                Some("TemplateProcessing") => names.template(processor, &mut added, roles),
                _ => {}
            }
        }
        names.store(settings);
        added
    }
}

/// The tokens with a role; null if there is none.
struct RoleTokens {
    bos: Value,
    eos: Value,
    cls: Value,
    sep: Value,
    eot: Value,
    eom: Value,
    /// Whether there are settings; without them no roles are assigned.
    has_settings: bool,
}

impl RoleTokens {
    fn of(settings: &Settings) -> Self {
        let get = |role: &str| settings.get(&format!("{role}_token")).cloned().unwrap_or_default();
        let mut names = Self {
            bos: get("bos"),
            eos: get("eos"),
            cls: get("cls"),
            sep: get("sep"),
            eot: Value::Null,
            eom: Value::Null,
            has_settings: !settings.0.is_empty(),
        };
        if names.has_settings && is_empty(&names.bos) && !is_empty(&names.cls) {
            names.bos = names.cls.clone();
        }
        if names.has_settings && is_empty(&names.eos) && !is_empty(&names.sep) {
            names.eos = names.sep.clone();
        }
        names
    }

    fn read_roberta(&mut self, processor: &Value) {
        let first =
            |key: &str, otherwise: &Value| processor.get(key).and_then(|pair| pair.get(0)).unwrap_or(otherwise).clone();
        if self.has_settings && is_empty(&self.cls) {
            self.cls = first("cls", &self.bos);
        }
        if self.has_settings && is_empty(&self.sep) {
            self.sep = first("sep", &self.eos);
        }
    }

    fn template(&mut self, processor: &Value, added: &mut AddFlags, roles: &mut Vec<&'static str>) {
        let items = |key: &str| processor.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let (single, pair) = (items("single"), items("pair"));
        let (mut first, mut last) = (Value::Null, Value::Null);
        if let [begin, .., end] = single {
            first = special_id(begin);
            if !is_empty(&first) {
                if !self.has_settings {
                    self.bos = first.clone();
                } else if first != self.bos && first != self.cls {
                    for name in [&mut self.bos, &mut self.cls].into_iter().filter(|name| is_empty(name)) {
                        *name = first.clone();
                    }
                }
                added.set("bos", first == self.bos || first == self.cls);
            }
            last = special_id(end);
            if !is_empty(&last) {
                if self.has_settings && last != self.eos {
                    let replaced = std::mem::replace(&mut self.eos, last.clone());
                    if !roles.contains(&"eot") {
                        roles.push("eot");
                        self.eot = replaced;
                    } else if !roles.contains(&"eom") {
                        roles.push("eom");
                        self.eom = replaced;
                    }
                }
                self.eos = last.clone();
                added.set("eos", true);
            }
        }
        self.pair(pair, &first, &last, added);
    }

    /// Determines whether a separator is added between two texts.
    fn pair(&mut self, pair: &[Value], first: &Value, last: &Value, added: &mut AddFlags) {
        let begins = !is_empty(first) && pair.first().map(special_id).as_ref() == Some(first);
        let ends = !is_empty(last) && pair.last().map(special_id).as_ref() == Some(last);
        let pair = pair.get(usize::from(begins)..pair.len() - usize::from(ends)).unwrap_or_default();
        let [a, between @ .., b] = pair else { return };
        let sequence = |item: &Value| item.get("Sequence").and_then(|item| item.get("id")).cloned().unwrap_or_default();
        let [separator, rest @ ..] = between else { return };
        if sequence(a) != "A" || sequence(b) != "B" {
            return;
        }
        let separates = |item: &Value| {
            let id = special_id(item);
            !is_empty(&id) && (id == self.sep || id == self.eos)
        };
        let add = separates(separator) && is_empty(last) || matches!(rest, [second] if separates(second));
        added.set("sep", add);
        if add && is_empty(&self.sep) && self.has_settings {
            self.sep = self.eos.clone();
        }
    }

    fn store(self, settings: &mut Settings) {
        if !self.has_settings {
            return;
        }
        let names = [("bos", self.bos), ("eos", self.eos), ("cls", self.cls), ("sep", self.sep)];
        let later = [("eot", self.eot), ("eom", self.eom)];
        for (role, name) in names.into_iter().chain(later).filter(|(_, name)| !is_empty(name)) {
            settings.0.insert(format!("{role}_token"), name);
        }
    }
}

fn special_id(item: &Value) -> Value {
    item.get("SpecialToken").and_then(|token| token.get("id")).cloned().unwrap_or_default()
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// The ids that the post-processor adds before and after a text; `None` if it is unknown.
pub(super) fn surrounding_ids(document: &Document) -> Option<(Vec<u32>, Vec<u32>)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let single = std::slice::from_ref(&document.post_processor);
    let inner = document.post_processor.get("processors").and_then(Value::as_array);
    for processor in inner.map_or(single, Vec::as_slice) {
        match processor.get("type").and_then(Value::as_str) {
            None | Some("ByteLevel") => {}
            Some("TemplateProcessing") => {
                let ids_of = |item: &Value| -> Option<Vec<u32>> {
                    let name = special_id(item);
                    let token = processor.get("special_tokens")?.get(name.as_str()?)?;
                    let ids = token.get("ids")?.as_array()?.iter();
                    ids.map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
                };
                let items = processor.get("single")?.as_array()?;
                let place = items.iter().position(|item| item.get("Sequence").is_some())?;
                let (head, tail) = items.split_at_checked(place)?;
                let mut new: Vec<u32> = Vec::new();
                for item in head {
                    new.extend(ids_of(item)?);
                }
                new.append(&mut before);
                before = new;
                for item in tail.get(1..)? {
                    after.extend(ids_of(item)?);
                }
            }
            Some("RobertaProcessing" | "BertProcessing") => {
                let id = |key: &str| u32::try_from(processor.get(key)?.get(1)?.as_u64()?).ok();
                before.insert(0, id("cls")?);
                after.push(id("sep")?);
            }
            Some(_) => return None,
        }
    }
    Some((before, after))
}
