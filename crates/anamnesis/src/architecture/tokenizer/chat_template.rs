//! The chat template, or several by name.

use serde_json::Value;

use super::settings::Settings;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::SidecarFiles;
use crate::catalog::MetadataArray;
use crate::error::{AnamnesisError, Result};
use crate::json;

/// One template, or named ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatTemplate {
    One(String),
    Named(Vec<(String, String)>),
}

impl ChatTemplate {
    /// The template of `tokenizer_config.json`, else that of separate files. Without settings there is none.
    pub(super) fn read(
        files: &dyn SidecarFiles,
        settings: &Settings,
        metadata: &mut MetadataBuilder,
    ) -> Result<Option<Self>> {
        if settings.0.is_empty() {
            return Ok(None);
        }
        let given = match settings.get("chat_template") {
            Some(given) => given.clone(),
            None => match Self::from_files(files)? {
                Ok(template) => return Ok(Some(template)),
                Err(given) => given,
            },
        };
        match given {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(Self::One(text))),
            Value::Array(choices) => {
                let text = |choice: &Value, key: &str| choice.get(key).and_then(Value::as_str).map(str::to_owned);
                let named = |choice| Some((text(choice, "name").unwrap_or_default(), text(choice, "template")?));
                Ok(Some(Self::Named(choices.iter().filter_map(named).collect())))
            }
            _ => {
                metadata.note("chat_template of tokenizer_config.json is neither a string nor a list and is dropped");
                Ok(None)
            }
        }
    }

    /// The template of `chat_template.jinja`, or the value in `chat_template.json`.
    fn from_files(files: &dyn SidecarFiles) -> Result<std::result::Result<Self, Value>> {
        if let Some(text) = files.read("chat_template.jinja")? {
            let default = as_text(text, "chat_template.jinja")?;
            let folder = "additional_chat_templates";
            let mut named = vec![("default".to_owned(), default)];
            for file in files.list(folder)? {
                let Some(name) = file.strip_suffix(".jinja") else { continue };
                let path = format!("{folder}/{file}");
                if let Some(text) = files.read(&path)? {
                    named.push((name.to_owned(), as_text(text, &path)?));
                }
            }
            return Ok(Ok(match <[(String, String); 1]>::try_from(named) {
                Ok([(_, template)]) => Self::One(template),
                Err(named) => Self::Named(named),
            }));
        }
        let Some(text) = files.read("chat_template.json")? else { return Ok(Err(Value::Null)) };
        let document: Value =
            json::from_slice(&text).map_err(|error| AnamnesisError::parse(format!("chat_template.json: {error}")))?;
        Ok(Err(document.get("chat_template").cloned().unwrap_or_default()))
    }

    pub(super) fn write(&self, metadata: &mut MetadataBuilder) -> Result<()> {
        let key = "tokenizer.chat_template";
        let named = match self {
            Self::One(text) => {
                metadata.text(key, text);
                return Ok(());
            }
            Self::Named(named) => named,
        };
        let (mut names, mut default) = (Vec::new(), None);
        for (name, template) in named.iter().filter(|(name, _)| !name.is_empty()) {
            let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            if plain == "default" {
                default = Some(template);
                continue;
            }
            metadata.text(format!("{key}.{plain}"), template);
            names.push(plain);
        }
        names.sort_unstable();
        names.dedup();
        metadata.array("tokenizer.chat_templates", MetadataArray::String(names));
        if let Some(default) = default {
            metadata.text(key, default);
        }
        Ok(())
    }
}

/// The text of a file, its lines ended by a newline alone.
fn as_text(bytes: Vec<u8>, name: &str) -> Result<String> {
    let text = String::from_utf8(bytes).map_err(|_| AnamnesisError::parse(format!("{name} is not UTF-8")))?;
    match text.contains('\r') {
        true => Ok(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::sidecars::in_memory::InMemory;

    fn keys_of(files: &InMemory, settings: &str) -> Vec<(String, String)> {
        let mut metadata = MetadataBuilder::default();
        let settings = Settings::read(Some(settings.as_bytes())).unwrap();
        if let Some(template) = ChatTemplate::read(files, &settings, &mut metadata).unwrap() {
            template.write(&mut metadata).unwrap();
        }
        metadata.entries().iter().map(|(key, value)| (key.clone(), format!("{value:?}"))).collect()
    }

    fn text(key: &str, text: &str) -> (String, String) {
        (key.to_owned(), format!("String({text:?})"))
    }

    #[test]
    fn settings_come_before_files_and_null_is_none() {
        let files = InMemory::default().with("chat_template.jinja", "a\r\nb");
        assert_eq!(keys_of(&files, r#"{"chat_template": "x"}"#), [text("tokenizer.chat_template", "x")]);
        assert_eq!(keys_of(&files, r#"{"chat_template": null}"#), []);
        assert_eq!(keys_of(&files, r#"{"a": 1}"#), [text("tokenizer.chat_template", "a\nb")]);
        assert_eq!(keys_of(&files, "{}"), []);
    }

    #[test]
    fn named_templates_have_keys_of_their_own_and_the_default_comes_last() {
        let files = InMemory::default()
            .with("chat_template.jinja", "d")
            .with("additional_chat_templates/tool use.jinja", "t")
            .with("additional_chat_templates/notes.txt", "n");
        let array = ("tokenizer.chat_templates".to_owned(), "Array(String([\"tool_use\"]))".to_owned());
        let wanted = [text("tokenizer.chat_template.tool_use", "t"), array, text("tokenizer.chat_template", "d")];
        assert_eq!(keys_of(&files, r#"{"a": 1}"#), wanted);
    }
}
