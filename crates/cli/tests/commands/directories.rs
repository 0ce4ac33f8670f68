//! `remember`, `parse` and `inspect` of checkpoint directories.

use std::fs;

use anamnesis::{Checkpoint, ParseLimits};

use crate::checkpoint::{
    self, CLEAN_CONFIG, CONFIG, INDEX, NAME, SMALL, TOKENIZER, WEIGHTS, assert_same_files, safetensors, shard_name,
    shards,
};
use crate::folder::Folder;

#[test]
fn a_directory_becomes_a_directory_that_loads_as_it_is() {
    let folder = checkpoint::folder();
    fs::write(folder.path(NAME).join("hf_quant_config.json"), "{}").unwrap();
    let wanted = "\
Parsing...  13 tensors, Fine-grained FP8 (E4M3), 128x128 blocks
Recalling... 6 tensors
  Size: 6.71 KB -> 11.6 KB
Output: Tiny-3.1-bf16 (11.0 KB)
  1 shard written
  1 file copied
  config.json: removed quantization_config; set torch_dtype
  left out hf_quant_config.json: describes the quantisation only
";
    assert_eq!(folder.amn(&format!("remember {NAME}")).ok(), wanted);
    let output = checkpoint::files(&folder.path("Tiny-3.1-bf16"));
    let names: Vec<_> = output.keys().collect();
    assert_eq!(names, ["config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(output["config.json"], CLEAN_CONFIG.as_bytes());
    assert_eq!(output["tokenizer.json"], TOKENIZER.as_bytes());
    assert_eq!(folder.amn("verify Tiny-3.1-bf16").ok(), "1 file, 7 tensors, 11.0 KB\nsound\n");
    assert!(folder.amn("inspect Tiny-3.1-bf16").ok().contains("(unquantized)"));
}

#[test]
fn values_are_those_of_a_single_file() {
    let folder = checkpoint::folder();
    let together = shards().concat();
    fs::write(folder.path("together.safetensors"), safetensors(&together)).unwrap();
    fs::write(folder.path("config.json"), CONFIG).unwrap();
    for to in ["bf16", "f16", "f32"] {
        folder.amn(&format!("remember {NAME} --to {to} {SMALL} -o {to}")).ok();
        folder.amn(&format!("remember together.safetensors --to {to} -o {to}.safetensors")).ok();
        let open = |name: &str| Checkpoint::open(folder.path(name), &ParseLimits::default()).unwrap();
        let (directory, file) = (open(to), open(&format!("{to}.safetensors")));
        assert_eq!(directory.tensor_count(), file.tensor_count());
        assert!(directory.file_count() >= WEIGHTS);
        for tensor in together.iter().filter(|tensor| !tensor.name.ends_with("_scale_inv")) {
            let found = directory.tensor_data(&tensor.name).unwrap();
            assert!(found.is_some() && found == file.tensor_data(&tensor.name).unwrap(), "{}", tensor.name);
        }
        assert!(folder.amn(&format!("verify {to}")).ok().ends_with("sound\n"));
    }
}

#[test]
fn an_index_and_a_shard_mean_their_directory() {
    let folder = checkpoint::folder();
    folder.amn(&format!("remember {NAME} -o directory")).ok();
    for (number, name) in [INDEX.to_owned(), shard_name(2, 2)].iter().enumerate() {
        let text = folder.amn(&format!("remember {NAME}/{name} -o {number}")).ok();
        assert!(text.contains(&format!("Output: {number} (")), "{text}");
        assert_same_files(&folder.path(&number.to_string()), &folder.path("directory"));
        let text = folder.amn(&format!("remember {NAME}/{name} --dry-run")).ok();
        assert!(text.contains("Would write Tiny-3.1-bf16 ("), "{text}");
    }
}

#[test]
fn the_output_of_the_current_directory_is_beside_it() {
    let folder = checkpoint::folder();
    let run = folder.command("remember . --to f32").current_dir(folder.path(NAME)).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    assert!(folder.path("Tiny-3.1-f32").join("model.safetensors").is_file());
}

#[test]
fn shards_are_cut_at_the_size_asked_for() {
    let folder = checkpoint::folder();
    let document = folder.amn(&format!("remember {NAME} --shard-size 4KB -o cut --json")).json();
    assert_eq!(document["shards"].as_array().unwrap().len(), 3, "{document}");
    assert_eq!(document["written"][2], shard_name(3, 3));
    assert_eq!((&document["kept"], &document["part"]), (&serde_json::json!([]), &serde_json::Value::Null));
    assert_eq!(document["sidecars"][0]["removed"], serde_json::json!(["quantization_config"]));
    let document = folder.amn(&format!("remember {NAME} --single-file -o whole --json")).json();
    assert_eq!(document["shards"][0]["name"], "model.safetensors");
    assert!(!folder.path("whole").join(INDEX).exists());
    assert!(folder.path("cut").join(INDEX).is_file());
}

#[test]
fn parts_in_any_order_give_the_bytes_of_one_run() {
    let folder = checkpoint::folder();
    folder.amn(&format!("remember {NAME} {SMALL} -o whole")).ok();
    for part in ["3/3", "1/3", "2/3"] {
        let line = format!("remember {NAME} {SMALL} -o parts --part {part}");
        let planned = folder.amn(&format!("{line} --dry-run --json")).json();
        let mine = planned["shards"].as_array().unwrap().iter().filter(|shard| shard["in_this_run"] == true);
        let mine: Vec<_> = mine.map(|shard| shard["name"].clone()).collect();
        let text = folder.amn(&line).ok();
        assert!(text.contains(&format!("part {} of 3: 2 shards written", &part[..1])), "{text}");
        assert_eq!(text.contains("written by part 1"), part != "1/3", "{text}");
        for shard in &mine {
            assert!(folder.path("parts").join(shard.as_str().unwrap()).is_file(), "{part}: {mine:?}");
        }
        assert_eq!(mine.len(), 2);
    }
    assert_same_files(&folder.path("parts"), &folder.path("whole"));
    assert!(folder.amn("verify parts").ok().ends_with("sound\n"));
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let folder = checkpoint::folder();
    let text = folder.amn(&format!("remember {NAME} {SMALL} --dry-run --threads 2")).ok();
    for line in [
        "    1  model.layers.0.mlp.weight  [130, 7]  1.82 KB  1",
        "    6  model.norm.weight          [16]         32 B  copied",
        "all tensors: dtype BF16",
        "how 1: FP8 E4M3, 128x128 blocks, from .weight + .weight_scale_inv",
        "    6  model-00006-of-00006.safetensors  2.03 KB",
        "config.json: removed quantization_config; set torch_dtype",
        "Would write Tiny-3.1-bf16 (6 shards, 11.6 KB): 6 decoded to BF16, 1 copied",
        "Memory: about 12.6 MB",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis missing in\n{text}");
    }
    assert!(text.lines().any(|line| line.starts_with("Disk: 11.6 KB needed")), "{text}");
    let document = folder.amn(&format!("remember {NAME} {SMALL} --dry-run --json")).json();
    assert_eq!(document["tensors"][6]["shard"], shard_name(6, 6));
    assert_eq!(document["tensors"][0]["sources"][1], "model.layers.0.mlp.weight_scale_inv");
    assert_eq!((&document["output_state"], &document["dry_run"]), (&"nothing".into(), &true.into()));
    assert_eq!(document["disk_bytes"], document["bytes"]);
    assert!(document["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert_eq!(folder.names(), [NAME]);
}

#[test]
fn a_dry_run_reports_the_state_of_the_output() {
    let folder = checkpoint::folder();
    fs::create_dir(folder.path("out")).unwrap();
    let state = || folder.amn(&format!("remember {NAME} -o out --dry-run --json")).json()["output_state"].clone();
    assert_eq!(state(), "nothing");
    fs::write(folder.path("out").join("notes.txt"), "mine").unwrap();
    assert_eq!(state(), "foreign");
    let text = folder.amn(&format!("remember {NAME} -o out --dry-run")).ok();
    assert!(text.ends_with("That directory is not empty: --force writes into it, -o chooses another\n"), "{text}");
    folder.amn(&format!("remember {NAME} -o out --force")).ok();
    assert_eq!(state(), "foreign");
    fs::remove_dir_all(folder.path("out")).unwrap();
    folder.amn(&format!("remember {NAME} -o out --part 2/2")).ok();
    assert_eq!(state(), "begun");
}

#[test]
fn options_of_directories_make_no_sense_for_a_file() {
    let folder = Folder::with_model();
    for option in ["--shard-size 5GB", "--single-file", "--part 1/2"] {
        let run = folder.amn(&format!("remember model-fp8.safetensors {option}"));
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.stderr.starts_with("error: --") && run.stderr.contains("is a single file"), "{run:?}");
    }
    for options in ["--single-file --shard-size 1GB", "--part 0/2", "--part 1/2 --force", "--shard-size 5G"] {
        assert_eq!(folder.amn(&format!("remember model-fp8.safetensors {options}")).code, Some(2), "{options}");
    }
    assert_eq!(folder.names(), ["config.json", "model-fp8.safetensors"]);
}

#[test]
fn parse_counts_all_files_and_a_shard_selects_its_set() {
    let folder = checkpoint::folder();
    let wanted = format!(
        "\
13 tensors parsed
    6 quantized   Fine-grained FP8 (E4M3), 128x128 blocks
    6 scale       F32
    1 passthrough BF16 (norms, embeddings, lm_head)
Size: 5.54 KB in 2 files in {NAME}
"
    );
    assert_eq!(folder.amn(&format!("parse {NAME}")).ok(), wanted);
    let document = folder.amn(&format!("parse {NAME}/{INDEX} --json")).json();
    assert_eq!((&document["files"], &document["directory"]), (&2.into(), &NAME.into()));
    let shard = format!("{NAME}/{}", shard_name(1, 2));
    for command in ["parse", "inspect"] {
        let [set, of_shard] = [NAME, &shard].map(|path| folder.amn(&format!("{command} {path}")).ok());
        assert_eq!(set, of_shard, "{command}");
    }
    let shard = folder.amn(&format!("parse {shard} --only-this-file --list")).ok();
    assert!(shard.starts_with("6 tensors parsed") && shard.contains("\nall tensors: dtype F8_E4M3"), "{shard}");
    let all = folder.amn(&format!("parse {NAME} --list")).ok();
    assert!(all.contains("FILE") && all.contains("  2/2\n"), "{all}");
    assert_eq!(all.lines().filter(|line| line.ends_with("/2")).count(), 13, "{all}");
}

#[test]
fn inspect_names_the_files_of_a_directory() {
    let folder = checkpoint::folder();
    let text = folder.amn(&format!("inspect {NAME}")).ok();
    assert!(text.contains("Quantized:   6 tensors (weights) + 6 scale tensors (F32)"), "{text}");
    let wanted = format!("\nFiles:       2 ({NAME})\nConfig:      config.json: quant_method \"fp8\"");
    assert!(text.contains(&wanted), "{text}");
    let document = folder.amn(&format!("inspect {NAME} --json")).json();
    assert_eq!((&document["files"], &document["problems"]), (&2.into(), &serde_json::json!([])));
}

/// The layout of the Hub's cache: snapshots are links into blobs.
#[cfg(unix)]
#[test]
fn a_model_of_the_local_cache_is_found_and_written_here() {
    use crate::folder::Run;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    let folder = checkpoint::folder();
    let repository = folder.path("cache/models--org--Tiny-AWQ");
    let (blobs, snapshot) = (repository.join("blobs"), repository.join("snapshots").join(COMMIT));
    for directory in [&blobs, &snapshot, &repository.join("refs")] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(repository.join("refs/main"), COMMIT).unwrap();
    for (number, (name, bytes)) in checkpoint::files(&folder.path(NAME)).into_iter().enumerate() {
        fs::write(blobs.join(number.to_string()), bytes).unwrap();
        std::os::unix::fs::symlink(format!("../../blobs/{number}"), snapshot.join(name)).unwrap();
    }
    let amn = |line: &str| Run::of(folder.command(line).env("HF_HUB_CACHE", folder.path("cache")).output().unwrap());
    amn("remember hf:org/Tiny-AWQ").ok();
    let output = checkpoint::files(&folder.path("Tiny-bf16"));
    assert_eq!(output["config.json"], CLEAN_CONFIG.as_bytes());
    assert_eq!(output["tokenizer.json"], TOKENIZER.as_bytes());
    assert!(!fs::symlink_metadata(folder.path("Tiny-bf16/tokenizer.json")).unwrap().is_symlink());
    assert!(amn("inspect hf:org/Tiny-AWQ@0123456").ok().contains("\nFiles:       2 ("));
    assert!(amn("verify hf:org/Tiny-AWQ").ok().ends_with("sound\n"));
    let missing = amn("remember hf:org/other").failed();
    assert!(missing.contains("hf download org/other"), "{missing}");
}

#[test]
fn weights_keep_the_names_that_loaders_look_for() {
    for base in ["diffusion_pytorch_model", "adapter_model"] {
        let folder = Folder::empty();
        fs::create_dir(folder.path("in")).unwrap();
        fs::write(folder.path(&format!("in/{base}.safetensors")), safetensors(&shards().concat())).unwrap();
        fs::write(folder.path("in/config.json"), CONFIG).unwrap();
        folder.amn("remember in -o one").ok();
        assert!(folder.path(&format!("one/{base}.safetensors")).is_file(), "{base}");
        folder.amn(&format!("remember in -o many {SMALL}")).ok();
        let files = checkpoint::files(&folder.path("many"));
        assert!(files.contains_key(&format!("{base}.safetensors.index.json")), "{:?}", files.keys());
        assert!(files.contains_key(&format!("{base}-00001-of-00006.safetensors")), "{:?}", files.keys());
        assert!(folder.amn("verify many").ok().ends_with("sound\n"));
        // Another number of files in place of these.
        folder.amn("remember in -o many --force").ok();
        assert_same_files(&folder.path("many"), &folder.path("one"));
    }
}

#[test]
fn adapters_are_decoded_and_not_quantised() {
    let folder = Folder::empty();
    fs::create_dir(folder.path("lora")).unwrap();
    let matrix = |side: &str| {
        checkpoint::Tensor::f32(&format!("base_model.model.layers.0.q_proj.lora_{side}.weight"), [64, 64], 0.5)
    };
    let weights = safetensors(&["A", "B"].map(matrix));
    fs::write(folder.path("lora/adapter_model.safetensors"), &weights).unwrap();
    fs::write(folder.path("lora/adapter_config.json"), r#"{"peft_type": "LORA"}"#).unwrap();
    fs::write(folder.path("kohya.safetensors"), &weights).unwrap();
    for target in ["nf4", "fp8", "w4a16", "q8_0"] {
        let error = folder.amn(&format!("forget lora --to {target} -o out")).refused();
        assert!(error.contains("adapter"), "{target}: {error}");
        let error = folder.amn(&format!("forget kohya.safetensors --to {target} -o out.any")).refused();
        assert!(error.contains("of an adapter") || error.contains("no weight"), "{target}: {error}");
    }
    folder.amn("remember lora --to bf16 --cast all -o out").ok();
    let names: Vec<_> = checkpoint::files(&folder.path("out")).into_keys().collect();
    assert_eq!(names, ["adapter_config.json", "adapter_model.safetensors"]);
}
