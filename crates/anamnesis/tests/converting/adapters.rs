//! LoRA adapters become the files that llama.cpp's converter writes, byte for byte, and unfit ones are refused by name.

use std::path::Path;

use anamnesis::{BlockType, Checkpoint, ConvertOptions, ConvertTarget, Dtype, ParseLimits};
use serde_json::{Value, json};

use crate::support::{Contents, Folder, Model, assert_mentions, fixture};

/// The cases: a directory, a type, and the output of the converter.
fn cases() -> Vec<(String, Dtype)> {
    let entries = std::fs::read_dir(fixture("adapters")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let cases = names.filter_map(|name| {
        let (case, dtype) = name.strip_suffix(".expected.gguf")?.split_once('.')?;
        let dtype = match dtype {
            "f16" => Dtype::F16,
            "bf16" => Dtype::BF16,
            "q8_0" => Dtype::Block(BlockType::Q8_0),
            _ => Dtype::F32,
        };
        Some((case.to_owned(), dtype))
    });
    let mut cases: Vec<_> = cases.collect();
    cases.sort_by_key(|(case, dtype)| (case.clone(), dtype.to_string()));
    assert!(cases.len() >= 6, "{cases:?}");
    cases
}

fn convert(directory: &Path, options: &ConvertOptions) -> anamnesis::Result<Vec<u8>> {
    let checkpoint = Checkpoint::open(directory, &ParseLimits::default())?;
    Ok(checkpoint.plan_convert(ConvertTarget::Gguf, options)?.to_bytes(|_| {})?.0)
}

#[test]
fn every_file_is_that_of_the_converter() {
    for (case, dtype) in cases() {
        let directory = fixture("adapters").join(&case);
        let options = ConvertOptions::new().with_base(directory.join("base")).with_output_dtype(dtype);
        let made = convert(&directory.join("adapter"), &options).unwrap();
        let name = format!("{case}.{}.expected.gguf", dtype.to_string().to_lowercase());
        let wanted = std::fs::read(fixture("adapters").join(name)).unwrap();
        assert!(made == wanted, "{case} {dtype}");
    }
}

#[test]
fn factors_stay_f32_by_default() {
    let directory = fixture("adapters/llama");
    let made = convert(&directory.join("adapter"), &ConvertOptions::new().with_base(directory.join("base"))).unwrap();
    assert!(made == std::fs::read(fixture("adapters/llama.f32.expected.gguf")).unwrap());
}

/// The adapter of the case llama with changes, and the error of its conversion.
fn refused(change: impl Fn(&mut Contents), described: impl Fn(&mut Value), base: impl Fn(&mut Value)) -> String {
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(fixture("adapters/llama").join(name)).unwrap()).unwrap()
    };
    let mut contents = Contents::read(fixture("adapters/llama/adapter/adapter_model.safetensors"));
    change(&mut contents);
    let (mut description, mut config) = (read("adapter/adapter_config.json"), read("base/config.json"));
    described(&mut description);
    base(&mut config);
    let folder = Folder::new();
    let add = |model: Model, (name, tensor): (&String, &crate::support::Tensor)| {
        model.tensor(name, &tensor.dtype, &tensor.shape, &tensor.data)
    };
    folder.write("adapter_model.safetensors", contents.tensors.iter().fold(Model::new(), add).bytes());
    folder.write("adapter_config.json", description.to_string());
    let of_base = Folder::new();
    of_base.write("config.json", config.to_string());
    let options = ConvertOptions::new().with_base(of_base.path(""));
    convert(&folder.path(""), &options).unwrap_err().to_string()
}

const Q: &str = "base_model.model.model.layers.0.self_attn.q_proj";

#[test]
fn pairs_that_do_not_fit_are_refused_by_name() {
    let lone = refused(|all| drop(all.tensors.remove(&format!("{Q}.lora_B.weight"))), |_| {}, |_| {});
    assert_mentions(&lone, &[&format!("{Q}.lora_A.weight"), "second (B)"]);
    let lone = refused(|all| drop(all.tensors.remove(&format!("{Q}.lora_A.weight"))), |_| {}, |_| {});
    assert_mentions(&lone, &[&format!("{Q}.lora_B.weight"), "first (A)"]);
    let rank = refused(|_| {}, |described| described["r"] = json!(8), |_| {});
    assert_mentions(&rank, &["rank is 4", "8 by adapter_config.json", "lora_A"]);
    let other = |all: &mut Contents| {
        let tensor = all.tensors.get_mut(&format!("{Q}.lora_B.weight")).unwrap();
        tensor.shape = vec![64, 2];
    };
    assert_mentions(&refused(other, |_| {}, |_| {}), &["rank is 4", "is 2", "lora_B"]);
    let whole = |all: &mut Contents| {
        let tensor = all.tensors.remove(&format!("{Q}.lora_A.weight")).unwrap();
        all.tensors.insert("base_model.model.lm_head.weight".to_owned(), tensor);
    };
    assert_mentions(&refused(whole, |_| {}, |_| {}), &["base_model.model.lm_head.weight", "no factor"]);
}

#[test]
fn adapters_of_another_base_are_refused_by_name() {
    for (key, value, word) in [
        ("hidden_size", json!(64), "hidden_size"),
        ("num_key_value_heads", json!(4), "num_key_value_heads"),
        ("num_hidden_layers", json!(1), "num_hidden_layers"),
        ("intermediate_size", json!(1 << 30), "intermediate_size"),
        ("num_attention_heads", json!(0), "num_attention_heads"),
        ("architectures", json!(["FalconForCausalLM"]), "mlp.down_proj.weight"),
        ("architectures", json!(["NoSuchForCausalLM"]), "NoSuchForCausalLM"),
        ("architectures", json!(null), "architectures"),
    ] {
        let error = refused(|_| {}, |_| {}, |base| base[key] = value.clone());
        assert_mentions(&error, &[word]);
    }
}

#[test]
fn an_adapter_without_its_base_is_refused_and_a_model_has_none() {
    let directory = fixture("adapters/llama");
    let error = convert(&directory.join("adapter"), &ConvertOptions::new()).unwrap_err().to_string();
    assert_mentions(&error, &["base model", "example/llama"]);
    let empty = Folder::new();
    let options = ConvertOptions::new().with_base(empty.path(""));
    let error = convert(&directory.join("adapter"), &options).unwrap_err().to_string();
    assert_mentions(&error, &["config.json"]);
    let error = convert(&fixture("architectures/mistral"), &options).unwrap_err().to_string();
    assert_mentions(&error, &["a base", "adapter"]);
}

#[test]
fn a_base_that_stores_weights_transposed_may_have_pairs_in_either_order() {
    // PEFT's factors of a transposed layer are those of the transposed weight.
    let directory = fixture("adapters/gpt2");
    let contents = Contents::read(directory.join("adapter/adapter_model.safetensors"));
    let model = contents.tensors.iter().fold(Model::new(), |model, (name, tensor)| {
        let [rows, cols] = tensor.shape[..] else { panic!("{name}") };
        let values = contents.floats(name);
        let swapped: Vec<f32> =
            (0..cols).flat_map(|col| (0..rows).map(move |row| row * cols + col)).map(|at| values[at]).collect();
        let other =
            if name.contains("lora_A") { name.replace("lora_A", "lora_B") } else { name.replace("lora_B", "lora_A") };
        model.floats(&other, &[cols, rows], &swapped)
    });
    let folder = Folder::new();
    folder.write("adapter_model.safetensors", model.bytes());
    let text = std::fs::read_to_string(directory.join("adapter/adapter_config.json")).unwrap();
    let mut described: Value = serde_json::from_str(&text).unwrap();
    described["fan_in_fan_out"] = json!(true);
    folder.write("adapter_config.json", described.to_string());
    folder.write("README.md", std::fs::read(directory.join("adapter/README.md")).unwrap());
    let made = convert(&folder.path(""), &ConvertOptions::new().with_base(directory.join("base"))).unwrap();
    let open = |bytes| Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap();
    let (made, wanted) = (open(made), open(std::fs::read(fixture("adapters/gpt2.f32.expected.gguf")).unwrap()));
    let wanted_names: Vec<String> = wanted.tensors().into_iter().map(|tensor| tensor.name.to_owned()).collect();
    assert_eq!(made.tensors().len(), wanted_names.len());
    for name in wanted_names {
        assert_eq!(made.tensor_data(&name).unwrap().unwrap(), wanted.tensor_data(&name).unwrap().unwrap(), "{name}");
    }
}
