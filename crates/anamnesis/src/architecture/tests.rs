//! A new architecture is a file of data and a line in a list: the toy one is converted both ways by them alone.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::catalog::MetadataValue;
use crate::{Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, Dtype, ParseLimits};

/// The tokens of the vocabulary that the toy borrows.
const TOKENS: usize = 260;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Small numbers that differ between tensors.
fn tensor(first: u16, shape: &[usize]) -> (Vec<usize>, Vec<f32>) {
    (shape.to_vec(), (0u16..).map(|at| f32::from(first + at)).take(shape.iter().product()).collect())
}

/// A checkpoint of a model of width 2 with one layer of two experts.
fn checkpoint() -> Tensors {
    Tensors::from(
        [
            ("toy.embedding.weight", tensor(1000, &[TOKENS, 2])),
            ("toy.norm.weight", tensor(10, &[2])),
            ("toy.blocks.0.mix.weight", tensor(20, &[2, 2])),
            ("toy.blocks.0.gate_up.weight", tensor(30, &[6, 2])),
            ("toy.blocks.0.experts.0.weight", tensor(50, &[2, 3])),
            ("toy.blocks.0.experts.1.weight", tensor(60, &[2, 3])),
        ]
        .map(|(name, tensor)| (name.to_owned(), tensor)),
    )
}

fn write_directory(directory: &Path, tensors: &Tensors) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (shape, values)) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(directory.join("model.safetensors"), file).unwrap();
    let config = json!({
        "architectures": ["ToyForCausalLM"], "model_type": "toy", "vocab_size": TOKENS, "hidden_size": 2,
        "intermediate_size": 3, "num_hidden_layers": 1, "num_attention_heads": 1, "num_experts": 2,
    });
    std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
    let vocabulary = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/architectures/llama3");
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(vocabulary.join(name), directory.join(name)).unwrap();
    }
}

fn read(checkpoint: &Checkpoint) -> Tensors {
    let values = |name: &str| {
        let bytes = checkpoint.tensor_data(name).unwrap().unwrap();
        bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let tensors = checkpoint.catalog.iter().map(|(_, tensor)| tensor);
    tensors.map(|tensor| (tensor.name.to_string(), (tensor.shape.clone(), values(&tensor.name)))).collect()
}

#[test]
fn an_architecture_of_one_file_and_one_line_is_converted_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    let limits = ParseLimits::default();
    write_directory(directory.path(), &checkpoint());
    let options = ConvertOptions::new().with_output_dtype(Dtype::F32);
    let source = Checkpoint::open(directory.path(), &limits).unwrap();
    let plan = source.plan_convert(ConvertTarget::Gguf, &options).unwrap();
    assert_eq!(plan.architecture().map(super::Architecture::name), Some("toy"));
    let file = Checkpoint::from_bytes(plan.to_bytes(|_| {}).unwrap().0, &limits).unwrap();

    let wanted = [
        ("token_embd.weight", checkpoint()["toy.embedding.weight"].clone()),
        ("output_norm.weight", (vec![2], vec![11.0, 12.0])),
        ("blk.0.attn_output.weight", (vec![2, 2], vec![20.0, 22.0, 21.0, 23.0])),
        ("blk.0.ffn_gate.weight", tensor(30, &[3, 2])),
        ("blk.0.ffn_up.weight", tensor(36, &[3, 2])),
        ("blk.0.ffn_down_exps.weight", (vec![2, 2, 3], [tensor(50, &[6]).1, tensor(60, &[6]).1].concat())),
    ];
    assert_eq!(read(&file), wanted.map(|(name, tensor)| (name.to_owned(), tensor)).into());
    let metadata: BTreeMap<_, _> = file.metadata().unwrap().into_iter().collect();
    for (key, value) in [
        ("toy.block_count", MetadataValue::U32(1)),
        ("toy.expert_count", MetadataValue::U32(2)),
        // The defaults of the class, the shared ones and its own.
        ("toy.context_length", MetadataValue::U32(2048)),
        ("toy.attention.layer_norm_rms_epsilon", MetadataValue::F32(0.25)),
        ("toy.toy_scale", MetadataValue::F32(0.5)),
    ] {
        assert_eq!(metadata.get(key), Some(&value), "{key}");
    }

    let back = directory.path().join("back");
    let options = ConvertOptions::new();
    let plan = file.plan_convert_directory(ConvertTarget::Hf, &options, &DirectoryOptions::new()).unwrap();
    plan.write(&back, &options.run, |_| {}).unwrap();
    assert_eq!(read(&Checkpoint::open(back.join("model.safetensors"), &limits).unwrap()), checkpoint());
    let config: Value = serde_json::from_slice(&std::fs::read(back.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["architectures"], json!(["ToyForCausalLM"]));
    assert_eq!((&config["hidden_size"], &config["toy_scale"]), (&json!(2), &json!(0.5)));
}
