//! The towers of multimodal models, and adapters.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::folder::Folder;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../anamnesis/tests/fixtures").join(name)
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

/// The header and the data of a safetensors file.
fn parts(name: &str) -> (Map<String, Value>, Vec<u8>) {
    let bytes = fs::read(fixture(name)).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[8..8 + length]).unwrap(), bytes[8 + length..].to_vec())
}

/// A Llava model: the language model of one fixture and the tower of another.
pub fn multimodal() -> Folder {
    let folder = Folder::empty();
    fs::create_dir(folder.path("model")).unwrap();
    let mut header = Map::new();
    let mut data = Vec::new();
    for (name, prefix) in [("architectures/llama3", "language_model."), ("projectors/mistral3", "")] {
        let (tensors, bytes) = parts(&format!("{name}/model.safetensors"));
        let is_of_mistral = |tensor: &str| tensor.contains("patch_merger") || tensor.ends_with("projector.norm.weight");
        for (tensor, mut entry) in tensors {
            if tensor == "__metadata__" || is_of_mistral(&tensor) {
                continue;
            }
            let offsets: [usize; 2] = serde_json::from_value(entry["data_offsets"].clone()).unwrap();
            entry["data_offsets"] = json!([data.len(), data.len() + offsets[1] - offsets[0]]);
            data.extend_from_slice(&bytes[offsets[0]..offsets[1]]);
            header.insert(format!("{prefix}{tensor}"), entry);
        }
    }
    let header = Value::Object(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    fs::write(folder.path("model/model.safetensors"), file).unwrap();
    let (text, tower) = (read("architectures/llama3/config.json"), read("projectors/mistral3/config.json"));
    let config = json!({
        "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "text_config": text,
        "vision_config": tower["vision_config"], "multimodal_projector_bias": false
    });
    fs::write(folder.path("model/config.json"), config.to_string()).unwrap();
    for (from, name) in [
        ("projectors/mistral3", "preprocessor_config.json"),
        ("architectures/llama3", "tokenizer.json"),
        ("architectures/llama3", "tokenizer_config.json"),
    ] {
        fs::copy(fixture(from).join(name), folder.path("model").join(name)).unwrap();
    }
    folder
}

const PRE: &str = "--gguf-kv tokenizer.ggml.pre=gpt-2";

#[test]
fn one_run_writes_the_language_model_and_the_towers() {
    let folder = multimodal();
    let text = folder.amn(&format!("convert model --to gguf -o model.gguf {PRE} --with-mmproj")).ok();
    assert!(text.contains("-> model.gguf") && text.contains("-> mmproj-model.gguf"), "{text}");
    folder.amn("convert model --to gguf -o alone.gguf --mmproj").ok();
    assert_eq!(fs::read(folder.path("mmproj-model.gguf")).unwrap(), fs::read(folder.path("alone.gguf")).unwrap());
    folder.amn(&format!("convert model --to gguf -o text.gguf {PRE}")).ok();
    assert_eq!(fs::read(folder.path("model.gguf")).unwrap(), fs::read(folder.path("text.gguf")).unwrap());
    let document = folder.amn(&format!("--json convert model --to gguf -o a.gguf {PRE} --with-mmproj")).json();
    assert_eq!(document["projector"]["output"], json!("mmproj-a.gguf"));
    assert!(folder.amn("inspect mmproj-model.gguf").ok().contains("clip"));
}

#[test]
fn nothing_is_written_if_one_of_the_two_cannot_be() {
    let folder = multimodal();
    fs::write(folder.path("mmproj-model.gguf"), "kept").unwrap();
    let line = format!("convert model --to gguf -o model.gguf {PRE} --with-mmproj");
    assert!(folder.amn(&line).failed().contains("mmproj-model.gguf"));
    assert!(!folder.path("model.gguf").exists());
    let error = folder.amn(&format!("convert model --to gguf -o - {PRE} --with-mmproj")).refused();
    assert!(error.contains("two files"), "{error}");
    fs::copy(fixture("architectures/llama3/config.json"), folder.path("model/config.json")).unwrap();
    let error = folder.amn("convert model --to gguf -o b.gguf --mmproj").failed();
    assert!(error.contains("LlamaForCausalLM") && !error.contains("--keep-names"), "{error}");
    assert!(!folder.path("b.gguf").exists());
}

#[test]
fn an_adapter_without_its_base_is_refused_with_advice() {
    let folder = Folder::empty();
    let adapter = fixture("adapters/llama/adapter");
    let (adapter, base) = (adapter.display(), fixture("adapters/llama/base"));
    let error = folder.amn(&format!("convert {adapter} --to gguf -o a.gguf")).failed();
    assert!(error.contains("example/llama") && error.contains("--base DIR"), "{error}");
    folder.amn(&format!("convert {adapter} --base {} --to gguf -o a.gguf", base.display())).ok();
    assert_eq!(
        fs::read(folder.path("a.gguf")).unwrap(),
        fs::read(fixture("adapters/llama.f32.expected.gguf")).unwrap()
    );
}
