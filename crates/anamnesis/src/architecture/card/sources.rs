//! Models and datasets that a model comes from.

use super::counts::TotalSize;
use super::front_matter::Entry;
use super::model_name::{ModelName, titled};
use crate::architecture::metadata_builder::MetadataBuilder;

/// The keys of a source, in the order they are written.
const KEYS: [&str; 9] = ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

/// Writes the number of sources and the keys of each.
pub(super) fn write(kind: &str, listed: Option<Vec<&Entry>>, total: TotalSize, metadata: &mut MetadataBuilder) {
    let Some(listed) = listed else { return };
    metadata.number(format!("general.{kind}.count"), u32::try_from(listed.len()).unwrap_or(u32::MAX));
    for (place, entry) in listed.into_iter().enumerate() {
        let known = known(entry, total);
        for key in KEYS {
            if let Some((_, text)) = known.iter().find(|(name, _)| name == key) {
                metadata.text(format!("general.{kind}.{place}.{key}"), text);
            }
        }
    }
}

fn known(entry: &Entry, total: TotalSize) -> Vec<(String, String)> {
    let id = match entry {
        Entry::Map(entries) => {
            let texts = entries.iter().filter_map(|(key, value)| Some((key.clone(), value.as_text()?.to_owned())));
            return texts.collect();
        }
        entry => entry.as_text().unwrap_or_default(),
    };
    let is_address = ["http://", "https://", "ssh://"].iter().any(|begin| id.starts_with(begin));
    let mut known = Vec::new();
    let named = match is_address {
        true => {
            known.push(("repo_url".to_owned(), id.to_owned()));
            let inside =
                id.strip_prefix("https://huggingface.co/").or_else(|| id.strip_prefix("http://huggingface.co/"));
            inside.filter(|inside| {
                inside
                    .split_once('/')
                    .is_some_and(|(owner, name)| !owner.is_empty() && !name.is_empty() && !name.contains('/'))
            })
        }
        false => Some(id),
    };
    let Some(name) = named.map(|id| ModelName::guess(id, total)) else { return known };
    known.push(("name".to_owned(), titled(&name.full)));
    if let Some(organization) = &name.organization {
        known.push(("organization".to_owned(), titled(organization)));
        if !is_address {
            known.push(("repo_url".to_owned(), format!("https://huggingface.co/{organization}/{}", name.full)));
        }
    }
    known.extend(name.version.map(|version| ("version".to_owned(), version)));
    known
}
