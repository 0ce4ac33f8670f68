//! A model is converted if its tensors are those that its configuration implies, and refused by name otherwise.

use std::path::Path;

use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, GgufMetadataValue, ParseLimits,
    Selection, verify,
};
use serde_json::{Value, json};

use crate::support::{Contents, Folder, Model, Tensor, fixture};

fn cases() -> Vec<String> {
    let entries = std::fs::read_dir(fixture("architectures")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".expected.gguf")?.to_owned())).collect();
    cases.sort();
    cases
}

fn config(case: &str) -> Value {
    let path = fixture("architectures").join(case).join("config.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A directory of a case with other tensors and another configuration.
fn staged<'a>(case: &str, tensors: impl Iterator<Item = (&'a String, &'a Tensor)>, config: &Value) -> Folder {
    let add = |model: Model, (name, tensor): (&'a String, &'a Tensor)| {
        model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data)
    };
    let folder = Folder::staged(&tensors.fold(Model::new(), add).bytes(), Some(config));
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        folder.write(name, std::fs::read(fixture("architectures").join(case).join(name)).unwrap());
    }
    folder
}

fn to_gguf(path: &Path) -> Result<(), AnamnesisError> {
    Checkpoint::open(path, &ParseLimits::default())?.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).map(drop)
}

fn to_hf(bytes: Vec<u8>) -> Result<(), AnamnesisError> {
    let checkpoint = Checkpoint::from_bytes(bytes, &ParseLimits::default())?;
    let options = (ConvertOptions::new(), DirectoryOptions::new());
    checkpoint.plan_convert_directory(ConvertTarget::Hf, &options.0, &options.1).map(drop)
}

/// The GGUF file of a case, rewritten with these options.
fn edited(case: &str, options: &ConvertOptions) -> Vec<u8> {
    let path = fixture("architectures").join(format!("{case}.expected.gguf"));
    let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
    checkpoint.plan_convert(ConvertTarget::Gguf, options).unwrap().to_bytes(|_| {}).unwrap().0
}

/// The name of the weight that a companion belongs to.
fn weight_of(name: &str) -> String {
    let ends = ["_blocks", "_scales", "_scale_inv", "_scale_2", "_scale", ".input"];
    ends.iter().fold(name.to_owned(), |name, end| name.strip_suffix(end).unwrap_or(&name).to_owned())
}

#[test]
fn a_checkpoint_without_one_of_its_tensors_is_refused_by_name() {
    for case in cases() {
        let contents = Contents::read(fixture("architectures").join(&case).join("model.safetensors"));
        for name in contents.tensors.keys().filter(|name| !name.ends_with(".input_scale")) {
            let folder = staged(&case, contents.tensors.iter().filter(|(other, _)| *other != name), &config(&case));
            let refused = to_gguf(&folder.path("")).expect_err(&format!("{case} without {name}")).to_string();
            assert!(refused.contains(&weight_of(name)), "{case} without {name}: {refused}");
            let report = verify(folder.path("")).unwrap();
            assert!(!report.is_sound(), "{case} without {name}: {report:?}");
        }
    }
}

#[test]
fn a_gguf_file_without_one_of_its_tensors_is_refused_by_name() {
    // Without a head, llama.cpp uses the embedding; without factors, RoPE is not scaled.
    let is_optional = |case: &str, name: &str| match name {
        "output.weight" => !["gpt_oss", "olmo", "qwen2_moe"].iter().any(|start| case.starts_with(start)),
        "rope_freqs.weight" => true,
        // These are optional in Falcon H1, which has one layer here.
        "blk.0.ssm_conv1d.bias" | "blk.0.ssm_norm.weight" => case.starts_with("falcon_h1"),
        name => name.ends_with("scale"),
    };
    for case in cases() {
        let path = fixture("architectures").join(format!("{case}.expected.gguf"));
        let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
        for name in
            checkpoint.tensors().iter().map(|tensor| tensor.name.to_owned()).filter(|name| !is_optional(&case, name))
        {
            let options = ConvertOptions::new().with_selection(Selection::new().with_exclude(&name).unwrap());
            let bytes = edited(&case, &options);
            let refused = to_hf(bytes.clone()).expect_err(&format!("{case} without {name}")).to_string();
            assert!(refused.contains(&name), "{case} without {name}: {refused}");
            let folder = Folder::new();
            folder.write("model.gguf", bytes);
            assert!(!verify(folder.path("model.gguf")).unwrap().is_sound(), "{case} without {name}");
        }
        to_hf(edited(&case, &ConvertOptions::new())).unwrap_or_else(|error| panic!("{case}: {error}"));
    }
}

#[test]
fn whole_models_are_sound() {
    for case in cases() {
        for name in [case.clone(), format!("{case}.expected.gguf")] {
            let report = verify(fixture("architectures").join(&name)).unwrap();
            assert!(report.is_sound(), "{name}: {:?}", report.problems);
        }
    }
}

#[test]
fn a_tensor_of_another_shape_is_refused_with_both_shapes() {
    for case in cases().into_iter().filter(|case| !case.ends_with("fp8") && !case.ends_with("fp4")) {
        let contents = Contents::read(fixture("architectures").join(&case).join("model.safetensors"));
        let is_oblong = |tensor: &Tensor| matches!(tensor.shape[..], [rows, cols] if rows != cols);
        for (name, tensor) in contents.tensors.iter().filter(|(_, tensor)| is_oblong(tensor)) {
            let turned = Tensor { shape: tensor.shape.iter().rev().copied().collect(), ..tensor.clone() };
            let others = contents.tensors.iter().filter(|(other, _)| *other != name);
            let folder = staged(&case, others.chain([(name, &turned)]), &config(&case));
            let refused = to_gguf(&folder.path("")).expect_err(&format!("{case}: {name} turned")).to_string();
            assert!(refused.contains(name.as_str()), "{case}: {name} turned: {refused}");
        }
    }
}

#[test]
fn a_number_of_layers_that_is_not_that_of_the_tensors_is_refused() {
    for (case, key) in [("llama3", "llama.block_count"), ("mamba_f32", "mamba.block_count")] {
        for layers in [0, 1, 3, u32::MAX] {
            let metadata = [(key.to_owned(), GgufMetadataValue::U32(layers))].into();
            let refused =
                to_hf(edited(case, &ConvertOptions::new().with_gguf_metadata(metadata))).unwrap_err().to_string();
            let wanted = format!("there are tensors of 2 layers, {layers} are needed by \"{key}\"");
            assert!(refused.contains(&wanted), "{refused}");
        }
    }
}

#[test]
fn a_configuration_without_a_number_of_layers_is_refused_by_the_usual_key() {
    // The class has no default number.
    let contents = Contents::read(fixture("architectures/mamba_f32/model.safetensors"));
    let mut config = config("mamba_f32");
    config.as_object_mut().unwrap().remove("num_hidden_layers");
    let refused = to_gguf(&staged("mamba_f32", contents.tensors.iter(), &config).path("")).unwrap_err().to_string();
    assert!(refused.contains("config.json has no \"num_hidden_layers\""), "{refused}");
}

#[test]
fn keys_without_a_configuration_member_and_missing_keys_are_refused() {
    let with = |case: &str, key: &str, value: GgufMetadataValue| {
        let options = ConvertOptions::new().with_gguf_metadata([(key.to_owned(), value)].into());
        to_hf(edited(case, &options)).err().map(|error| error.to_string())
    };
    let refused = with("llama3", "llama.pooling_type", GgufMetadataValue::U32(4)).unwrap();
    assert!(refused.contains("\"llama.pooling_type\" is 4"), "{refused}");
    let refused =
        with("llama3", "llama.attention.layer_norm_rms_epsilon", GgufMetadataValue::String("a".to_owned())).unwrap();
    assert!(refused.contains("\"llama.attention.layer_norm_rms_epsilon\" is \"a\", a number is needed"), "{refused}");
    assert_eq!(with("llama3", "general.name", GgufMetadataValue::String("a".to_owned())), None);
    let options = ConvertOptions::new().with_gguf_removed("llama.attention.layer_norm_rms_epsilon");
    let refused = to_hf(edited("llama3", &options)).unwrap_err().to_string();
    assert!(refused.contains("the file has no \"llama.attention.layer_norm_rms_epsilon\""), "{refused}");
}

#[test]
fn biases_that_the_configuration_excludes_are_refused() {
    let contents = Contents::read(fixture("architectures/granite/model.safetensors"));
    let mut changed = config("granite");
    changed["mlp_bias"] = json!(false);
    let refused = to_gguf(&staged("granite", contents.tensors.iter(), &changed).path("")).unwrap_err().to_string();
    assert!(refused.contains("model.layers.0.mlp.gate_proj.bias") && refused.contains("one too many"), "{refused}");
}

#[test]
fn unused_buffers_of_a_checkpoint_are_dropped() {
    let contents = Contents::read(fixture("architectures/llama3/model.safetensors"));
    let further = Tensor { dtype: "F32".to_owned(), shape: vec![4], data: vec![0; 16] };
    let name = "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned();
    let folder = staged("llama3", contents.tensors.iter().chain([(&name, &further)]), &config("llama3"));
    to_gguf(&folder.path("")).unwrap();
}

#[test]
fn rerankers_need_tokens_of_their_answers() {
    let contents = Contents::read(fixture("architectures/qwen3_fp8/model.safetensors"));
    let folder = staged("qwen3_fp8", contents.tensors.iter(), &config("qwen3_fp8"));
    to_gguf(&folder.path("")).unwrap();
    folder.write("README.md", "---\nlicense: mit\n---\n# Qwen3-Reranker-0.6B\n");
    let refused = to_gguf(&folder.path("")).unwrap_err().to_string();
    assert!(refused.contains("no token \"yes\""), "{refused}");
}

#[test]
fn normalizers_that_gguf_cannot_store_are_refused_by_name() {
    let contents = Contents::read(fixture("architectures/llama3/model.safetensors"));
    let text = std::fs::read(fixture("architectures/llama3/tokenizer.json")).unwrap();
    let normalised = |normalizer: Value| {
        let folder = staged("llama3", contents.tensors.iter(), &config("llama3"));
        let mut document: Value = serde_json::from_slice(&text).unwrap();
        document["normalizer"] = normalizer;
        folder.write("tokenizer.json", document.to_string());
        to_gguf(&folder.path("")).err().map(|error| error.to_string())
    };
    assert_eq!(normalised(Value::Null), None);
    assert_eq!(normalised(json!({"type": "NFC"})), None);
    let replace = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "b"});
    for (kind, normalizer) in [
        ("Lowercase", json!({"type": "Lowercase"})),
        ("NFKC", json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKC"}]})),
        ("Replace", replace.clone()),
        ("StripAccents", json!({"type": "StripAccents"})),
    ] {
        let refused = normalised(normalizer).expect(kind);
        assert!(refused.contains(&format!("normalizer \"{kind}\"")), "{refused}");
    }
    // Ten of these would exhaust memory.
    let long = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(1000)});
    let refused = normalised(json!({"type": "Sequence", "normalizers": vec![long; 10]})).unwrap();
    assert!(refused.contains("normalizer \"Replace\""), "{refused}");
}
