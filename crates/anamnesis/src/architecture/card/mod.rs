//! The `general.*` keys: names, authors and sources of a model, from its card, its configuration and its directory.

mod counts;
mod front_matter;
mod model_name;
mod sampling;
mod sources;

pub(crate) use counts::Counts;

use serde_json::{Map, Value};

use self::front_matter::{Card, Entry};
use self::model_name::{ModelName, titled};
use super::metadata_builder::MetadataBuilder;
use super::sidecars::SidecarFiles;
use crate::catalog::MetadataArray;
use crate::error::Result;

/// The kind of a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileType {
    Model,
    Adapter,
    Projector,
}

impl FileType {
    fn write(self, metadata: &mut MetadataBuilder) {
        match self {
            Self::Model => metadata.text("general.type", "model"),
            Self::Projector => metadata.text("general.type", "mmproj"),
            Self::Adapter => {
                metadata.text("general.type", "adapter");
                metadata.text("adapter.type", "lora");
            }
        }
    }
}

/// The `general.*` keys in the order they are written, from `general.type` to `general.languages`. The architecture, the type
/// of the file and the version of quantisation are not among them.
pub(crate) fn general(
    files: &dyn SidecarFiles,
    config: &Map<String, Value>,
    counts: &Counts,
    kind: FileType,
) -> Result<MetadataBuilder> {
    let mut metadata = MetadataBuilder::default();
    kind.write(&mut metadata);
    sampling::write(files.read("generation_config.json")?.as_deref(), &mut metadata);
    let card = Card::read(files.read("README.md")?.as_deref());
    let directory = files.directory_name();
    let path = config.get("_name_or_path").and_then(Value::as_str);
    // More than an owner and a name is a path on a disk.
    let path = path.filter(|path| path.matches('/').count() <= 1);
    let guesses: Vec<ModelName> =
        [path, directory.as_deref()].into_iter().flatten().map(|id| ModelName::guess(id, counts.size())).collect();
    let guessed = |part: fn(&ModelName) -> Option<String>| guesses.iter().find_map(part);
    let name = card.text(&["name", "model_name"]).or_else(|| guessed(|name| Some(titled(&name.full))));
    metadata.text("general.name", name.or(directory).unwrap_or_default());
    let mut one = |key: &str, names: &[&str], otherwise: Option<String>| {
        if let Some(text) = card.text(names).or(otherwise) {
            metadata.text(format!("general.{key}"), text);
        }
    };
    one("author", &["author", "model_author", "model_creator"], None);
    one("version", &["version", "model_version"], guessed(|name| name.version.clone()));
    let organization = guessed(|name| name.organization.as_deref().map(titled));
    one("organization", &["organization", "model_organization"], organization);
    one("finetune", &["finetune", "model_finetune"], guessed(|name| name.finetune.clone()));
    one("basename", &["basename", "model_basename", "model_type"], guessed(|name| name.basename.clone()));
    one("description", &["description", "model_description"], None);
    let count_fn = (counts.size().exact() > 0).then(|| counts.label());
    one("size_label", &["size_label", "model_size_label"], guessed(|name| name.size_label.clone()).or(count_fn));
    if let Some(license) = card.list("license").filter(|list| !list.is_empty()) {
        metadata.text("general.license", license.join(","));
    }
    for (key, names) in [
        ("license.name", &["license_name"][..]),
        ("license.link", &["license_link"]),
        ("source.url", &["url", "model_url"]),
        ("source.doi", &["doi", "model_doi"]),
        ("source.uuid", &["uuid", "model_uuid"]),
        ("source.repo_url", &["repo_url", "model_repo_url"]),
    ] {
        if let Some(text) = card.text(names) {
            metadata.text(format!("general.{key}"), text);
        }
    }
    let listed = |names: &[&str]| names.iter().find_map(|name| card.get(name)).map(Entry::items);
    let models = listed(&["base_model", "base_models", "base_model_sources"]);
    sources::write("base_model", models, counts.size(), &mut metadata);
    sources::write("dataset", listed(&["datasets", "dataset", "dataset_sources"]), counts.size(), &mut metadata);
    for (key, names) in [("tags", ["tags", "pipeline_tag"]), ("languages", ["languages", "language"])] {
        let texts = names.iter().filter_map(|name| card.list(name)).flatten().collect();
        metadata.array(format!("general.{key}"), MetadataArray::String(texts));
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::sidecars::in_memory::InMemory;
    use crate::catalog::MetadataValue;

    #[test]
    fn the_card_comes_before_the_configuration_and_that_before_the_directory() {
        let config = serde_json::json!({"_name_or_path": "org/other-7B-v2"});
        let named = |files: InMemory, config: &Value| {
            let metadata =
                general(&files.named("tiny-1K-chat"), config.as_object().unwrap(), &Counts::default(), FileType::Model)
                    .unwrap();
            let name = metadata.entries().iter().find(|(key, _)| key == "general.name").unwrap();
            name.1.as_string().unwrap().to_owned()
        };
        let card = InMemory::default().with("README.md", "---\nmodel_name: Carded\n---\n");
        assert_eq!(named(card, &config), "Carded");
        assert_eq!(named(InMemory::default(), &config), "Other 7B v2");
        assert_eq!(named(InMemory::default(), &serde_json::json!({"_name_or_path": "/a/b/c"})), "Tiny 1K Chat");
    }

    #[test]
    fn sampling_that_is_no_number_is_left_out_and_said() {
        let files =
            InMemory::default().with("generation_config.json", r#"{"top_k": 1.5, "temperature": 1, "top_p": null}"#);
        let metadata = general(&files, &Map::new(), &Counts::default(), FileType::Model).unwrap();
        let temperature = ("general.sampling.temp".to_owned(), MetadataValue::F32(1.0));
        assert!(metadata.entries().contains(&temperature) && metadata.notes.len() == 1, "{metadata:?}");
        assert!(metadata.entries().iter().all(|(key, _)| !key.contains("top_")));
    }
}
