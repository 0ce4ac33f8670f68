//! An output is complete or absent, never overwrites its input, and has the bytes of the reference serializer.

use crate::support;
use std::collections::HashMap;
use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc;

use crate::support::{Contents, Folder, Model, Noise, assert_mentions, parse_reason, rounded};
use anamnesis::{
    AnamnesisError, CancelToken, Checkpoint, Existing, ParseLimits, Progress, RememberOptions, TargetDtype, parse,
    parse_bytes,
};
use safetensors::{Dtype, SafeTensors, serialize, tensor::TensorView};

fn small() -> Model {
    Model::new()
        .metadata("format", "pt")
        .floats("a.weight_scale", &[1], &[0.5])
        .tensor("a.weight", "F8_E4M3", &[2, 2], &[0x38; 4])
        .tensor("b", "U8", &[2], b"bb")
}

/// Weights of many tiles each, all without a scale.
fn many_tiles(weights: usize) -> Model {
    let add =
        |model: Model, index| model.tensor(&format!("w{index}"), "F8_E4M3", &[1000, 1000], &vec![0x38; 1_000_000]);
    (0..weights).fold(Model::new(), add)
}

#[track_caller]
fn io_kind(error: AnamnesisError) -> (ErrorKind, String) {
    match error {
        AnamnesisError::Io(error) => (error.kind(), error.to_string()),
        other => panic!("expected an I/O error, got {other:?}"),
    }
}

// Output paths

#[test]
fn the_input_is_refused_as_output_under_its_own_name() {
    let bytes = small().bytes();
    let folder = Folder::staged(&bytes, None);
    let model = parse(folder.model()).unwrap();
    std::fs::create_dir(folder.path("sub")).unwrap();
    for output in ["model.safetensors", "./model.safetensors", "sub/../model.safetensors"].map(|name| folder.path(name))
    {
        let (_, text) = io_kind(model.remember(&output, TargetDtype::BF16).unwrap_err());
        assert_mentions(&text, &["model.safetensors", "input"]);
    }
    assert_eq!(std::fs::read(folder.model()).unwrap(), bytes);
    assert_eq!(folder.names(), ["model.safetensors", "sub"]);
}

#[cfg(unix)]
#[test]
fn the_input_is_refused_as_output_under_any_link() {
    let bytes = small().bytes();
    let folder = Folder::staged(&bytes, None);
    std::fs::hard_link(folder.model(), folder.path("hard")).unwrap();
    std::os::unix::fs::symlink(folder.model(), folder.path("soft")).unwrap();
    std::os::unix::fs::symlink("soft", folder.path("softer")).unwrap();
    for (input, output) in
        [("model.safetensors", "hard"), ("model.safetensors", "softer"), ("soft", "model.safetensors")]
    {
        let model = parse(folder.path(input)).unwrap();
        let (_, text) = io_kind(model.remember(folder.path(output), TargetDtype::BF16).unwrap_err());
        assert_mentions(&text, &[output, "input"]);
    }
    assert_eq!(std::fs::read(folder.model()).unwrap(), bytes);
    assert_eq!(folder.names(), ["hard", "model.safetensors", "soft", "softer"]);
}

#[test]
fn an_existing_file_is_refused_or_replaced_as_asked() {
    let folder = Folder::staged(&small().bytes(), None);
    let output = folder.write("out.safetensors", "old");
    let model = parse(folder.model()).unwrap();
    let remember = |existing| {
        let options = RememberOptions::new().with_existing(existing);
        model.remember_with_options(&output, TargetDtype::BF16, options)
    };
    let (kind, text) = io_kind(remember(Existing::Refuse).unwrap_err());
    assert_eq!(kind, ErrorKind::AlreadyExists);
    assert_mentions(&text, &["out.safetensors"]);
    assert_eq!(std::fs::read(&output).unwrap(), b"old");
    remember(Existing::Replace).unwrap();
    assert_eq!(Contents::read(&output).names(), ["a.weight", "b"]);
    assert_eq!(folder.names(), ["model.safetensors", "out.safetensors"]);
}

#[test]
fn an_output_that_cannot_be_created_is_named() {
    let folder = Folder::staged(&small().bytes(), None);
    let model = parse(folder.model()).unwrap();
    for output in ["missing/out.safetensors", "model.safetensors/out.safetensors"] {
        let (_, text) = io_kind(model.remember(folder.path(output), TargetDtype::BF16).unwrap_err());
        assert_mentions(&text, &[output.split('/').next().unwrap()]);
    }
    assert_eq!(io_kind(model.remember(folder.path(""), TargetDtype::BF16).unwrap_err()).0, ErrorKind::IsADirectory);
    assert_eq!(folder.names(), ["model.safetensors"]);
}

#[test]
fn a_name_that_the_system_refuses_leaves_nothing() {
    let folder = Folder::staged(&small().bytes(), None);
    let output = folder.path(&"x".repeat(300));
    io_kind(parse(folder.model()).unwrap().remember(output, TargetDtype::BF16).unwrap_err());
    assert_eq!(folder.names(), ["model.safetensors"]);
}

#[cfg(unix)]
#[test]
fn a_directory_that_may_not_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::staged(&small().bytes(), None);
    let closed = folder.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    let outcome = parse(folder.model()).unwrap().remember(closed.join("out"), TargetDtype::BF16);
    // Root may write everywhere; then the output must be complete instead.
    match outcome {
        Ok(()) => assert_eq!(Contents::read(closed.join("out")).names(), ["a.weight", "b"]),
        Err(error) => {
            let (kind, text) = io_kind(error);
            assert_eq!(kind, ErrorKind::PermissionDenied);
            assert_mentions(&text, &["closed"]);
        }
    }
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
}

// Cancellation

#[test]
fn a_conversion_cancelled_before_it_begins_writes_nothing() {
    let folder = Folder::staged(&small().bytes(), None);
    let token = CancelToken::new();
    token.cancel();
    let options = RememberOptions::new().with_cancel(token);
    let model = parse(folder.model()).unwrap();
    let error = model.remember_with_options(folder.path("out"), TargetDtype::BF16, options.clone()).unwrap_err();
    assert!(matches!(error, AnamnesisError::Cancelled));
    let error = model.remember_to_bytes_with_options(TargetDtype::BF16, options).unwrap_err();
    assert!(matches!(error, AnamnesisError::Cancelled));
    assert_eq!(folder.names(), ["model.safetensors"]);
}

/// A reader whose data waits until the test has seen the first progress.
struct Gated {
    inner: Cursor<Vec<u8>>,
    data: u64,
    gate: Option<mpsc::Receiver<()>>,
}

impl Read for Gated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.inner.position() >= self.data
            && let Some(gate) = self.gate.take()
        {
            gate.recv().expect("the conversion reports progress before its first tile is done");
        }
        self.inner.read(buffer)
    }
}

impl Seek for Gated {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.inner.seek(to)
    }
}

#[test]
fn a_conversion_cancelled_while_it_runs_leaves_the_old_file() {
    let bytes = many_tiles(3).bytes();
    let data = bytes.len() as u64 - 3_000_000;
    for threads in [1, 4] {
        let (open, gate) = mpsc::channel();
        let reader = Gated { inner: Cursor::new(bytes.clone()), data, gate: Some(gate) };
        let checkpoint = Checkpoint::from_reader(reader, &ParseLimits::default()).unwrap();
        let folder = Folder::new();
        let output = folder.write("out", "old");
        let token = CancelToken::new();
        let options = RememberOptions::new().with_threads(threads).with_cancel(token.clone());
        let mut last = Progress::default();
        let watch = |progress: &Progress| {
            last = *progress;
            token.cancel();
            let _ = open.send(());
        };
        let error = checkpoint.plan(TargetDtype::F32).unwrap().write(&output, &options, watch).unwrap_err();
        assert!(matches!(error, AnamnesisError::Cancelled), "{error}");
        assert!(last.bytes < last.total_bytes);
        assert_eq!(std::fs::read(&output).unwrap(), b"old");
        assert_eq!(folder.names(), ["out"]);
    }
}

#[test]
fn an_input_truncated_after_opening_is_an_error_and_no_output() {
    let folder = Folder::staged(&many_tiles(1).bytes(), None);
    let model = parse(folder.model()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(folder.model()).unwrap();
    for length in [900_000, 200, 0] {
        file.set_len(length).unwrap();
        let error = model.remember(folder.path("out"), TargetDtype::BF16).unwrap_err();
        assert_mentions(&parse_reason(error), &["\"w0\""]);
        assert_eq!(folder.names(), ["model.safetensors"]);
    }
}

#[test]
fn a_reader_that_fails_while_converting_leaves_no_output() {
    /// Reads without errors until `fails_at`.
    struct Failing(Cursor<Vec<u8>>, u64);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.position() >= self.1 {
                return Err(std::io::Error::new(ErrorKind::TimedOut, "disk"));
            }
            self.0.read(buffer)
        }
    }

    impl Seek for Failing {
        fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
            self.0.seek(to)
        }
    }

    let reader = Failing(Cursor::new(many_tiles(1).bytes()), 500_000);
    let checkpoint = Checkpoint::from_reader(reader, &ParseLimits::default()).unwrap();
    let folder = Folder::new();
    let plan = checkpoint.plan(TargetDtype::BF16).unwrap();
    let (kind, text) = io_kind(plan.write(folder.path("out"), &RememberOptions::new(), |_| {}).unwrap_err());
    assert_eq!(kind, ErrorKind::TimedOut);
    assert_mentions(&text, &["\"w0\""]);
    assert_eq!(folder.names(), [""; 0]);
}

// Progress

#[test]
fn progress_grows_to_the_announced_totals() {
    let model =
        many_tiles(2).tensor("plain", "U8", &[2_100_000], &vec![0; 2_100_000]).tensor("empty", "F32", &[0], b"");
    let checkpoint = Checkpoint::from_bytes(model.bytes(), &ParseLimits::default()).unwrap();
    let plan = checkpoint.plan(TargetDtype::F32).unwrap();
    let mut seen: Vec<Progress> = Vec::new();
    let folder = Folder::new();
    plan.write(folder.path("out"), &RememberOptions::new().with_threads(2), |progress| seen.push(*progress)).unwrap();
    let last = seen.last().unwrap();
    assert_eq!((last.bytes, last.total_bytes), (10_100_000, 10_100_000));
    assert_eq!((last.tensors, last.total_tensors, last.decoded), (4, 4, 2));
    assert!(seen.is_sorted_by_key(|progress| (progress.bytes, progress.tensors, progress.decoded)));
    assert!(seen.len() > 20, "told only {} times", seen.len());
    assert_eq!(plan.total_bytes(), std::fs::metadata(folder.path("out")).unwrap().len());
}

#[test]
fn progress_is_reported_once_per_decoded_tensor() {
    let model = small().tensor("none.weight", "F8_E4M3", &[0, 4], b"").floats("none.weight_scale", &[1], &[1.0]);
    let folder = Folder::staged(&model.bytes(), None);
    let mut calls = 0;
    let parsed = parse(folder.model()).unwrap();
    parsed.remember_with_progress(folder.path("out"), TargetDtype::BF16, || calls += 1).unwrap();
    assert_eq!(calls, 2);
}

#[test]
fn a_plan_lists_the_output_tensors() {
    let checkpoint = Checkpoint::from_bytes(small().bytes(), &ParseLimits::default()).unwrap();
    let plan = checkpoint.plan(TargetDtype::BF16).unwrap();
    let output = plan.to_bytes(&RememberOptions::new()).unwrap();
    assert_eq!(plan.total_bytes(), output.len() as u64);
    assert_eq!(plan.decoded(), 1);
    let contents = Contents::of(&output);
    for planned in plan.tensors() {
        let written = &contents.tensors[&planned.name];
        assert_eq!((planned.dtype.to_string(), &planned.shape), (written.dtype.clone(), &written.shape));
        assert_eq!(output[planned.offset as usize..][..planned.bytes as usize], written.data);
        assert_eq!(planned.sources[0], planned.name);
        assert_eq!(planned.scheme.is_some(), planned.name == "a.weight");
    }
}

// Unusual tensors

#[test]
fn an_empty_model_becomes_an_empty_model() {
    for model in [Model::new(), Model::new().metadata("format", "pt")] {
        assert_eq!(support::remember(&model, None), Contents::of(&model.bytes()));
    }
}

#[test]
fn tensors_without_elements_keep_their_shape() {
    let model = Model::new()
        .tensor("a.weight", "F8_E4M3", &[0, 128], b"")
        .floats("a.weight_scale_inv", &[0, 1], &[])
        .tensor("b.weight", "F8_E4M3", &[128, 0], b"")
        .floats("b.weight_scale_inv", &[1, 0], &[])
        .tensor("c", "I64", &[3, 0, 2], b"");
    let output = support::remember(&model, None);
    let shapes: Vec<_> = output.tensors.values().map(|tensor| (tensor.dtype.as_str(), &tensor.shape[..])).collect();
    assert_eq!(shapes, [("F32", &[0, 128][..]), ("F32", &[128, 0]), ("I64", &[3, 0, 2])]);
}

#[test]
fn scalars_are_decoded_and_copied() {
    let model = Model::new().tensor("a", "F8_E4M3", &[], &[0x40]).floats("b", &[], &[1.5]);
    let output = support::remember(&model, None);
    assert_eq!((output.floats("a"), output.floats("b")), (vec![2.0], vec![1.5]));
    assert!(output.tensors["a"].shape.is_empty());
}

#[test]
fn stored_bytes_can_be_borrowed_from_any_source() {
    let folder = Folder::staged(&small().bytes(), None);
    for model in [parse(folder.model()).unwrap(), parse_bytes(small().bytes()).unwrap()] {
        assert_eq!(&*model.checkpoint().tensor_data("b").unwrap().unwrap(), b"bb");
        assert_eq!(&*model.checkpoint().tensor_data("a.weight").unwrap().unwrap(), &[0x38; 4]);
    }
}

// File content

#[test]
fn the_output_is_what_the_reference_serializer_writes() {
    let mut noise = Noise(7);
    let codes: Vec<u8> = (0..33).collect();
    let plain = [
        ("z", Dtype::F64, "F64", 8),
        ("y", Dtype::BOOL, "BOOL", 1),
        ("b", Dtype::BF16, "BF16", 2),
        ("c", Dtype::I64, "I64", 8),
        ("a", Dtype::U8, "U8", 1),
        ("f", Dtype::F16, "F16", 2),
        ("g", Dtype::I32, "I32", 4),
        ("h", Dtype::F32, "F32", 4),
        ("größe \"quoted\"\n", Dtype::I16, "I16", 2),
    ];
    let plain: Vec<_> =
        plain.into_iter().map(|(name, kind, dtype, width)| (name, kind, dtype, noise.bytes(3 * width))).collect();
    let model = Model::new().metadata("format", "pt").tensor("w", "F8_E4M3", &[3, 11], &codes);
    let model = plain.iter().fold(model, |model, (name, _, dtype, data)| model.tensor(name, dtype, &[3, 1], data));
    let table = support::code_table("e4m3fn");
    let values: Vec<f32> = codes.iter().map(|&code| table[usize::from(code)]).collect();
    for (target, kind) in
        [(TargetDtype::F32, Dtype::F32), (TargetDtype::BF16, Dtype::BF16), (TargetDtype::F16, Dtype::F16)]
    {
        let decoded = rounded(&values, target);
        let mut views = vec![("w", TensorView::new(kind, vec![3, 11], &decoded).unwrap())];
        let view = |data, kind| TensorView::new(kind, vec![3, 1], data).unwrap();
        views.extend(plain.iter().map(|(name, kind, _, data)| (*name, view(data, *kind))));
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let reference = serialize(views, Some(metadata)).unwrap();
        let written = parse_bytes(model.bytes()).unwrap().remember_to_bytes(target).unwrap();
        assert!(written == reference, "{}", String::from_utf8_lossy(&written[8..]));
    }
}

#[test]
fn the_output_can_be_read_by_the_reference_implementation() {
    let folder = Folder::staged(&small().bytes(), None);
    folder.remember(TargetDtype::BF16).unwrap();
    let bytes = std::fs::read(folder.path("out.safetensors")).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let weight = tensors.tensor("a.weight").unwrap();
    assert_eq!((weight.dtype(), weight.shape()), (Dtype::BF16, &[2, 2][..]));
    assert_eq!(weight.data(), [0, 0x3f].repeat(4));
}

#[test]
fn decoding_a_decoded_file_changes_nothing() {
    let once = parse_bytes(small().bytes()).unwrap().remember_to_bytes(TargetDtype::BF16).unwrap();
    assert_eq!(parse_bytes(once.clone()).unwrap().remember_to_bytes(TargetDtype::F32).unwrap(), once);
}

#[test]
fn a_missing_input_is_named() {
    let (kind, text) = io_kind(parse(Path::new("no/such/model.safetensors")).err().unwrap());
    assert_eq!(kind, ErrorKind::NotFound);
    assert_mentions(&text, &["no/such/model.safetensors"]);
}
