//! Finding models in an Ollama store. One test, because the store is named by a variable of the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use support::gguf as builder;

use anamnesis::{AnamnesisError, Checkpoint, ParseLimits, resolve_ollama_model, verify};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The digest of a file as its name has it.
fn digits(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn manifest(digest: &str) -> String {
    let layers = json!([
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:00"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": digest},
    ]);
    json!({"schemaVersion": 2, "layers": layers}).to_string()
}

fn kind(spec: &str) -> Option<ErrorKind> {
    match resolve_ollama_model(spec) {
        Err(AnamnesisError::Io(error)) => Some(error.kind()),
        _ => None,
    }
}

#[test]
fn models_are_found_and_broken_stores_are_refused() {
    let store = tempfile::tempdir().unwrap();
    // SAFETY: this is the only test of its process, and no other thread reads or writes the environment.
    unsafe { std::env::set_var("OLLAMA_MODELS", store.path()) };
    let manifests = store.path().join("manifests");
    let library = manifests.join("registry.ollama.ai").join("library");
    let content = builder::Gguf::default().tensor("x", &[4], 0, 0).data(16).bytes();
    let digits = digits(&content);
    let blob = store.path().join("blobs").join(format!("sha256-{digits}"));
    let good = manifest(&format!("sha256:{digits}"));

    // The model is there, its blob is not.
    write(&library.join("tiny").join("latest"), &good);
    assert_eq!(kind("tiny"), Some(ErrorKind::NotFound));
    write(&blob, &content);
    write(&manifests.join("registry.ollama.ai/user/own/v1"), &good);
    write(&manifests.join("hf.co/org/model/Q4_K_M"), &good);
    for spec in ["tiny", "ollama:tiny", "tiny:latest", "ollama:library/tiny", "user/own:v1", "hf.co/org/model:Q4_K_M"] {
        assert_eq!(resolve_ollama_model(spec).unwrap(), blob, "{spec}");
    }
    for spec in ["ollama:tiny", "ollama:user/own:v1", "ollama:hf.co/org/model:Q4_K_M"] {
        let checkpoint = Checkpoint::open(spec, &ParseLimits::default()).unwrap();
        assert_eq!((checkpoint.tensor_count(), checkpoint.directory()), (1, None), "{spec}");
        assert!(verify(spec).unwrap().is_sound(), "{spec}");
    }
    // A bit that is no part of any header.
    let mut damaged = content.clone();
    *damaged.last_mut().unwrap() ^= 1;
    write(&blob, &damaged);
    for path in [Path::new("ollama:tiny"), &blob] {
        let problems = verify(path).unwrap().problems;
        assert!(matches!(&problems[..], [one] if one.contains("is damaged") && one.contains(&digits)), "{problems:?}");
    }
    write(&blob, &content);
    // Without the scheme it is a path, and there is none.
    assert!(Checkpoint::open("tiny", &ParseLimits::default()).is_err());
    assert!(!verify("ollama:absent").unwrap().is_sound());

    let missing = resolve_ollama_model("absent:7b").unwrap_err();
    assert!(missing.to_string().contains("ollama pull absent:7b"), "{missing}");
    assert_eq!(kind("absent:7b"), Some(ErrorKind::NotFound));
    for spec in ["", "ollama:", ":x", "x:", "../tiny", "user/../tiny", "tiny:../latest"] {
        assert!(matches!(resolve_ollama_model(spec), Err(AnamnesisError::Parse { .. })), "{spec}");
    }

    for (case, text) in [
        ("not JSON", "{".to_owned()),
        ("no layers", "{}".to_owned()),
        ("no model layer", json!({"layers": [{"mediaType": "x", "digest": "sha256:00"}]}).to_string()),
        ("no digest", json!({"layers": [{"mediaType": "application/vnd.ollama.image.model"}]}).to_string()),
        ("a path", manifest("sha256:../../etc/passwd")),
        ("no digits", manifest("sha256:")),
        ("another hash", manifest("sha512:00")),
    ] {
        write(&library.join("broken").join("latest"), text);
        assert!(matches!(resolve_ollama_model("broken"), Err(AnamnesisError::Parse { .. })), "{case}");
    }
    write(&library.join("broken").join("latest"), vec![b' '; (1 << 20) + 1]);
    let error = resolve_ollama_model("broken").unwrap_err();
    assert!(matches!(error, AnamnesisError::LimitExceeded { limit: "OLLAMA_MAX_MANIFEST_BYTES", .. }), "{error}");
}
