//! What a model's configuration says about its quantisation, as pure data. Reading it from disk is the checkpoint's job.

use serde_json::Value;

use crate::error::{AnamnesisError, printable};

use super::module_pattern::{Dialect, ModulePattern};

/// The quantisation parts of a configuration and the documents they were found in. Without any, everything here is empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuantConfig {
    /// The most telling first.
    documents: Vec<(String, Value)>,
    ignored: Ignored,
}

impl QuantConfig {
    /// Takes the quantisation objects out of parsed configurations (name and content, the most telling first).
    pub(crate) fn from_documents<'a>(documents: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let found = |(file, document): (&str, Value)| Some((file.to_owned(), quantisation(file, document)?));
        let documents: Vec<_> = documents.into_iter().filter_map(found).collect();
        let ignored = Ignored::read(&documents);
        Self { documents, ignored }
    }

    /// Whether the configuration says that the model is quantised.
    pub(crate) fn is_present(&self) -> bool {
        !self.documents.is_empty()
    }

    /// The most telling document, for messages.
    pub(crate) fn file(&self) -> &str {
        self.documents.first().map_or("config.json", |(file, _)| file)
    }

    /// The telling members of every document, for people.
    pub(crate) fn evidence(&self) -> Vec<String> {
        const KEYS: [&str; 11] = [
            "quant_method",
            "quant_algo",
            "format",
            "fmt",
            "bits",
            "group_size",
            "checkpoint_format",
            "version",
            "weight_block_size",
            "load_in_4bit",
            "load_in_8bit",
        ];
        let line = |(file, value): &(String, Value)| {
            let said =
                |key: &&str| value.get(key).filter(|value| !value.is_null()).map(|value| format!("{key} {value}"));
            let members: Vec<_> = KEYS.iter().filter_map(said).collect();
            printable(&format!("{file}: {}", members.join(", ")), 400)
        };
        self.documents.iter().map(line).collect()
    }

    /// Where two documents say different things of the same.
    pub(crate) fn conflict(&self) -> Option<String> {
        const KEYS: [&str; 8] = [
            "quant_method",
            "quant_algo",
            "bits",
            "group_size",
            "checkpoint_format",
            "fmt",
            "kv_cache_quant_algo",
            "weight_block_size",
        ];
        let (first, others) = self.documents.split_first()?;
        let said = |value: &Value, key: &str| value.get(key).filter(|value| !value.is_null()).cloned();
        others.iter().find_map(|other| {
            KEYS.into_iter().find_map(|key| {
                let (a, b) = (said(&first.1, key)?, said(&other.1, key)?);
                (a != b).then(|| format!("{} says {key} is {a}, {} says {b}", first.0, other.0))
            })
        })
    }

    /// The value at a path of keys, from the first document that has one.
    pub(crate) fn get(&self, path: &[&str]) -> Option<&Value> {
        self.documents.iter().find_map(|(_, value)| {
            path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
        })
    }

    /// The text at a path of keys.
    pub(crate) fn text(&self, path: &[&str]) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// `quant_method`, the scheme's name in the configuration.
    pub(crate) fn method(&self) -> Option<&str> {
        self.text(&["quant_method"])
    }

    /// The `weights` arguments of every compressed-tensors group.
    pub(crate) fn weight_groups(&self) -> impl Iterator<Item = &Value> {
        let groups = self.get(&["config_groups"]).and_then(Value::as_object);
        groups.into_iter().flat_map(|groups| groups.values()).filter_map(|group| group.get("weights"))
    }

    /// Whether the configuration leaves this module unquantised. An entry that cannot be read means no module.
    pub(crate) fn ignores(&self, module: &str) -> bool {
        self.ignored.patterns.iter().any(|pattern| pattern.matches(module))
    }

    /// The first entry of the ignore lists that cannot be read, and why.
    pub(crate) fn ignore_problem(&self) -> Option<&str> {
        self.ignored.problem.as_deref()
    }
}

/// The quantisation object of one document. Files that are about nothing else are one themselves.
fn quantisation(file: &str, mut document: Value) -> Option<Value> {
    const PLACES: [&[&str]; 5] = [
        &["quantization_config"],
        &["text_config", "quantization_config"],
        &["llm_config", "quantization_config"],
        &["language_config", "quantization_config"],
        // hf_quant_config.json of ModelOpt
        &["quantization"],
    ];
    for place in PLACES {
        let found = place.iter().try_fold(&mut document, |value, key| value.get_mut(key));
        if let Some(object @ Value::Object(_)) = found {
            return Some(object.take());
        }
    }
    (file == "quantize_config.json" && document.is_object()).then_some(document)
}

/// The ignore lists of a configuration, read once.
#[derive(Debug, Clone, Default)]
struct Ignored {
    patterns: Vec<ModulePattern>,
    problem: Option<String>,
}

impl Ignored {
    /// Most entries of all lists together.
    const MAX_ENTRIES: usize = 1 << 16;
    /// Most regular expressions among them.
    const MAX_EXPRESSIONS: usize = 1 << 10;

    fn read(documents: &[(String, Value)]) -> Self {
        let mut ignored = Self::default();
        for (_, config) in documents {
            ignored.add(config);
        }
        ignored
    }

    fn add(&mut self, config: &Value) {
        let text = |key| config.get(key).and_then(Value::as_str);
        // ModelOpt calls its list `ignore` where it writes config.json, and `exclude_modules` in its own file.
        let is_modelopt = text("quant_method").is_some_and(|method| method.starts_with("modelopt"))
            || (text("quant_method").is_none() && text("quant_algo").is_some());
        let ignore: Dialect = if is_modelopt { ModulePattern::modelopt } else { ModulePattern::compressed_tensors };
        let lists: [(&str, Dialect); 4] = [
            ("ignore", ignore),
            ("exclude_modules", ModulePattern::modelopt),
            ("modules_to_not_convert", ModulePattern::transformers),
            ("ignored_layers", ModulePattern::transformers),
        ];
        let ignored = self;
        let mut expressions = ignored.patterns.iter().filter(|pattern| pattern.is_compiled()).count();
        for (key, dialect) in lists {
            let entries = config.get(key).and_then(Value::as_array).into_iter().flatten();
            for entry in entries.filter_map(Value::as_str) {
                if ignored.patterns.len() >= Self::MAX_ENTRIES || expressions >= Self::MAX_EXPRESSIONS {
                    let (entries, expressions) = (Self::MAX_ENTRIES, Self::MAX_EXPRESSIONS);
                    let problem =
                        format!("the ignore lists have more than {entries} entries or {expressions} expressions");
                    ignored.problem.get_or_insert(problem);
                    return;
                }
                match dialect(entry) {
                    Ok(pattern) => {
                        expressions += usize::from(pattern.is_compiled());
                        ignored.patterns.push(pattern);
                    }
                    Err(error) => {
                        // It may have taken as long as one that can be used.
                        expressions += 1;
                        let why = match error {
                            AnamnesisError::Parse { reason } => reason,
                            other => other.to_string(),
                        };
                        ignored.problem.get_or_insert_with(|| format!("{key}: {why}"));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_quantisation_object_is_found_where_models_put_it() {
        let inner = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
        for document in [
            json!({"quantization_config": inner}),
            json!({"text_config": {"quantization_config": inner}}),
            json!({"quantization": inner}),
        ] {
            let config = QuantConfig::from_documents([("config.json", document)]);
            assert_eq!(config.method(), Some("fp8"));
        }
        assert!(!QuantConfig::from_documents([("config.json", json!({"quantization_config": null}))]).is_present());
        assert!(!QuantConfig::from_documents([("config.json", json!([1, 2]))]).is_present());
    }

    fn config(quantisation: Value) -> QuantConfig {
        QuantConfig::from_documents([("config.json", json!({"quantization_config": quantisation}))])
    }

    #[test]
    fn each_list_is_read_in_the_dialect_of_its_library() {
        let lists = [
            (json!({"ignore": ["lm_head", "re:.*gate$"]}), ["lm_head", "a.gate"], ["model.lm_head", "lm_head.x"]),
            (json!({"exclude_modules": ["lm_head", "*.gate"]}), ["lm_head.x", "a.gate"], ["model.lm_head", "gate"]),
            (json!({"modules_to_not_convert": ["lm_head"]}), ["model.lm_head", "lm_head.x"], ["lm_heads", "lm"]),
            (
                json!({"ignored_layers": ["model.layers.3.mlp"]}),
                ["model.layers.3.mlp", "model.layers.3.mlp.up"],
                ["model.layers.30.mlp", "model.layers.3"],
            ),
        ];
        for (document, ignored, kept) in lists {
            let config = config(document);
            assert!(ignored.iter().all(|module| config.ignores(module)), "{ignored:?}");
            assert!(!kept.iter().any(|module| config.ignores(module)), "{kept:?}");
            assert!(config.ignore_problem().is_none());
        }
        assert!(!QuantConfig::default().ignores(""));
    }

    #[test]
    fn modelopt_writes_wildcards_under_either_name() {
        for document in [
            json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0*"]}),
            json!({"quant_algo": "FP8", "ignore": ["model.layers.0*"]}),
            json!({"quant_algo": "FP8", "exclude_modules": ["model.layers.0*"]}),
        ] {
            assert!(config(document).ignores("model.layers.0.mlp"));
        }
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_reported_and_the_others_count() {
        let config = config(json!({"ignore": ["re:(", 3, "lm_head", null, "re:(?!x)"]}));
        assert!(config.ignores("lm_head"));
        let problem = config.ignore_problem().unwrap().to_string();
        assert!(problem.starts_with("ignore: the ignore list's entry \"re:(\" cannot be read"), "{problem}");
    }

    #[test]
    fn lists_that_never_end_are_cut_and_reported() {
        let names: Vec<_> = (0..=Ignored::MAX_ENTRIES).map(|number| format!("a.{number}")).collect();
        let expressions: Vec<_> = (0..=Ignored::MAX_EXPRESSIONS).map(|number| format!("re:a.{number}$")).collect();
        for entries in [names, expressions] {
            let config = config(json!({"ignore": entries}));
            assert!(config.ignores("a.0") && !config.ignores("b"));
            assert!(config.ignore_problem().is_some());
        }
    }
}
