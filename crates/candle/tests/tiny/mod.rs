//! A Llama of a few hundred thousand values, written and quantised by the library.

use std::path::{Path, PathBuf};

use anamnesis::{
    Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, Dtype, MemoryTensor, MemoryTensors, OpenOptions,
    ParseLimits, RememberOptions, TargetDtype,
};
use serde_json::json;

const HIDDEN: usize = 256;
const KEYS: usize = 128;
const VOCABULARY: usize = 32;

/// The tokenizer of the models that the library is tested with; a conversion to GGUF needs one.
const TOKENIZER: [(&str, &str); 2] = [
    ("tokenizer.json", include_str!("tokenizer.json")),
    ("tokenizer_config.json", include_str!("tokenizer_config.json")),
];

/// The targets that are GGUF files.
const IN_GGUF: [&str; 4] = ["gguf", "q8_0", "q4_k_m", "iq4_nl"];

/// Writes the model as `directory/plain`.
pub fn write_plain(directory: &Path) -> PathBuf {
    let path = directory.join("plain");
    std::fs::create_dir(&path).unwrap();
    for (file, text) in TOKENIZER {
        std::fs::write(path.join(file), text).unwrap();
    }
    std::fs::write(path.join("config.json"), config()).unwrap();
    let tensors = MemoryTensors::new(tensors(), &[("format".to_owned(), "pt".to_owned())].into()).unwrap();
    let checkpoint = Checkpoint::from_positioned(tensors, &OpenOptions::new()).unwrap();
    let plan = checkpoint.plan(TargetDtype::BF16).unwrap();
    plan.write(path.join("model.safetensors"), &RememberOptions::new(), |_| {}).unwrap();
    path
}

/// Converts the model at `plain` to a target, as a directory or a GGUF file.
pub fn quantise(plain: &Path, target: &str) -> PathBuf {
    let wanted: ConvertTarget = ConvertTarget::parse(target).unwrap();
    let checkpoint = Checkpoint::open(plain, &ParseLimits::default()).unwrap();
    let options = ConvertOptions::new();
    let is_directory = !IN_GGUF.contains(&target);
    let path = plain.with_file_name(if is_directory { target.to_owned() } else { format!("{target}.gguf") });
    if is_directory {
        let plan = checkpoint.plan_convert_directory(wanted, &options, &DirectoryOptions::new()).unwrap();
        plan.write(&path, &RememberOptions::new(), |_| {}).unwrap();
    } else {
        checkpoint.plan_convert(wanted, &options).unwrap().write(&path, |_| {}).unwrap();
    }
    path
}

/// The plain safetensors file of a model, decoded by the library as a whole.
pub fn decoded(model: &Path) -> Vec<u8> {
    let mut path = model.to_owned();
    if model.extension().is_some_and(|extension| extension == "gguf") {
        path = model.with_extension("hf");
        let checkpoint = Checkpoint::open(model, &ParseLimits::default()).unwrap();
        let options = ConvertOptions::new().with_output_dtype(Dtype::F32);
        let plan = checkpoint.plan_convert_directory(ConvertTarget::Hf, &options, &DirectoryOptions::new()).unwrap();
        plan.write(&path, &RememberOptions::new(), |_| {}).unwrap();
    }
    let checkpoint = Checkpoint::open(&path, &ParseLimits::default()).unwrap();
    checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&RememberOptions::new()).unwrap()
}

pub fn config() -> String {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "bos_token_id": 28,
        "eos_token_id": 29,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "max_position_embeddings": 128,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": false,
        "vocab_size": VOCABULARY,
    })
    .to_string()
}

fn tensors() -> Vec<MemoryTensor<Vec<u8>>> {
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    let matrices = [
        ("model.embed_tokens.weight".to_owned(), VOCABULARY, HIDDEN),
        ("lm_head.weight".to_owned(), VOCABULARY, HIDDEN),
        (layer("self_attn.q_proj"), HIDDEN, HIDDEN),
        (layer("self_attn.k_proj"), KEYS, HIDDEN),
        (layer("self_attn.v_proj"), KEYS, HIDDEN),
        (layer("self_attn.o_proj"), HIDDEN, HIDDEN),
        (layer("mlp.gate_proj"), HIDDEN, HIDDEN),
        (layer("mlp.up_proj"), HIDDEN, HIDDEN),
        (layer("mlp.down_proj"), HIDDEN, HIDDEN),
    ];
    let norms = ["input_layernorm", "post_attention_layernorm"].map(layer).into_iter();
    let norms = norms.chain(["model.norm.weight".to_owned()]);
    let matrices = matrices.into_iter().map(|(name, rows, columns)| (name, vec![rows, columns], 0.0));
    let all = matrices.chain(norms.map(|name| (name, vec![HIDDEN], 1.0)));
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let tensor = |(name, shape, mean): (String, Vec<usize>, f32)| {
        let count: usize = shape.iter().product();
        // Values that BF16 and F16 hold, so that a GGUF file of them loses nothing.
        let mut value = || mean + (0.2 * random() * 1024.0).round() / 1024.0;
        let data = (0..count).flat_map(|_| value().to_le_bytes()).collect();
        MemoryTensor { name, dtype: Dtype::F32, shape, data }
    };
    all.map(tensor).collect()
}
