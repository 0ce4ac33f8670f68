//! Mutations of the configuration: missing, unreadable, moved, or changed.

use serde_json::{Map, Value, json};

use super::case::Case;
use super::mutation::Mutation;
use super::subject::{ConfigFile, Subject};

const SECTION: &str = "quantization_config";

/// Methods as configurations name them.
const METHODS: [&str; 12] = [
    "gptq",
    "awq",
    "bitsandbytes",
    "fp8",
    "compressed-tensors",
    "modelopt",
    "mxfp4",
    "hqq",
    "quanto",
    "torchao",
    "auto-round",
    "something else",
];

/// Lists of modules that are not quantised.
const LISTS: [&str; 5] =
    ["ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules"];

pub fn mutations(case: &Case) -> Vec<Mutation> {
    let Some(config) = case.subject.config_json() else { return Vec::new() };
    let mut mutations = files(&config);
    mutations.extend(places(&config));
    let mut paths = Vec::new();
    walk(&config, &mut Vec::new(), &mut paths);
    for (path, value) in paths {
        let mut changes = vec![("removed".to_owned(), None)];
        changes.extend(other_values(&path, &value).into_iter().map(|value| (value.to_string(), Some(value))));
        for (how, value) in changes {
            let mut changed = config.clone();
            put(&mut changed, &path, value);
            mutations.push(written("configuration", path.join("."), how, &changed));
        }
    }
    mutations.extend(ignored(case, &config));
    mutations
}

fn written(class: &'static str, part: impl Into<String>, to: impl Into<String>, config: &Value) -> Mutation {
    let file = ConfigFile::Text(config.to_string().into_bytes());
    Mutation::new(class, part, to, move |subject: &mut Subject| subject.config = file.clone())
}

/// Other content instead of the file.
fn files(config: &Value) -> Vec<Mutation> {
    let text = config.to_string().into_bytes();
    let texts = [
        ("empty", Vec::new()),
        ("spaces", b"  \n".to_vec()),
        ("not JSON", b"quant_method = gptq".to_vec()),
        ("cut short", text[..text.len() / 2].to_vec()),
        ("null", b"null".to_vec()),
        ("a list", [b"[", &text[..], b"]"].concat()),
        ("a byte order mark first", [b"\xef\xbb\xbf", &text[..]].concat()),
    ];
    let texts = texts.into_iter().map(|(how, text)| (how, ConfigFile::Text(text)));
    let files = texts.chain([
        ("gone", ConfigFile::Absent),
        ("a directory", ConfigFile::Directory),
        ("a dangling link", ConfigFile::DanglingLink),
    ]);
    let replace = |(how, file): (&str, ConfigFile)| {
        Mutation::new("configuration file", "config.json", how, move |subject: &mut Subject| {
            subject.config = file.clone()
        })
    };
    files.map(replace).collect()
}

/// The section elsewhere in the document.
fn places(config: &Value) -> Vec<Mutation> {
    let Some(section) = config.get(SECTION) else { return Vec::new() };
    let places = [
        ("text_config", json!({"text_config": {SECTION: section}})),
        ("llm_config", json!({"llm_config": {SECTION: section}})),
        ("thinker_config.text_config", json!({"thinker_config": {"text_config": {SECTION: section}}})),
        ("compression_config", json!({"compression_config": section})),
        ("quantization", json!({"quantization": section})),
        ("the top", section.clone()),
        ("a list", json!({SECTION: [section]})),
        ("a text", json!({SECTION: section.to_string()})),
        ("null beside it", json!({SECTION: section, "text_config": {SECTION: null}})),
        ("an empty one beside it", json!({SECTION: section, "text_config": {SECTION: {}}})),
    ];
    places.into_iter().map(|(how, config)| written("configuration place", SECTION, how, &config)).collect()
}

/// All members with their paths. Lists are values.
fn walk(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        path.push(key.clone());
        found.push((path.clone(), value.clone()));
        walk(value, path, found);
        path.pop();
    }
}

fn put(config: &mut Value, path: &[String], value: Option<Value>) {
    let Some((last, above)) = path.split_last() else { return };
    let object = above.iter().try_fold(config, |value, key| value.get_mut(key)).and_then(Value::as_object_mut);
    let Some(object): Option<&mut Map<String, Value>> = object else { return };
    match value {
        Some(value) => drop(object.insert(last.clone(), value)),
        None => drop(object.remove(last)),
    }
}

/// Other values for a member: of the same type, of other types, and null.
fn other_values(path: &[String], value: &Value) -> Vec<Value> {
    let key = path.last().map_or("", String::as_str);
    let mut values = vec![Value::Null, json!("x"), json!(7), json!(0), json!([]), json!({}), json!(true), json!(1.5)];
    match key {
        "bits" | "num_bits" | "nbits" | "w_bit" => values.extend([2, 3, 4, 8].map(Value::from)),
        "group_size" | "q_group_size" => values.extend([-1, 16, 32, 64, 128].map(Value::from)),
        "quant_method" => values.extend(METHODS.map(Value::from)),
        "checkpoint_format" => values.extend(["gptq", "gptq_v2", "marlin", "bitblas", "gptq_p"].map(Value::from)),
        "packing_format" => {
            let packings = ["auto_round:auto_gptq", "auto_round:exllamav2", "auto_round:auto_awq", "auto_round:new"];
            values.extend(packings.map(Value::from));
        }
        "version" => values.extend(["gemm", "gemv", "gemv_fast", "marlin", "0.1"].map(Value::from)),
        "fmt" => values.extend(["e4m3", "e5m2", "E4M3"].map(Value::from)),
        "strategy" => values.extend(["tensor", "channel", "block", "group", "token"].map(Value::from)),
        "type" => values.extend(["int", "float"].map(Value::from)),
        "format" => values.extend(
            ["float-quantized", "pack-quantized", "int-quantized", "naive-quantized", "nvfp4-pack-quantized", "dense"]
                .map(Value::from),
        ),
        "quant_algo" => values.extend(["FP8", "NVFP4", "W4A16_AWQ", "FP8_PB_WO"].map(Value::from)),
        "mode" => values.extend(["affine", "mxfp4", "mxfp8", "nvfp4"].map(Value::from)),
        "weight_block_size" | "block_structure" => {
            values.extend([[128, 128], [64, 64], [32, 32], [1, 32], [128, 64], [256, 256]].map(Value::from));
        }
        _ => {}
    }
    match value {
        Value::Bool(value) => values.push(json!(!value)),
        Value::Number(number) => values.extend(number.as_i64().map(|number| json!(number * 2))),
        Value::String(text) => values.push(json!(text.to_uppercase())),
        _ => {}
    }
    values.retain(|other| other != value);
    values
}

/// Lists that exclude a quantised module, or all modules.
fn ignored(case: &Case, config: &Value) -> Vec<Mutation> {
    let module = case.parts.iter().find_map(|name| Some(name.rsplit_once('.')?.0.to_owned())).unwrap_or_default();
    let module = module.strip_suffix(".weight").unwrap_or(&module).to_owned();
    let mut mutations = Vec::new();
    for list in LISTS {
        for entry in [module.as_str(), "re:.*", "*", "Linear", "model", "", "re:("] {
            let mut changed = config.clone();
            if let Some(section) = changed.get_mut(SECTION) {
                section[list] = json!([entry]);
            }
            mutations.push(written("ignore", list, entry, &changed));
        }
    }
    mutations
}
