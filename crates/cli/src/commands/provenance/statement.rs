//! The statement: in-toto `Statement/v1` with the predicate `provenance/v1` of SLSA.
//!
//! | member | content |
//! |---|---|
//! | `subject` | the outputs, each with its SHA-256 |
//! | `predicate.buildDefinition.externalParameters` | the command and its arguments |
//! | `predicate.buildDefinition.resolvedDependencies` | the inputs, each with its SHA-256; a remote one has its address only |
//! | `predicate.runDetails.builder` | the program and its version |

use serde_json::{Value, json};

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";
const BUILD_TYPE: &str = "urn:anamnesis:command:v1";
const BUILDER: &str = "urn:anamnesis:amn";

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    /// Its path from the folder of the statement, or its address.
    pub(super) name: String,
    /// Lower-case hexadecimal; `None` if the file was not read as a whole.
    pub(super) sha256: Option<String>,
}

/// A statement about one run of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) subjects: Vec<Resource>,
    pub(super) inputs: Vec<Resource>,
    pub(super) command: String,
    pub(super) arguments: Vec<String>,
}

impl Statement {
    pub(super) fn to_text(&self) -> String {
        let resource = |Resource { name, sha256 }: &Resource, key: &str| match sha256 {
            Some(sha256) => json!({ key: name, "digest": { "sha256": sha256 } }),
            None => json!({ key: name }),
        };
        let document = json!({
            "_type": STATEMENT,
            "subject": self.subjects.iter().map(|output| resource(output, "name")).collect::<Vec<_>>(),
            "predicateType": PREDICATE,
            "predicate": {
                "buildDefinition": {
                    "buildType": BUILD_TYPE,
                    "externalParameters": { "command": self.command, "arguments": self.arguments },
                    "resolvedDependencies": self.inputs.iter().map(|input| match input.sha256 {
                        Some(_) => resource(input, "name"),
                        None => resource(input, "uri"),
                    }).collect::<Vec<_>>(),
                },
                "runDetails": {
                    "builder": { "id": BUILDER, "version": { "amn": env!("CARGO_PKG_VERSION") } },
                },
            },
        });
        format!("{document:#}\n")
    }

    /// Parses a statement of this kind; the error is a reason.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let expect = |pointer: &str, wanted: &str| match document.pointer(pointer).and_then(Value::as_str) {
            Some(found) if found == wanted => Ok(()),
            Some(found) => Err(format!("{pointer} is {found:?}, not {wanted:?}")),
            None => Err(format!("{pointer} is missing")),
        };
        expect("/_type", STATEMENT)?;
        expect("/predicateType", PREDICATE)?;
        let list = |pointer: &str| {
            let items = document.pointer(pointer).and_then(Value::as_array);
            items.ok_or_else(|| format!("{pointer} is not a list"))?.iter().map(resource).collect::<Result<Vec<_>, _>>()
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let parameters = document.pointer("/predicate/buildDefinition/externalParameters");
        let arguments = parameters.and_then(|parameters| parameters.get("arguments")?.as_array());
        let subjects = list("/subject")?;
        if subjects.is_empty() || subjects.iter().any(|subject| subject.sha256.is_none()) {
            return Err("/subject has no file, or one without a SHA-256".to_owned());
        }
        Ok(Self {
            subjects,
            inputs: list("/predicate/buildDefinition/resolvedDependencies")?,
            command: parameters.and_then(|parameters| text(parameters.get("command")?)).unwrap_or_default(),
            arguments: arguments.into_iter().flatten().filter_map(text).collect(),
        })
    }
}

fn resource(value: &Value) -> Result<Resource, String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let name = text("name").or_else(|| text("uri")).ok_or("a file has neither name nor uri")?;
    let sha256 = value.pointer("/digest/sha256").map(|digest| digest.as_str().unwrap_or_default().to_ascii_lowercase());
    let is_digest = |digest: &String| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    match sha256 {
        Some(digest) if !is_digest(&digest) => Err(format!("the SHA-256 of {name:?} is not 64 hexadecimal digits")),
        sha256 => Ok(Resource { name: name.to_owned(), sha256 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Statement {
        let file = |name: &str, digit: &str| Resource { name: name.to_owned(), sha256: Some(digit.repeat(64)) };
        Statement {
            subjects: vec![file("out.gguf", "a")],
            inputs: vec![file("in.gguf", "b"), Resource { name: "https://host/x".to_owned(), sha256: None }],
            command: "convert".to_owned(),
            arguments: vec!["in.gguf".to_owned()],
        }
    }

    #[test]
    fn a_statement_is_read_as_it_was_written() {
        assert_eq!(Statement::parse(&statement().to_text()).unwrap(), statement());
    }

    #[test]
    fn other_documents_are_refused_with_a_reason() {
        let text = statement().to_text();
        for (from, to, why) in [
            (STATEMENT, "https://in-toto.io/Statement/v0.1", "/_type is"),
            (PREDICATE, "https://cyclonedx.org/bom", "/predicateType is"),
            ("\"subject\"", "\"subjects\"", "/subject is not a list"),
            (&*"a".repeat(64), "abc", "64 hexadecimal digits"),
            ("\"name\": \"out.gguf\"", "\"label\": 1", "neither name nor uri"),
            ("{", "[", "not JSON"),
        ] {
            let error = Statement::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let mut empty = statement();
        empty.subjects.clear();
        assert!(Statement::parse(&empty.to_text()).is_err());
    }
}
