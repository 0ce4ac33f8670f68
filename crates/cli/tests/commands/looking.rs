//! `stats`, `diff`, `hash` and `show`: conditions, exit codes, slices and files. Their output is in `tests/snapshots`.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::folder::{Folder, Run};
use crate::samples;

/// Writes a safetensors file of F32 tensors.
fn write(folder: &Folder, name: &str, tensors: &[(&str, &[usize], &[f32])]) {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    fs::write(folder.path(name), [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
}

/// Runs `amn` with these arguments.
fn amn(folder: &Folder, arguments: &[&str]) -> Run {
    Run::of(folder.command("").args(arguments).output().unwrap())
}

/// A model with an empty tensor, one of NaN alone, and names that would steer a terminal.
fn odd() -> Folder {
    let folder = Folder::empty();
    let nan = f32::NAN;
    write(
        &folder,
        "odd.safetensors",
        &[
            ("empty", &[0, 4], &[]),
            ("nothing", &[2], &[nan, nan]),
            ("a\u{1b}[2J\u{202e}\nb", &[2], &[1.0, f32::INFINITY]),
            ("list[0]", &[3], &[1.0, 2.0, 3.0]),
        ],
    );
    folder
}

#[test]
fn odd_tensors_and_names_are_measured_and_escaped() {
    let folder = odd();
    for arguments in [
        &["stats", "odd.safetensors"][..],
        &["stats", "odd.safetensors", "--json"],
        &["hash", "odd.safetensors"],
        &["hash", "odd.safetensors", "--decoded", "--json"],
        &["diff", "odd.safetensors", "odd.safetensors", "--list"],
        &["show", "odd.safetensors", "a\u{1b}[2J\u{202e}\nb"],
        &["show", "odd.safetensors", "empty"],
        &["show", "odd.safetensors", "nothing", "--heat"],
        &["show", "odd.safetensors", "empty", "--heat"],
    ] {
        let text = amn(&folder, arguments).ok();
        let is_safe = |character: char| character == '\n' || !character.is_control() && character != '\u{202e}';
        assert!(text.chars().all(is_safe), "{arguments:?}: {text:?}");
        assert!(!text.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_name_that_ends_in_brackets_is_a_name() {
    let folder = odd();
    assert_eq!(amn(&folder, &["show", "odd.safetensors", "list[0]", "--json"]).json()["data"], json!([1.0, 2.0, 3.0]));
    assert_eq!(amn(&folder, &["show", "odd.safetensors", "list[0][-1]", "--json"]).json()["data"], json!(3.0));
    assert_eq!(amn(&folder, &["show", "odd.safetensors", "nothing", "--json"]).json()["data"], json!(["NaN", "NaN"]));
}

#[test]
fn conditions_set_the_exit_code() {
    let folder = odd();
    for (condition, holds) in
        [("nan", true), ("inf", true), ("outliers", false), ("max>=3", true), ("max>3", false), ("zeros>0,nan>1", true)]
    {
        let run = amn(&folder, &["stats", "odd.safetensors", "--fail-on", condition]);
        assert_eq!(run.code, Some(i32::from(holds)), "{condition}: {run:?}");
    }
    let listed = amn(&folder, &["stats", "odd.safetensors", "--where", "nan>0", "--json"]).json();
    assert_eq!(listed["tensors"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tensors"][0]["name"], "nothing");
}

#[test]
fn bad_scales_fail_on_nan() {
    let folder = Folder::with_model();
    let path = folder.path("model-fp8.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    // The scales are the four bytes at the end of their tensor: BF16 ones become NaN.
    let header = String::from_utf8_lossy(&bytes).into_owned();
    let document: serde_json::Value =
        serde_json::from_str(&header[8..8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize]).unwrap();
    let entry = &document["model.layers.0.mlp.down_proj.weight_scale"]["data_offsets"];
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let start = data + entry[0].as_u64().unwrap() as usize;
    bytes[start..start + 2].copy_from_slice(&[0xc0, 0x7f]);
    fs::write(&path, bytes).unwrap();
    let run = folder.amn("stats model-fp8.safetensors --fail-on nan");
    assert_eq!(run.code, Some(1));
    let line =
        "scales model.layers.0.mlp.down_proj.weight_scale of model.layers.0.mlp.down_proj.weight: 1 NaN, 0 infinite";
    assert!(run.stdout.contains(line), "{run:?}");
}

#[test]
fn models_without_a_common_name_differ() {
    let folder = odd();
    write(&folder, "other.safetensors", &[("x", &[1], &[1.0])]);
    let run = amn(&folder, &["diff", "odd.safetensors", "other.safetensors"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("no name in common"), "{run:?}");
    let run = amn(&folder, &["diff", "odd.safetensors", "other.safetensors", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((document["same"].clone(), run.code), (json!(false), Some(1)));
}

#[test]
fn malformed_requests_are_usage_errors() {
    let folder = samples::folder();
    for arguments in [
        &["show", "plain.safetensors", "model.norm.weight[0:"][..],
        &["show", "plain.safetensors", "model.norm.weight[]"],
        &["show", "plain.safetensors", "model.norm.weight[1.5]"],
        &["show", "plain.safetensors", "model.norm.weight[0,0]"],
        &["show", "plain.safetensors", "model.norm.weight[-17]"],
        &["show", "plain.safetensors", "model.norm.weight[99999999999999999999]"],
        &["show", "plain.safetensors", "nothing"],
        &["show", "Tiny-GPTQ", "model.layers.0.self_attn.q_proj.weight[0]", "--stored"],
        &["diff", "plain.safetensors", "plain.safetensors", "--tolerance", "-1"],
        &["diff", "plain.safetensors", "plain.safetensors", "--tolerance", "nan"],
        &["diff", "plain.safetensors", "plain.safetensors", "--to", "int3"],
        &["diff", "-", "-"],
        &["stats", "plain.safetensors", "--sort", "colour"],
        &["stats", "plain.safetensors", "--where", "nan>>0"],
        &["hash", "plain.safetensors", "--to", "bf16"],
    ] {
        let run = amn(&folder, arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
        assert!(run.stdout.is_empty() && run.stderr.starts_with("error: "), "{arguments:?}: {run:?}");
    }
    let run = amn(&folder, &["show", "plain.safetensors", "model.nrom.weight"]);
    assert!(run.stderr.contains("did you mean model.norm.weight?"), "{run:?}");
}

#[test]
fn slices_are_written_in_every_format() {
    let folder = samples::folder();
    let name = "model.layers.0.mlp.down_proj.weight[::-3, 1::8]";
    let data = amn(&folder, &["show", "plain.safetensors", name, "--json"]).json()["data"].clone();
    let wanted: Vec<f64> = data
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .map(|value| value.as_f64().unwrap())
        .collect();
    for file in ["slice.npy", "slice.safetensors"] {
        amn(&folder, &["show", "plain.safetensors", name, "-o", file]).ok();
        let stats = folder.amn(&format!("stats {file} --json")).json();
        assert_eq!(stats["tensors"][0]["shape"], json!([3, 8]), "{file}");
        let bytes = fs::read(folder.path(file)).unwrap();
        let tail = &bytes[bytes.len() - 4 * wanted.len()..];
        let found: Vec<f64> =
            tail.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into()).collect();
        assert_eq!(found, wanted, "{file}");
    }
    amn(&folder, &["show", "plain.safetensors", name, "-o", "slice.csv"]).ok();
    let text = fs::read_to_string(folder.path("slice.csv")).unwrap();
    let found: Vec<f64> = text.lines().flat_map(|line| line.split(',')).map(|value| value.parse().unwrap()).collect();
    assert_eq!((text.lines().count(), found), (3, wanted));
    amn(&folder, &["show", "plain.safetensors", name, "-o", "slice.png"]).ok();
    let image = fs::read(folder.path("slice.png")).unwrap();
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image[16..24] == [0, 0, 0, 8, 0, 0, 0, 3], "{image:?}");
    let names = folder.names();
    assert!(names.iter().all(|name| !name.starts_with(".tmp")), "{names:?}");
}

#[test]
fn saved_hashes_find_a_changed_byte() {
    let folder = samples::folder();
    folder.amn("hash plain.safetensors -o saved.hash").ok();
    assert_eq!(folder.amn("hash plain.safetensors").ok(), fs::read_to_string(folder.path("saved.hash")).unwrap());
    assert!(folder.amn("verify plain.safetensors --against saved.hash").ok().ends_with("sound\n"));
    let mut bytes = fs::read(folder.path("plain.safetensors")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(folder.path("plain.safetensors"), bytes).unwrap();
    let run = folder.amn("verify plain.safetensors --against saved.hash");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("tensor \"model.norm.weight\": its SHA-256 is "), "{run:?}");
    assert!(folder.amn("verify plain.safetensors --against notes.txt").failed().contains("notes.txt: line 1"));
    assert!(folder.amn("verify plain.safetensors --against none.hash").failed().contains("none.hash"));
    assert!(folder.amn("hash plain.safetensors -o saved.hash").failed().contains("--force"));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = samples::folder();
    for line in [
        "stats Tiny-Llama",
        "diff Tiny-Llama Tiny-Llama --list",
        "hash Tiny-Llama",
        "show plain.safetensors model.embed_tokens.weight",
        "show plain.safetensors model.embed_tokens.weight --heat",
    ] {
        let mut child = folder.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let status = child.wait().unwrap();
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(status.success() && text.is_empty(), "{line}: {status} {text}");
    }
}

#[test]
fn results_read_without_unicode() {
    let folder = samples::folder();
    for line in [
        "stats plain.safetensors",
        "diff plain.safetensors Tiny-Llama",
        "show plain.safetensors model.embed_tokens.weight",
        "show plain.safetensors model.embed_tokens.weight --heat",
    ] {
        let run = Run::of(folder.command(line).env("LC_ALL", "C").env("COLUMNS", "60").output().unwrap());
        assert!(run.stdout.is_ascii() && run.stdout.len() > 100, "{line}: {run:?}");
    }
}
