//! PyTorch files of every form give the tensors that torch itself reads from them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::support::{Contents, Folder, fixture};
use anamnesis::{
    AnamnesisError, Checkpoint, CpuLevel, DirectoryOptions, InspectSummary, OpenOptions, ParseLimits, PthDtype, Remedy,
    RememberOptions, TargetDtype, inspect_pth_from_reader, parse_pth, parse_pth_bytes, parse_pth_from_reader,
    parse_pth_front_matter_from_reader, pth_to_safetensors, pth_to_safetensors_bytes,
};
use serde_json::{Value, json};

/// A file with the options it is read with, and what is expected.
struct Case {
    name: String,
    input: PathBuf,
    options: OpenOptions,
    expected: Contents,
}

fn input(stem: &str) -> PathBuf {
    let paths = ["pth", "pt", "bin", "ckpt"].map(|end| fixture(&format!("pth/{stem}.{end}")));
    paths.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("no input for {stem}"))
}

fn options(name: &str) -> OpenOptions {
    let Ok(text) = std::fs::read(fixture(&format!("pth/{name}.options.json"))) else { return OpenOptions::new() };
    let values: Value = serde_json::from_slice(&text).unwrap();
    let is = |key: &str| values[key] == true;
    let options = OpenOptions::new().with_all(is("all")).with_skip_unsupported(is("skip_unsupported"));
    match values["select"].as_str() {
        Some(path) => options.with_select(path),
        None => options,
    }
}

fn cases() -> Vec<Case> {
    let entries = std::fs::read_dir(fixture("pth")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<_> = names
        .filter_map(|file| {
            let name = file.strip_suffix(".expected.safetensors")?.to_owned();
            let input = input(name.split('@').next().unwrap());
            let expected = Contents::read(fixture(&format!("pth/{file}")));
            Some(Case { input, options: options(&name), expected, name })
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn remembered(checkpoint: &Checkpoint, options: &RememberOptions) -> Contents {
    Contents::of(&checkpoint.plan(TargetDtype::BF16).unwrap().to_bytes(options).unwrap())
}

fn assert_same(name: &str, found: &Contents, expected: &Contents) {
    assert_eq!(found.names(), expected.names(), "{name}");
    for (tensor, wanted) in &expected.tensors {
        let found = &found.tensors[tensor];
        assert_eq!((&found.dtype, &found.shape), (&wanted.dtype, &wanted.shape), "{name}: {tensor}");
        assert_eq!(found.data, wanted.data, "{name}: {tensor}");
    }
}

#[test]
fn every_fixture_gives_the_tensors_that_torch_reads() {
    let cases = cases();
    assert!(cases.len() >= 21, "{}", cases.len());
    for case in cases {
        let checkpoint =
            Checkpoint::open_with(&case.input, &case.options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_same(&case.name, &remembered(&checkpoint, &RememberOptions::new()), &case.expected);
    }
}

#[test]
fn parsing_gives_the_same_tensors_from_a_file_from_bytes_and_from_a_reader() {
    for case in cases().into_iter().filter(|case| !case.name.contains('@')) {
        let bytes = std::fs::read(&case.input).unwrap();
        let from_reader = parse_pth_from_reader(&bytes[..]).unwrap();
        for parsed in [parse_pth(&case.input).unwrap(), parse_pth_bytes(bytes.clone()).unwrap(), from_reader] {
            let name = &case.name;
            let tensors = parsed.tensors().unwrap();
            assert_eq!(tensors.len(), case.expected.tensors.len(), "{name}");
            for (tensor, info) in tensors.iter().zip(parsed.tensor_info()) {
                let wanted = &case.expected.tensors[&tensor.name];
                assert_eq!(tensor.data, wanted.data, "{name}: {}", tensor.name);
                assert_eq!((&info.shape, info.byte_len), (&wanted.shape, wanted.data.len()), "{name}: {}", tensor.name);
                assert_eq!(info.dtype.to_string(), wanted.dtype, "{name}: {}", tensor.name);
            }
            let inside = Contents::of(&parsed.to_safetensors_bytes().unwrap());
            assert_same(name, &inside, &case.expected);
            assert_same(name, &Contents::of(&pth_to_safetensors_bytes(&tensors).unwrap()), &case.expected);
        }
        let front = parse_pth_front_matter_from_reader(std::io::Cursor::new(&bytes)).unwrap();
        assert_eq!(front.tensors, parse_pth(&case.input).unwrap().tensor_info(), "{}", case.name);
    }
}

#[test]
fn contiguous_tensors_are_borrowed_from_the_file() {
    let parsed = parse_pth(fixture("pth/views.pth")).unwrap();
    for tensor in parsed.tensors().unwrap() {
        let plain = ["scalar", "empty", "base", "row", "parameter"].contains(&tensor.name.as_str());
        assert_eq!(matches!(tensor.data, Cow::Borrowed(_)), plain, "{}", tensor.name);
    }
    let big = parse_pth(fixture("pth/big_endian.pth")).unwrap();
    for tensor in big.tensors().unwrap() {
        let borrowed = matches!(tensor.data, Cow::Borrowed(_));
        assert_eq!(borrowed, tensor.dtype.byte_size() == 1, "{}", tensor.name);
    }
}

#[test]
fn the_order_is_that_of_the_pickle() {
    let names: Vec<_> =
        parse_pth(fixture("pth/checkpoint.pth")).unwrap().tensor_info().into_iter().map(|t| t.name).collect();
    assert_eq!(names[..3], ["0.weight", "0.bias", "1.weight"]);
}

#[test]
fn a_summary_has_the_documented_form() {
    let file = std::fs::File::open(fixture("pth/big_endian.pth")).unwrap();
    let info = inspect_pth_from_reader(file).unwrap();
    assert_eq!(info.tensor_count(), 12);
    assert_eq!(
        info.to_string(),
        "Format:      PyTorch state_dict (.pth)\nTensors:     12\nTotal size:  675 B\n\
         Dtypes:      F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL, C64\nByte order:  big-endian"
    );
    assert_eq!(format!("{:?}", info.dtypes[0]), "F64");
    assert_eq!(PthDtype::BF16.byte_size(), 2);
}

fn notes(stem: &str, options: &OpenOptions) -> String {
    let notes = Checkpoint::open_with(input(stem), options).unwrap().notes().to_vec();
    notes.iter().map(|note| format!("{note}\n")).collect()
}

#[test]
fn remedies_of_notes_are_data() {
    let remedies = |stem: &str| -> Vec<_> {
        let checkpoint = Checkpoint::open(input(stem), &ParseLimits::default()).unwrap();
        checkpoint.notes().iter().filter_map(|note| note.remedy.clone()).collect()
    };
    assert_eq!(remedies("checkpoint"), [Remedy::TakeAllOrChoose { path: None }]);
    assert_eq!(remedies("views"), []);
}

#[test]
fn skipped_entries_are_noted() {
    let told = notes("checkpoint", &OpenOptions::new());
    for part in ["read the tensors under \"state_dict\"", "left out \"optimizer\", \"step\", \"mean\""] {
        assert!(told.contains(part), "{told}");
    }
    let told = notes("checkpoint", &OpenOptions::new().with_all(true));
    assert!(told.contains("values that are not tensors: \"epoch\""), "{told}");
    let told = notes("other_kinds", &OpenOptions::new().with_skip_unsupported(true));
    assert!(told.contains("left out \"quantised\", \"sparse\", \"wide\""), "{told}");
    let told = notes("views", &OpenOptions::new());
    assert!(told.contains("\"base\"") && told.contains("share storage"), "{told}");
    assert!(!notes("protocol2", &OpenOptions::new()).contains("share"));
}

#[test]
fn unsupported_tensor_kinds_are_refused_by_name() {
    let error = parse_pth(fixture("pth/other_kinds.pth")).unwrap_err();
    let AnamnesisError::Unsupported { format, detail } = &error else { panic!("{error}") };
    assert_eq!(format, "pth");
    assert!(detail.contains("\"quantised\"") && !detail.contains("--"), "{detail}");
    let error = Checkpoint::open(fixture("pth/other_kinds.pth"), &ParseLimits::default()).err().unwrap();
    let AnamnesisError::TensorNotRead { remedy, .. } = &error else { panic!("{error}") };
    assert_eq!(*remedy, Remedy::LeaveOut);
    assert!(error.to_string().contains("\"quantised\""), "{error}");
}

#[test]
fn a_pickled_module_is_refused_as_code() {
    let error = parse_pth(fixture("pth/whole_module.pth")).unwrap_err();
    let AnamnesisError::DisallowedGlobal { module, name } = &error else { panic!("{error}") };
    assert_eq!((module.as_str(), name.as_str()), ("torch.nn.modules.container", "Sequential"));
}

#[test]
fn an_unknown_path_is_reported_with_the_known_ones() {
    let options = OpenOptions::new().with_select("optimizer.stat");
    let error = Checkpoint::open_with(input("checkpoint"), &options).err().unwrap().to_string();
    assert!(error.contains("\"stat\"") && error.contains("\"state\", \"param_groups\""), "{error}");
}

#[test]
fn quantised_weights_in_a_pytorch_file_are_decoded_as_in_any_other() {
    let case = std::fs::read_to_string(fixture("pth/gptq.case")).unwrap();
    let case = case.trim();
    let folder = Folder::new();
    std::fs::copy(fixture("pth/gptq.bin"), folder.path("model.bin")).unwrap();
    if let Ok(config) = std::fs::read(fixture(&format!("gptq/{case}.config.json"))) {
        folder.write("config.json", config);
    }
    let checkpoint = Checkpoint::open(folder.path("model.bin"), &ParseLimits::default()).unwrap();
    let expected = Contents::read(fixture(&format!("gptq/{case}.expected.safetensors")));
    for level in CpuLevel::available() {
        let found = remembered(&checkpoint, &RememberOptions::new().with_cpu_level(level));
        let mut compared = 0;
        for (name, wanted) in expected.tensors.iter().filter_map(|(name, t)| Some((name.strip_suffix(".bf16")?, t))) {
            assert_eq!(found.tensors[name].data, wanted.data, "{name} at {level}");
            compared += 1;
        }
        assert!(compared > 0);
    }
}

/// A directory with two PyTorch shards.
fn sharded(total_size: u64) -> Folder {
    let folder = Folder::new();
    for (shard, file) in
        [("protocol2.pth", "pytorch_model-00001-of-00002.bin"), ("bare.pt", "pytorch_model-00002-of-00002.bin")]
    {
        std::fs::copy(fixture(&format!("pth/{shard}")), folder.path(file)).unwrap();
    }
    let index = json!({
        "metadata": { "total_size": total_size },
        "weight_map": {
            "w": "pytorch_model-00001-of-00002.bin",
            "b": "pytorch_model-00001-of-00002.bin",
            "tensor": "pytorch_model-00002-of-00002.bin",
        },
    });
    folder.write("pytorch_model.bin.index.json", index.to_string());
    folder.write("config.json", r#"{"torch_dtype": "float32"}"#);
    folder.write("tokenizer.json", "{}");
    folder
}

#[test]
fn a_sharded_checkpoint_becomes_safetensors_shards() {
    // Tensors that share a storage are counted once in such an index, so its total may be smaller.
    let folder = sharded(1);
    let out = Folder::new();
    let paths =
        [folder.path(""), folder.path("pytorch_model.bin.index.json"), folder.path("pytorch_model-00001-of-00002.bin")];
    for (number, path) in paths.iter().enumerate() {
        let checkpoint = Checkpoint::open(path, &ParseLimits::default()).unwrap();
        assert_eq!((checkpoint.file_count(), checkpoint.tensor_count()), (2, 3), "{}", path.display());
        let plan = checkpoint.plan_directory(TargetDtype::BF16, &DirectoryOptions::new()).unwrap();
        let target = out.path(&number.to_string());
        plan.write(&target, &RememberOptions::new(), |_| {}).unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(&target).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["config.json", "model.safetensors", "tokenizer.json"]);
        let written = Contents::read(target.join("model.safetensors"));
        assert_eq!(written.names(), ["b", "tensor", "w"]);
        assert_eq!(written.metadata.unwrap()["format"], "pt");
    }
}

#[test]
fn an_index_that_the_files_contradict_is_refused() {
    let folder = sharded(1);
    std::fs::copy(fixture("pth/protocol2.pth"), folder.path("pytorch_model-00002-of-00002.bin")).unwrap();
    let error = Checkpoint::open(folder.path(""), &ParseLimits::default()).err().unwrap().to_string();
    assert!(error.contains("is in") && error.contains("again in"), "{error}");
}

#[test]
fn a_directory_with_one_pytorch_file_opens() {
    for (file, others) in [
        ("pytorch_model.bin", &["other.pth", "training_args.bin"][..]),
        ("model.pth", &["training_args.bin", "optimizer.pt", "rng_state.pth"]),
        ("consolidated.00.pth", &["params.json"]),
    ] {
        let folder = Folder::new();
        std::fs::copy(fixture("pth/protocol3.pth"), folder.path(file)).unwrap();
        others.iter().for_each(|other| drop(folder.write(other, "{}")));
        let checkpoint = Checkpoint::open(folder.path(""), &ParseLimits::default()).unwrap();
        assert_eq!(checkpoint.tensor_count(), 2, "{file}");
    }
    let folder = Folder::new();
    for file in ["a.pth", "b.pth"] {
        std::fs::copy(fixture("pth/protocol3.pth"), folder.path(file)).unwrap();
    }
    let error = Checkpoint::open(folder.path(""), &ParseLimits::default()).err().unwrap().to_string();
    assert!(error.contains("several models"), "{error}");
}

#[test]
fn tensors_in_memory_are_written_or_refused() {
    let parsed = parse_pth(fixture("pth/protocol2.pth")).unwrap();
    let mut tensors = parsed.tensors().unwrap();
    let folder = Folder::new();
    pth_to_safetensors(&tensors, folder.path("out.safetensors")).unwrap();
    parsed.to_safetensors(folder.path("same.safetensors")).unwrap();
    let [a, b] = ["out", "same"].map(|name| std::fs::read(folder.path(&format!("{name}.safetensors"))).unwrap());
    assert_eq!(a, b);
    tensors.push(tensors[0].clone());
    assert!(matches!(pth_to_safetensors_bytes(&tensors), Err(AnamnesisError::Parse { .. })));
    tensors.truncate(1);
    tensors[0].shape.push(2);
    assert!(matches!(pth_to_safetensors(&tensors, folder.path("wrong")), Err(AnamnesisError::Parse { .. })));
    assert!(!Path::new(&folder.path("wrong")).exists());
}

#[test]
fn limits_bound_tensors_assembled_from_views() {
    let limits = ParseLimits::unbounded().with_max_single_alloc(100);
    assert!(matches!(
        anamnesis::parse_pth_with_limits(fixture("pth/views.pth"), &limits),
        Err(AnamnesisError::LimitExceeded { limit: "max_single_alloc_bytes", .. })
    ));
    let items = ParseLimits::unbounded().with_max_item_count(3);
    let error = anamnesis::parse_pth_with_limits(fixture("pth/views.pth"), &items).unwrap_err();
    assert!(matches!(error, AnamnesisError::LimitExceeded { limit: "max_item_count", .. }), "{error}");
    let ratio = ParseLimits::unbounded().with_max_decompression_ratio(1);
    let error = anamnesis::parse_pth_with_limits(fixture("pth/deflated.pth"), &ratio).unwrap_err();
    assert!(matches!(error, AnamnesisError::LimitExceeded { limit: "max_decompression_ratio", .. }), "{error}");
}
