//! What a model's configuration says about its quantisation, as pure data. Reading it from disk is the checkpoint's job.

use serde_json::Value;

/// The quantisation part of a configuration and the document it was found in. Without one, everything here is empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuantConfig {
    document: Option<(String, Value)>,
}

impl QuantConfig {
    /// Takes the quantisation object out of a parsed `config.json` or one of its kin; `file` is named in messages.
    pub(crate) fn from_document(file: &str, mut document: Value) -> Self {
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
                return Self { document: Some((file.to_owned(), object.take())) };
            }
        }
        Self::default()
    }

    /// Whether the configuration says that the model is quantised.
    pub(crate) fn is_present(&self) -> bool {
        self.document.is_some()
    }

    /// The document this was found in, for messages.
    pub(crate) fn file(&self) -> &str {
        self.document.as_ref().map_or("config.json", |(file, _)| file)
    }

    /// The value at a path of keys.
    pub(crate) fn get(&self, path: &[&str]) -> Option<&Value> {
        let (_, value) = self.document.as_ref()?;
        path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
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

    /// Whether the configuration leaves this module unquantised. Entries name a module, one of its ancestors, or the end of
    /// its path; `*` matches anything.
    pub(crate) fn ignores(&self, module: &str) -> bool {
        const LISTS: [&str; 4] = ["modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"];
        let entries = LISTS.iter().filter_map(|list| self.get(&[list])?.as_array()).flatten().filter_map(Value::as_str);
        entries.into_iter().any(|entry| entry_covers(entry, module))
    }
}

fn entry_covers(entry: &str, module: &str) -> bool {
    if entry.contains('*') {
        return glob(entry.as_bytes(), module.as_bytes());
    }
    let inner = module.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let tail = module.strip_suffix(entry).is_some_and(|rest| rest.ends_with('.'));
    !entry.is_empty() && (inner || tail)
}

/// `*` matches any run of characters, everything else itself. Linear in time: only the last star is tried again.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star, at)) = retry {
            retry = Some((star, at + 1));
            p = star + 1;
            t = at + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
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
            let config = QuantConfig::from_document("config.json", document);
            assert_eq!(config.method(), Some("fp8"));
        }
        assert!(!QuantConfig::from_document("config.json", json!({"quantization_config": null})).is_present());
        assert!(!QuantConfig::from_document("config.json", json!([1, 2])).is_present());
    }

    #[test]
    fn ignore_lists_cover_modules_by_name_ancestor_tail_and_star() {
        let document = json!({"quantization_config": {
            "ignore": ["lm_head", "model.layers.3.mlp"], "exclude_modules": ["*.router*"]}});
        let config = QuantConfig::from_document("config.json", document);
        for module in ["lm_head", "model.lm_head", "model.layers.3.mlp.up_proj", "a.router.gate"] {
            assert!(config.ignores(module), "{module}");
        }
        for module in ["model.layers.30.mlp", "x_lm_head", "lm_heads", "model.layers.3"] {
            assert!(!config.ignores(module), "{module}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_stays_fast() {
        let pattern = "*a".repeat(2000);
        assert!(!glob(pattern.as_bytes(), "a".repeat(1999).as_bytes()));
        assert!(glob(pattern.as_bytes(), "a".repeat(2000).as_bytes()));
    }
}
