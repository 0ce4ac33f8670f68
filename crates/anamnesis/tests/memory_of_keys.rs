//! Tests that hostile numbers in a configuration or in GGUF metadata are refused or converted within little memory and
//! time: every number is checked against the tensors before it is used.
//!
//! One test in a binary of its own, because the allocator counts the whole process. A share of all cases is tried; with
//! `AMN_KEYS=all`, every one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, DirectoryOptions, GgufMetadataValue, ParseLimits,
};
use serde_json::{Value, json};
use support::time::processor_time;
use support::{Folder, fixture};

/// The memory of a run. The tests themselves need a few megabytes of it.
const MOST_BYTES: usize = 256 << 20;
const MOST_TIME: Duration = Duration::from_secs(2);

static HELD: AtomicUsize = AtomicUsize::new(0);

/// The system allocator with a limit: a run that needs more aborts.
struct Limited;

// SAFETY: memory comes from the system's allocator and goes back to it with the same layout.
#[allow(unsafe_code, reason = "an allocator cannot be written without it")]
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > MOST_BYTES {
            HELD.fetch_sub(layout.size(), Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// The cases of a folder of fixtures.
fn cases(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(fixture(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".expected.gguf")?.to_owned())).collect();
    cases.sort();
    cases
}

/// Whether a case is in the sample, which is always the same.
fn is_tried(number: &mut usize) -> bool {
    *number += 1;
    std::env::var_os("AMN_KEYS").is_some() || number.is_multiple_of(11)
}

/// The JSON pointers of all numbers in a document.
fn numbers(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(place.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| numbers(item, &format!("{place}/{index}"), found));
        }
        Value::Object(map) => map.iter().for_each(|(key, item)| numbers(item, &format!("{place}/{key}"), found)),
        _ => {}
    }
}

/// Members of a configuration that are not about the language model.
const OTHERS: [&str; 5] =
    ["/quantization_config", "/vision_config", "/audio_config", "/code_predictor_config", "/speaker_encoder_config"];

/// The replacements of a number.
fn hostile() -> [Value; 7] {
    let large = 1u64 << 63;
    [json!(0), json!(-1), json!(1u64 << 31), json!(large), Value::Null, json!("a"), json!([large])]
}

/// Runs something within the time limit, in time of the processor, and returns its error.
fn timed(what: &str, work: impl FnOnce() -> Result<(), AnamnesisError>) -> Option<String> {
    let start = processor_time();
    let refused = work().err().map(|error| error.to_string());
    let taken = processor_time() - start;
    assert!(taken < MOST_TIME, "{what} takes {taken:?}");
    refused
}

fn to_gguf(path: &Path) -> Result<(), AnamnesisError> {
    Checkpoint::open(path, &ParseLimits::default())?.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new()).map(drop)
}

/// Keys that determine shapes: any other value must be refused.
const SIZES: [&str; 19] = [
    "hidden_size",
    "num_hidden_layers",
    "vocab_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "n_shared_experts",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "state_size",
    "conv_kernel",
    "mamba_d_ssm",
    "mamba_d_state",
    "mamba_n_heads",
];

fn configurations(number: &mut usize, faults: &mut Vec<String>) {
    let both = ["architectures", "one_way"].into_iter();
    for (parent, case) in both.flat_map(|parent| cases(parent).into_iter().map(move |case| (parent, case))) {
        let source = fixture(parent).join(&case);
        let config: Value = serde_json::from_slice(&std::fs::read(source.join("config.json")).unwrap()).unwrap();
        let folder = Folder::new();
        for entry in std::fs::read_dir(&source).unwrap() {
            let entry = entry.unwrap();
            // The pooling of sentence encoders is in a folder of its own.
            if entry.path().is_dir() || entry.file_name() == "modules.json" {
                continue;
            }
            folder.write(entry.file_name().to_str().unwrap(), std::fs::read(entry.path()).unwrap());
        }
        folder.write("config.json", config.to_string());
        assert_eq!(timed(&case, || to_gguf(&folder.path(""))), None, "{case}");
        let mut places = Vec::new();
        numbers(&config, "", &mut places);
        // Members about quantised weights are checked by the schemes; those of other models in the directory are not read.
        let is_unused = |place: &String| OTHERS.iter().any(|part| place.contains(part));
        places.retain(|place| !is_unused(place));
        for place in places {
            let own = config.pointer(&place).cloned();
            for value in hostile().into_iter().filter(|value| is_tried(number) && own.as_ref() != Some(value)) {
                let mut other = config.clone();
                *other.pointer_mut(&place).unwrap() = value.clone();
                folder.write("config.json", other.to_string());
                let what = format!("{case}: {place} = {value}");
                let refused = timed(&what, || to_gguf(&folder.path("")));
                let key = place.split('/').rfind(|key| key.parse::<usize>().is_err()).unwrap_or("");
                match refused {
                    Some(refused) if !refused.contains(key) => faults.push(format!("{what}: {refused}")),
                    // Without a value, the default of the class applies.
                    None if value.is_null() => {}
                    // The sizes of state-space layers, which this model does not have.
                    None if case == "granite_hybrid_attn" && key.starts_with("mamba_") => {}
                    // Its only layer has none.
                    None if case == "kimi_k2_ranks" && (key.contains("experts") || key.starts_with("moe_")) => {}
                    // The layers of a stack are counted by another key.
                    None if case == "hrm_text" && key == "num_hidden_layers" => {}
                    // The shared expert of Nemotron-H has a size of its own.
                    None if case == "nemotron_h_puzzle" && key == "n_shared_experts" => {}
                    // Its list of layers counts them.
                    None if case == "nemotron_h_puzzle" && key == "num_hidden_layers" => {}
                    None if SIZES.contains(&key) => faults.push(format!("{what} was planned")),
                    _ => {}
                }
            }
        }
    }
}

/// Keys derived from others, and the name in the error when they contradict.
const FOLLOWING: [(&str, &str); 4] = [
    ("context_length", "rope.scaling.attn_factor"),
    ("rope.scaling.original_context_length", "rope.scaling.attn_factor"),
    ("rope.scaling.original_context_length", "original_max_position_embeddings"),
    ("rope.dimension_count", "partial_rotary_factor"),
];

fn metadata(number: &mut usize, faults: &mut Vec<String>) {
    for case in cases("architectures") {
        let path = fixture("architectures").join(format!("{case}.expected.gguf"));
        let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
        let is_number =
            |value: &GgufMetadataValue| !matches!(value, GgufMetadataValue::Array(_) | GgufMetadataValue::String(_));
        for (key, _) in checkpoint.metadata().unwrap().into_iter().filter(|(_, value)| is_number(value)) {
            let values = [
                Some(GgufMetadataValue::U32(0)),
                Some(GgufMetadataValue::I32(-1)),
                Some(GgufMetadataValue::U32(1 << 31)),
                Some(GgufMetadataValue::U64(1 << 63)),
                Some(GgufMetadataValue::F32(f32::NAN)),
                Some(GgufMetadataValue::String("a".to_owned())),
                None,
            ];
            for value in values.into_iter().filter(|_| is_tried(number)) {
                let what = format!("{case}: {key} = {value:?}");
                let options = match value {
                    Some(value) => ConvertOptions::new().with_gguf_metadata([(key.clone(), value)].into()),
                    None => ConvertOptions::new().with_gguf_removed(&key),
                };
                // Keys that every output has are not changed.
                let Ok(plan) = checkpoint.plan_convert(ConvertTarget::Gguf, &options) else { continue };
                let bytes = plan.to_bytes(|_| {}).unwrap().0;
                let refused = timed(&what, || {
                    let checkpoint = Checkpoint::from_bytes(bytes, &ParseLimits::default())?;
                    let options = (ConvertOptions::new(), DirectoryOptions::new());
                    checkpoint.plan_convert_directory(ConvertTarget::Hf, &options.0, &options.1).map(drop)
                });
                let own = key.split_once('.').map_or("", |(_, own)| own);
                let follows = FOLLOWING.iter().filter(|(from, _)| *from == own).map(|(_, name)| *name);
                let names: Vec<_> = follows.chain([own]).collect();
                if let Some(refused) = refused.filter(|refused| !names.iter().any(|name| refused.contains(name))) {
                    faults.push(format!("{what}: {refused}"));
                }
            }
        }
    }
}

#[test]
fn every_number_of_a_model_is_checked_against_its_tensors() {
    let (mut number, mut faults) = (0, Vec::new());
    configurations(&mut number, &mut faults);
    metadata(&mut number, &mut faults);
    assert!(faults.is_empty(), "{} of {number}:\n{}", faults.len(), faults.join("\n"));
    assert!(number > 4000, "{number}");
}
