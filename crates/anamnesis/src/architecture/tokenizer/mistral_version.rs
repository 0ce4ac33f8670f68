//! The versions of Mistral's vocabularies, and the chat templates that follow from them.

/// The version of a vocabulary, which its chat template follows from.
pub(super) struct Version {
    pub(super) name: Option<String>,
    pub(super) is_tekken: bool,
}

/// The name by which llama.cpp knows the chat template of a version.
pub(super) fn community_template(version: &Version) -> Option<&'static str> {
    match (version.name.as_deref()?, version.is_tekken) {
        ("v1", _) => Some("mistral-v1"),
        ("v3", false) => Some("mistral-v3"),
        ("v3", true) => Some("mistral-v3-tekken"),
        ("v7", false) => Some("mistral-v7"),
        ("v7", true) => Some("mistral-v7-tekken"),
        _ => None,
    }
}
