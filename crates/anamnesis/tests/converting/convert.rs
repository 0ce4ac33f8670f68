//! Every input is converted to every target: the same bytes for any number of threads, and the values of the reference.

use crate::support;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Contents, Folder, Model, Noise, Tensor, assert_mentions, difference, fixture, floats};
use anamnesis::convert::{convert, convert_bytes};
use anamnesis::{
    Cast, Checkpoint, ConvertOptions, ConvertTarget, CpuLevel, Dtype, GgufType, ParseLimits, Selection, TargetDtype,
    parse, parse_gguf, parse_npz,
};

/// An input in a folder of its own.
struct Input {
    label: &'static str,
    folder: Folder,
    path: PathBuf,
}

/// A fixture with the configuration that belongs to it.
fn staged(label: &'static str, file: &str) -> Input {
    let source = fixture(file);
    let folder = Folder::new();
    let path = folder.write(source.file_name().unwrap().to_str().unwrap(), std::fs::read(&source).unwrap());
    if let Ok(config) = std::fs::read(source.with_extension("config.json")) {
        folder.write("config.json", config);
    }
    Input { label, folder, path }
}

/// A safetensors file.
fn built(label: &'static str, model: &Model) -> Input {
    let folder = Folder::new();
    let path = folder.write("model.safetensors", model.bytes());
    Input { label, folder, path }
}

fn values(noise: &mut Noise, count: usize) -> Vec<f32> {
    (0..count).map(|_| noise.scale()).collect()
}

/// Plain tensors of several types, one of them larger than a tile and with rows that no block divides.
fn plain() -> Model {
    let mut noise = Noise(7);
    let half = |values: Vec<f32>| values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect::<Vec<_>>();
    Model::new()
        .metadata("format", "pt")
        .floats("layers.0.up.weight", &[301, 1031], &values(&mut noise, 301 * 1031))
        .tensor("layers.1.up.weight", "F16", &[33, 64], &half(values(&mut noise, 33 * 64)))
        .floats("embed_tokens.weight", &[8, 16], &values(&mut noise, 128))
        .floats("norm.weight", &[16], &values(&mut noise, 16))
        .tensor("steps", "I64", &[2], &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])
        .floats("scalar", &[], &[0.5])
}

/// FP8 in blocks, larger than a tile.
fn large_fp8() -> Model {
    let mut noise = Noise(11);
    let codes: Vec<u8> = noise.bytes(512 * 640).iter().map(|code| code & 0xbf).collect();
    Model::new().tensor("layers.0.up.weight", "F8_E4M3", &[512, 640], &codes).floats(
        "layers.0.up.weight_scale_inv",
        &[4, 5],
        &values(&mut noise, 20),
    )
}

/// The same plain tensors in a NumPy archive.
fn npz(label: &'static str) -> Input {
    let folder = Folder::new();
    let (bytes, _) = convert_bytes(&plain().bytes(), ConvertTarget::Npz, &ConvertOptions::new()).unwrap();
    let path = folder.write("model.npz", bytes);
    Input { label, folder, path }
}

/// One line per input format.
fn inputs() -> Vec<Input> {
    vec![
        built("plain", &plain()),
        built("fp8", &large_fp8()),
        staged("gptq", "gptq/int4_g16_asym_actorder_v1.safetensors"),
        staged("awq", "awq/gemm_g64.safetensors"),
        staged("bnb-nf4", "bnb/nf4_nested_b64_bfloat16.safetensors"),
        staged("bnb-int8", "bnb/int8_bias.safetensors"),
        staged("gguf", "gguf/several_types.gguf"),
        staged("big-endian gguf", "gguf/big_endian.gguf"),
        npz("npz"),
        staged("pth", "pth/checkpoint.pth"),
    ]
}

/// The expected content of the output, as safetensors.
fn decoded(input: &Input) -> Contents {
    let output = input.folder.path("decoded.safetensors");
    let checkpoint = Checkpoint::open_file(&input.path, &ParseLimits::default()).unwrap();
    checkpoint.plan(TargetDtype::BF16).unwrap().write(&output, &Default::default(), |_| {}).unwrap();
    Contents::read(output)
}

fn gguf_contents(path: &Path) -> BTreeMap<String, Tensor> {
    let file = parse_gguf(path).unwrap();
    let tensor = |tensor: anamnesis::GgufTensor<'_>| {
        let shape = tensor.shape.iter().rev().copied().collect();
        (tensor.name.to_owned(), Tensor { dtype: tensor.dtype.to_string(), shape, data: tensor.data.to_vec() })
    };
    file.tensors().map(tensor).collect()
}

fn npz_contents(path: &Path) -> BTreeMap<String, Tensor> {
    let arrays = parse_npz(path).unwrap().into_iter();
    arrays
        .map(|(name, array)| (name, Tensor { dtype: array.dtype.to_string(), shape: array.shape, data: array.data }))
        .collect()
}

#[track_caller]
fn assert_same(case: &str, want: &BTreeMap<String, Tensor>, got: &BTreeMap<String, Tensor>) {
    assert_eq!(want.keys().collect::<Vec<_>>(), got.keys().collect::<Vec<_>>(), "{case}");
    for (name, want) in want {
        assert_eq!(difference(want, &got[name]), None, "{case}: {name}");
    }
}

/// The values of a tensor of floats.
fn wide(tensor: &Tensor) -> Vec<f32> {
    let halves = || tensor.data.chunks_exact(2).map(|bytes| u16::from_le_bytes(bytes.try_into().unwrap()));
    match tensor.dtype.as_str() {
        "F32" => floats(&tensor.data),
        "BF16" => halves().map(|bits| half::bf16::from_bits(bits).to_f32()).collect(),
        "F16" => halves().map(|bits| half::f16::from_bits(bits).to_f32()).collect(),
        _ => Vec::new(),
    }
}

/// The mean error of a quantised output, relative to the mean magnitude.
fn distance(want: &Contents, got: &Contents) -> f64 {
    let (mut off, mut size) = (0.0, 0.0);
    for (name, want) in &want.tensors {
        for (x, y) in wide(want).into_iter().zip(wide(&got.tensors[name])) {
            off += f64::from((x - y).abs());
            size += f64::from(x.abs());
        }
    }
    off / size
}

#[test]
fn every_input_goes_to_every_target_whatever_the_threads_and_the_cpu_level() {
    for input in inputs() {
        let want = decoded(&input);
        // The blocks of the big-endian file are random: some values exceed the range of INT8.
        let is_random = input.label == "big-endian gguf";
        // Mixes differ only in the types they select; a few of them are tested with all inputs, the others with one.
        let is_tried = |target: &ConvertTarget| {
            let is_mix = target.is_quantized() && target.extension() == "gguf";
            !is_mix || input.label == "plain" || ["q4_k_m", "q8_0", "iq4_xs"].contains(&target.name())
        };
        // Safetensors targets need rows that groups divide, and most need a configuration: they have their own tests.
        let is_possible = |target: &ConvertTarget| match target.is_quantized() {
            true => !is_random && (target.extension() == "gguf" || target.name().starts_with("bnb-")),
            // Directories have their own tests.
            false => *target != ConvertTarget::Hf,
        };
        for target in ConvertTarget::all().filter(is_tried).filter(is_possible) {
            let case = format!("{} to {target}", input.label);
            let output = input.folder.path(&format!("out.{target}.{}", target.extension()));
            let options = ConvertOptions::new();
            let stats = match convert(&input.path, target, &output, &options.clone().with_threads(1)) {
                // Types of the fewest bits need an importance matrix.
                Err(error) if target.name().starts_with("iq") || target.name() == "q2_k_s" => {
                    assert_mentions(&error.to_string(), &["needs an importance matrix"]);
                    continue;
                }
                result => result.unwrap_or_else(|error| panic!("{case}: {error}")),
            };
            let bytes = std::fs::read(&output).unwrap();
            for level in CpuLevel::available() {
                let options = options.clone().with_threads(4).with_cpu_level(level);
                let again = convert(&input.path, target, &output, &options).unwrap();
                assert_eq!(stats, again, "{case} at {level}");
                assert!(bytes == std::fs::read(&output).unwrap(), "{case}: other bytes with four threads at {level}");
            }
            assert_eq!(stats.tensors, want.tensors.len(), "{case}");
            match target {
                ConvertTarget::Safetensors => assert_same(&case, &want.tensors, &Contents::of(&bytes).tensors),
                ConvertTarget::Npz => assert_same(&case, &want.tensors, &npz_contents(&output)),
                ConvertTarget::Gguf if input.label == "gguf" => {
                    assert_same(&case, &gguf_contents(&input.path), &gguf_contents(&output));
                    assert_eq!((stats.dequantized, stats.passthrough), (0, stats.tensors));
                }
                ConvertTarget::Gguf => {
                    let keeps_blocks = input.label.ends_with("gguf");
                    let options = if keeps_blocks { options.with_output_dtype(Dtype::BF16) } else { options };
                    convert(&input.path, target, &output, &options).unwrap();
                    let mut want = want.tensors.clone();
                    for tensor in want.values_mut().filter(|tensor| tensor.shape.is_empty()) {
                        tensor.shape = vec![1];
                    }
                    assert_same(&case, &want, &gguf_contents(&output));
                }
                _ if target.extension() == "gguf" => {
                    check_blocks(&case, &input, target, &want, &output, stats.quantized)
                }
                _ => check_quantised(&case, &input, target, &want, &bytes, stats.quantized),
            }
        }
    }
}

/// A quantised output decodes to nearly the input, and converting through plain safetensors gives the same bytes.
fn check_quantised(case: &str, input: &Input, target: ConvertTarget, want: &Contents, bytes: &[u8], quantised: usize) {
    let path = input.folder.write("quantised.safetensors", bytes);
    let back = input.folder.path("back.safetensors");
    parse(&path).unwrap().remember(&back, TargetDtype::F32).unwrap();
    let distance = distance(want, &Contents::read(back));
    let limit = if target == ConvertTarget::BnbInt8 { 0.02 } else { 0.2 };
    assert!(quantised > 0 && distance > 0.0 && distance < limit, "{case}: {quantised} weights, distance {distance}");
    let decoded = std::fs::read(input.folder.path("decoded.safetensors")).unwrap();
    let (in_two_steps, _) = convert_bytes(&decoded, target, &ConvertOptions::new()).unwrap();
    assert!(Contents::of(&in_two_steps).tensors == Contents::of(bytes).tensors, "{case}: two steps differ from one");
}

/// Blocks decode to nearly the input, and converting through plain safetensors gives the same blocks.
fn check_blocks(case: &str, input: &Input, target: ConvertTarget, want: &Contents, output: &Path, quantised: usize) {
    let back = input.folder.path("back.safetensors");
    convert(output, ConvertTarget::Safetensors, &back, &ConvertOptions::new().with_output_dtype(Dtype::F32)).unwrap();
    let distance = distance(want, &Contents::read(&back));
    // Rows of few values: ternary codes are far from most of them.
    let limit = if target.name().starts_with("tq") { 0.9 } else { 0.35 };
    assert!(quantised > 0 && distance < limit, "{case}: {quantised} weights, distance {distance}");
    // Blocks are decoded to more precision than BF16, or copied.
    if input.label.ends_with("gguf") {
        return;
    }
    let decoded = input.folder.path("decoded.safetensors");
    let in_two_steps = input.folder.path("two-steps.gguf");
    convert(&decoded, target, &in_two_steps, &ConvertOptions::new()).unwrap();
    assert_same(case, &gguf_contents(output), &gguf_contents(&in_two_steps));
}

#[test]
fn quantised_files_are_those_of_bitsandbytes() {
    let mut cases = 0;
    for entry in std::fs::read_dir(fixture("lethe")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let target = match name.split('_').next().unwrap() {
            "nf4" => ConvertTarget::BnbNf4,
            "fp4" => ConvertTarget::BnbFp4,
            "int8" => ConvertTarget::BnbInt8,
            _ => continue,
        };
        let mut want = Contents::read(&path).tensors;
        let source = want.remove("source").unwrap();
        let model = Model::new().tensor("weight", &source.dtype, &source.shape, &source.data);
        let mut options = ConvertOptions::new().with_double_quant(name.contains("nested"));
        let state = want.iter().find(|(name, _)| name.contains("quant_state")).map(|(_, state)| state.data.clone());
        if let Some(state) = state {
            let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
            options = options.with_block_size(state["blocksize"].as_u64().unwrap() as usize);
        }
        let result = convert_bytes(&model.bytes(), target, &options);
        if target == ConvertTarget::BnbInt8 && wide(&source).iter().any(|value| value.abs() >= 65520.0) {
            // bitsandbytes writes infinities there.
            assert_mentions(&result.unwrap_err().to_string(), &["weight", "F16"]);
            continue;
        }
        let (bytes, _) = result.unwrap();
        let mut got = Contents::of(&bytes).tensors;
        // The modules of bitsandbytes write it, its functions do not.
        got.remove("weight_format");
        for (name, state) in got.iter_mut().filter(|(name, _)| name.contains("quant_state")) {
            // The mean of nested scales may be padded with spaces, so that the length does not depend on it.
            state.data.truncate(state.data.trim_ascii_end().len());
            state.shape = vec![state.data.len()];
            assert_eq!(state.data, want[name].data, "{}", path.display());
        }
        assert!(want == got, "{}: {:?} {:?}", path.display(), want.keys(), got.keys());
        cases += 1;
    }
    assert!(cases > 90, "{cases}");
}

#[test]
fn gguf_keeps_every_key_and_value_but_those_about_its_own_bytes() {
    let input = staged("gguf", "gguf/several_types.gguf");
    let output = input.folder.path("out.gguf");
    let name = anamnesis::GgufMetadataValue::String("renamed".to_owned());
    let options = ConvertOptions::new()
        .with_gguf_metadata([("general.name".to_owned(), name.clone())].into())
        .with_gguf_removed("general.architecture");
    let stats = convert(&input.path, ConvertTarget::Gguf, &output, &options).unwrap();
    assert_eq!(stats.dropped_metadata, 1);
    let (before, after) = (parse_gguf(&input.path).unwrap(), parse_gguf(&output).unwrap());
    let mut want = before.metadata().clone();
    assert!(want.len() > 10 && want.values().any(|value| value.as_array().is_some()));
    want.remove("general.architecture").unwrap();
    want.insert("general.name".to_owned(), name);
    want.insert("general.alignment".to_owned(), anamnesis::GgufMetadataValue::U32(32));
    assert_eq!(after.metadata(), &want);
    let removed = ConvertOptions::new().with_gguf_removed("no.such.key");
    assert!(convert(&input.path, ConvertTarget::Gguf, &output, &removed).is_err());
    // Other formats cannot store them and count them.
    let (_, stats) =
        convert_bytes(&std::fs::read(&input.path).unwrap(), ConvertTarget::Safetensors, &ConvertOptions::new())
            .unwrap();
    assert_eq!(stats.dropped_metadata, before.metadata().len());
}

#[test]
fn a_merged_split_model_has_no_split_metadata() {
    use anamnesis::{GgufMetadataValue as Value, GgufWriteTensor, write_gguf};
    let folder = Folder::new();
    for part in 0..2u16 {
        let mut metadata: std::collections::HashMap<_, _> = [
            ("split.no".to_owned(), Value::U16(part)),
            ("split.count".to_owned(), Value::U16(2)),
            ("split.tensors.count".to_owned(), Value::I32(2)),
        ]
        .into();
        if part == 0 {
            metadata.insert("general.architecture".to_owned(), Value::String("llama".to_owned()));
        }
        let name = ["a", "b"][usize::from(part)];
        let tensor = GgufWriteTensor { name, shape: &[2], dtype: GgufType::I8, data: &[1, 2] };
        write_gguf(folder.path(&format!("m-0000{}-of-00002.gguf", part + 1)), &[tensor], &metadata).unwrap();
    }
    let output = folder.path("whole.gguf");
    let first = folder.path("m-00001-of-00002.gguf");
    convert(&first, ConvertTarget::Gguf, &output, &ConvertOptions::new()).unwrap();
    let whole = parse_gguf(output).unwrap();
    let mut keys: Vec<_> = whole.metadata().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!((whole.len(), keys), (2, vec!["general.alignment", "general.architecture"]));
}

#[test]
fn plain_floats_are_cast_only_on_request() {
    let model = plain().bytes();
    let convert = |options: &ConvertOptions| {
        let (bytes, stats) = convert_bytes(&model, ConvertTarget::Safetensors, options).unwrap();
        (Contents::of(&bytes), stats)
    };
    let (kept, stats) = convert(&ConvertOptions::new().with_output_dtype(Dtype::F32));
    assert_eq!(kept, Contents::of(&model), "nothing to do");
    assert_eq!((stats.passthrough, stats.cast), (6, 0));
    let (cast, stats) = convert(&ConvertOptions::new().with_output_dtype(Dtype::F16).with_cast(Cast::All));
    assert_eq!((stats.passthrough, stats.cast), (2, 4));
    for (name, tensor) in &kept.tensors {
        let want = match tensor.dtype.as_str() {
            "F32" => support::rounded(&floats(&tensor.data), TargetDtype::F16),
            _ => tensor.data.clone(),
        };
        assert_eq!(cast.tensors[name].data, want, "{name}");
    }
    let refused = convert_bytes(&model, ConvertTarget::Gguf, &ConvertOptions::new().with_output_dtype(Dtype::I8));
    assert_mentions(&refused.unwrap_err().to_string(), &["I8", "BF16, F16 or F32"]);
}

#[test]
fn tensors_are_chosen_and_renamed_by_the_names_of_weights() {
    let model = large_fp8().floats("layers.0.bias", &[2], &[1.0, 2.0]).floats("head.weight", &[1], &[3.0]).bytes();
    let names = |selection: anamnesis::Result<Selection>| {
        let options = ConvertOptions::new().with_selection(selection.unwrap());
        let result = convert_bytes(&model, ConvertTarget::Safetensors, &options);
        result.map(|(bytes, _)| Contents::of(&bytes).names().join(" ")).map_err(|error| error.to_string())
    };
    let new = Selection::new;
    assert_eq!(names(Ok(new())).unwrap(), "head.weight layers.0.bias layers.0.up.weight");
    assert_eq!(names(new().with_include("layers.*.weight")).unwrap(), "layers.0.up.weight");
    assert_eq!(names(new().with_exclude("*.bias")).unwrap(), "head.weight layers.0.up.weight");
    let renamed = new().with_strip_prefix("layers.").and_then(|all| all.with_rename(r"s/^(\d+)/blk.\1/"));
    assert_eq!(
        names(renamed.map(|all| all.with_prefix("x."))).unwrap(),
        "x.blk.0.bias x.blk.0.up.weight x.head.weight"
    );
    let twice = names(new().with_rename("s/.*/same/")).unwrap_err();
    assert_mentions(&twice, &["layers.0.up.weight", "head.weight", "both be named \"same\""]);
    assert_mentions(&names(new().with_include("no*such")).unwrap_err(), &["no tensor matches", "no*such"]);
    assert_mentions(&names(new().with_exclude("*")).unwrap_err(), &["contains no tensor"]);
}

#[test]
fn unsupported_tensors_are_refused_by_name_before_anything_is_written() {
    let bools = |count: usize| {
        (0..count).fold(Model::new(), |model, index| model.tensor(&format!("mask.{index}"), "BOOL", &[2], &[0, 1]))
    };
    let folder = Folder::staged(&bools(5).bytes(), None);
    let refuse = |options: &ConvertOptions| {
        convert(&folder.model(), ConvertTarget::Gguf, &folder.path("out.gguf"), options).unwrap_err().to_string()
    };
    assert_mentions(&refuse(&ConvertOptions::new()), &["gguf", "mask.0", "BOOL", "and 2 more"]);
    assert_eq!(folder.names(), ["model.safetensors"]);
    let empty = Model::new().floats("none", &[0, 4], &[]).bytes();
    let error = convert_bytes(&empty, ConvertTarget::Gguf, &ConvertOptions::new()).unwrap_err().to_string();
    assert_mentions(&error, &["none", "[0, 4]"]);
}

#[test]
fn nonfinite_values_are_refused_with_their_position() {
    let mut numbers = vec![1.0; 128];
    numbers[77] = f32::NAN;
    let model = Model::new().floats("up.weight", &[2, 64], &numbers).floats("down.weight", &[2, 64], &[1.0; 128]);
    let folder = Folder::staged(&model.bytes(), None);
    for target in [ConvertTarget::BnbNf4, ConvertTarget::BnbInt8] {
        let output = folder.path("out.safetensors");
        let error = convert(&folder.model(), target, &output, &ConvertOptions::new()).unwrap_err().to_string();
        assert_mentions(&error, &["up.weight", "value 77 is NaN"]);
        assert_eq!(folder.names(), ["model.safetensors"]);
        let kept = ConvertOptions::new().with_kept("up.*").unwrap();
        assert_eq!(convert(&folder.model(), target, &output, &kept).unwrap().quantized, 1);
        std::fs::remove_file(output).unwrap();
    }
    let mut wild = numbers.clone();
    (wild[3], wild[70], wild[77]) = (2.5, f32::NEG_INFINITY, f32::NAN);
    let tame = |values: &[f32]| {
        let model = Model::new().floats("up.weight", &[2, 64], values).bytes();
        convert_bytes(&model, ConvertTarget::BnbNf4, &ConvertOptions::new().with_allow_nonfinite(true)).unwrap().0
    };
    let replaced = tame(&wild);
    (wild[70], wild[77]) = (-1.0, 0.0);
    assert!(replaced == tame(&wild), "NaN is zero, infinity the largest under its scale");
    let huge = Model::new().floats("up.weight", &[1, 4], &[0.0, 0.0, -70000.0, 0.0]).bytes();
    let error = convert_bytes(&huge, ConvertTarget::BnbInt8, &ConvertOptions::new()).unwrap_err().to_string();
    assert_mentions(&error, &["up.weight", "value 2 is -70000", "F16"]);
}

#[test]
fn the_measured_error_is_that_of_the_file() {
    let folder = Folder::staged(&plain().bytes(), None);
    let checkpoint = Checkpoint::open_file(folder.model(), &ParseLimits::default()).unwrap();
    for double_quant in [false, true] {
        let options = ConvertOptions::new().with_measure(true).with_double_quant(double_quant);
        let run = |threads| {
            let plan = checkpoint.plan_convert(ConvertTarget::BnbNf4, &options.clone().with_threads(threads)).unwrap();
            plan.to_bytes(|_| {}).unwrap()
        };
        let ((bytes, report), (_, again)) = (run(1), run(4));
        assert_eq!(report, again, "sums depend on the threads");
        assert_eq!(report.errors.len(), 2);
        let path = folder.write("nf4.safetensors", bytes);
        let back = parse(path).unwrap().remember_to_bytes(TargetDtype::F32).unwrap();
        let (before, after) = (Contents::read(folder.model()), Contents::of(&back));
        let error = report.errors.iter().find(|error| error.name == "layers.0.up.weight").unwrap();
        let pairs = before.floats(&error.name).into_iter().zip(after.floats(&error.name));
        let (mut absolute, mut squared, mut energy) = (0.0, 0.0, 0.0);
        for (x, y) in pairs {
            let (x, y) = (f64::from(x), f64::from(y));
            absolute += (x - y).abs();
            squared += (x - y) * (x - y);
            energy += x * x;
        }
        let count = error.values as f64;
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        assert!(near(error.mean_absolute, absolute / count) && near(error.mean_squared, squared / count), "{error:?}");
        assert!(near(error.sqnr, 10.0 * (energy / squared).log10()) && error.cosine > 0.99, "{error:?}");
    }
}

#[test]
fn a_quantised_directory_has_a_quantization_config() {
    let folder = Folder::new();
    let model = plain().floats("lm_head.weight", &[2, 16], &[0.5; 32]).bytes();
    std::fs::create_dir(folder.path("in")).unwrap();
    folder.write("in/model.safetensors", model);
    folder.write("in/config.json", "{\n  \"torch_dtype\": \"float32\",\n  \"model_type\": \"llama\"\n}\n");
    folder.write("in/tokenizer.json", "{}");
    let options = ConvertOptions::new().with_double_quant(true).with_kept("layers.1.*").unwrap();
    let stats = convert(&folder.path("in"), ConvertTarget::BnbNf4, &folder.path("out"), &options).unwrap();
    assert_eq!((stats.quantized, stats.passthrough), (1, 6));
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path("out/config.json")).unwrap()).unwrap();
    assert_eq!(config["torch_dtype"], "float32", "nothing was decoded");
    let quantisation = &config["quantization_config"];
    assert_eq!(quantisation["quant_method"], "bitsandbytes");
    assert_eq!(quantisation["bnb_4bit_quant_type"], "nf4");
    assert_eq!(quantisation["bnb_4bit_use_double_quant"], true);
    assert_eq!(quantisation["bnb_4bit_compute_dtype"], "float32");
    assert_eq!(quantisation["llm_int8_skip_modules"], serde_json::json!(["layers.1.up", "lm_head"]));
    assert!(folder.path("out/tokenizer.json").is_file());
    let back = folder.path("back");
    convert(&folder.path("out"), ConvertTarget::Safetensors, &back, &ConvertOptions::new()).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(back.join("config.json")).unwrap()).unwrap();
    assert!(config.get("quantization_config").is_none());
    // Single-file formats give one file.
    convert(&folder.path("in"), ConvertTarget::Gguf, &folder.path("model.gguf"), &ConvertOptions::new()).unwrap();
    assert!(parse_gguf(folder.path("model.gguf")).unwrap().tensors().any(|tensor| tensor.dtype == GgufType::F16));
}

#[test]
fn the_suffix_weight_is_added_only_where_needed() {
    let model = Model::new().floats("W_enc", &[2, 64], &[0.5; 128]).floats("x.weight", &[2, 64], &[0.5; 128]).bytes();
    let names = |options: &ConvertOptions| {
        let (bytes, _) = convert_bytes(&model, ConvertTarget::BnbNf4, options).unwrap();
        Contents::of(&bytes)
            .tensors
            .into_iter()
            .filter(|(_, tensor)| tensor.dtype == "U8")
            .map(|(name, _)| name)
            .collect()
    };
    let by_default: Vec<String> = names(&ConvertOptions::new());
    let state = ".quant_state.bitsandbytes__nf4";
    let both = ["W_enc.weight", "x.weight"].map(|name| [name.to_owned(), format!("{name}{state}")]).concat();
    assert_eq!(by_default, both);
    let asked: Vec<String> = names(&ConvertOptions::new().with_quantized("W_*").unwrap());
    assert_eq!(asked, ["W_enc.weight", "W_enc.weight.quant_state.bitsandbytes__nf4"]);
    let odd = ConvertOptions::new().with_block_size(48);
    assert!(convert_bytes(&model, ConvertTarget::BnbNf4, &odd).is_err());
    assert!(convert_bytes(&model, ConvertTarget::BnbInt8, &ConvertOptions::new().with_double_quant(true)).is_err());
}
