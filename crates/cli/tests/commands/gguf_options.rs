//! The options of conversions to GGUF that llama.cpp's converter has too: the same files, to the byte.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::folder::Folder;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../anamnesis/tests/fixtures/options")
}

/// The cases: their names and descriptions.
fn cases() -> Vec<(String, Value)> {
    let entries = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let cases = entries.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let case = |path: PathBuf| {
        let described = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), described)
    };
    let mut cases: Vec<_> = cases.map(case).collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

/// Runs a conversion with the options of a case and further ones.
fn convert(folder: &Folder, case: &Value, output: &str, further: &str) {
    let source = fixtures().join(case["source"].as_str().unwrap());
    let options = case["options"].as_array().unwrap().iter().map(|option| option.as_str().unwrap());
    let resolved = |option: &str| match option.starts_with("../") {
        true => fixtures().join(option).display().to_string(),
        false => option.to_owned(),
    };
    let options: Vec<String> = options.map(resolved).collect();
    // A vocabulary this small has no known pre-tokenizer; Mistral's own format has the same one always, and Gemma's has none.
    let is_native = source.join("params.json").exists();
    let is_gemma = options.iter().any(|option| option.ends_with("gemma4"));
    let pre = if is_native || is_gemma { "" } else { "--gguf-kv tokenizer.ggml.pre=gpt-2" };
    let (source, dtype, options) = (source.display(), case["type"].as_str().unwrap(), options.join(" "));
    let line = format!("convert {source} --to gguf --out-dtype {dtype} {pre} {options} -o {output} {further}");
    folder.amn(&line).ok();
}

#[test]
fn every_option_gives_the_bytes_of_the_converter() {
    let folder = Folder::empty();
    let cases = cases();
    assert!(cases.len() > 10);
    for (name, case) in &cases {
        convert(&folder, case, "found.gguf", "--force");
        let expected = fs::read(fixtures().join(format!("{name}.expected.gguf"))).unwrap();
        assert!(fs::read(folder.path("found.gguf")).unwrap() == expected, "{name}");
    }
}

#[test]
fn a_big_endian_file_has_the_values_of_a_little_endian_one() {
    let folder = Folder::empty();
    for (name, case) in cases().into_iter().filter(|(name, _)| name.starts_with("big_")) {
        convert(&folder, &case, "big.gguf", "--force");
        folder.amn("convert big.gguf --to gguf -o little.gguf --force").ok();
        folder.amn("convert little.gguf --to gguf -o again.gguf --bigendian --force").ok();
        let hashes = |file: &str| folder.amn(&format!("hash {file}")).ok().replace(file, "");
        assert_eq!(hashes("big.gguf"), hashes("little.gguf"), "{name}");
        assert_eq!(hashes("big.gguf"), hashes("again.gguf"), "{name}");
    }
}

#[test]
fn a_model_in_mistrals_format_needs_no_option_unless_there_are_other_files() {
    let folder = Folder::empty();
    let source = fixtures().join("mistral_native");
    let model = folder.path("mistral_native");
    fs::create_dir(&model).unwrap();
    for name in ["params.json", "consolidated.safetensors", "tekken.json"] {
        fs::copy(source.join(name), model.join(name)).unwrap();
    }
    folder.amn("convert mistral_native --to gguf --out-dtype bf16 -o plain.gguf").ok();
    let expected = fs::read(fixtures().join("mistral.expected.gguf")).unwrap();
    assert!(fs::read(folder.path("plain.gguf")).unwrap() == expected);
    // Files of transformers come first, unless the option is given.
    fs::write(model.join("config.json"), r#"{"architectures": ["UnknownForCausalLM"]}"#).unwrap();
    fs::copy(source.join("consolidated.safetensors"), model.join("model.safetensors")).unwrap();
    let refusal = folder.amn("convert mistral_native --to gguf --out-dtype bf16 -o other.gguf").failed();
    assert!(refusal.contains("UnknownForCausalLM"), "{refusal}");
    folder.amn("convert mistral_native --to gguf --out-dtype bf16 -o native.gguf --mistral-format").ok();
    assert!(fs::read(folder.path("native.gguf")).unwrap() == expected);
}

#[test]
fn options_that_do_not_fit_the_model_or_the_target_are_refused() {
    let folder = Folder::empty();
    let model = fixtures().join("../architectures/llama3");
    let model = model.display();
    for (options, why) in [
        ("--to gguf --mtp", "this model has no layers for multi-token prediction"),
        ("--to gguf --sentence-transformers-dense-modules", "llama.cpp has none for this architecture"),
        ("--to gguf --mistral-format", "there is no params.json"),
        ("--to gguf --target-model-dir .", "only a draft model (EAGLE 3, DFlash, DSpark) has one"),
        ("--to q8_0 --vocab-only", "there is nothing to quantise"),
        ("--to q8_0 --fp8-as-q8", "the target quantises all weights"),
        ("--to safetensors --bigendian", "--bigendian does not apply to the target safetensors"),
        ("--to q5_0 --bigendian --gguf-kv tokenizer.ggml.pre=gpt-2", "whose big-endian layout is not defined"),
    ] {
        let refusal = folder.amn(&format!("convert {model} {options} -o out.gguf")).refused();
        assert!(refusal.contains(why), "{options}: {refusal}");
        assert!(!folder.path("out.gguf").exists(), "{options}");
    }
}

#[test]
fn a_draft_model_needs_the_model_it_predicts_for_and_tokens_of_it() {
    let folder = Folder::empty();
    let draft = fixtures().join("eagle");
    let line = format!("convert {} --to gguf --out-dtype bf16 -o out.gguf", draft.display());
    let refusal = folder.amn(&line).failed();
    assert!(refusal.contains("target of a draft model") && refusal.contains("--target-model-dir DIR"), "{refusal}");
    // A target with fewer tokens than the draft model predicts.
    fs::create_dir(folder.path("small")).unwrap();
    let config = r#"{"vocab_size": 100, "num_hidden_layers": 2, "hidden_size": 16}"#;
    fs::write(folder.path("small/config.json"), config).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(fixtures().join("../architectures/llama3").join(name), folder.path("small").join(name)).unwrap();
    }
    let line = format!("{line} --gguf-kv tokenizer.ggml.pre=gpt-2 --target-model-dir small");
    let refusal = folder.amn(&line).failed();
    assert!(refusal.contains("d2t") && refusal.contains("the target has 100"), "{refusal}");
}

#[test]
fn files_of_the_converter_are_sound() {
    let folder = Folder::empty();
    for (name, _) in cases() {
        let file = fixtures().join(format!("{name}.expected.gguf"));
        folder.amn(&format!("verify {}", file.display())).ok();
    }
}

#[test]
fn what_a_checkpoint_cannot_be_restored_from_is_named() {
    let folder = Folder::empty();
    for (name, why) in [
        ("mtp", "it is a draft model, which has only the layers for multi-token prediction"),
        ("deepseek4", "does not hold the FP8 matrices, which are Q8_0"),
        ("dense_modules", "does not hold settings of its class such as hidden_act"),
    ] {
        let file = fixtures().join(format!("{name}.expected.gguf"));
        let refusal = folder.amn(&format!("convert {} --to hf -o out", file.display())).failed();
        assert!(refusal.contains(why), "{name}: {refusal}");
    }
}
