//! Typical use of a checkpoint: list, decode one, decode all, convert, quantise.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::support::{Contents, Model, fixture, floats, le_bytes};
use anamnesis::{
    AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, OpenOptions, ParseLimits, PositionedRead,
    RememberOptions, Request, Selection, TargetDtype,
};

/// A checkpoint of a quantised fixture, and the values of its library.
fn quantised() -> (Checkpoint, Contents) {
    let checkpoint =
        Checkpoint::open(fixture("bnb/fp4_nested_b64_bfloat16.safetensors"), &ParseLimits::default()).unwrap();
    let decoded = checkpoint.plan(TargetDtype::F32).unwrap().to_bytes(&RememberOptions::new()).unwrap();
    (checkpoint, Contents::of(&decoded))
}

/// FP8 codes with a scale per row, and plain tensors of several types.
fn mixed() -> Vec<u8> {
    let scale = [2.0, 0.5].map(f32::to_le_bytes).concat();
    Model::new()
        .tensor("a.weight", "F8_E4M3", &[2, 3], &[0x38, 0x40, 0xb8, 0x38, 0x30, 0x00])
        .tensor("a.weight_scale", "F32", &[2, 1], &scale)
        .tensor("half", "F16", &[2], &[0x00, 0x3c, 0x00, 0xc0])
        .tensor("ids", "I64", &[1], &7i64.to_le_bytes())
        .floats("norm", &[3], &[1.0, 2.5, -3.0])
        .bytes()
}

const DECODED: [f32; 6] = [2.0, 4.0, -2.0, 0.5, 0.25, 0.0];

fn open(bytes: Vec<u8>) -> Checkpoint {
    Checkpoint::from_bytes(bytes, &ParseLimits::default()).unwrap()
}

#[test]
fn one_tensor_is_decoded_by_its_name() {
    let checkpoint = open(mixed());
    assert_eq!(checkpoint.decode::<f32>("a.weight").unwrap(), DECODED);
    assert_eq!(checkpoint.decode::<f64>("half").unwrap(), [1.0, -2.0]);
    let mut out = [0; 12];
    checkpoint.decode_into("a.weight", &mut out, TargetDtype::BF16).unwrap();
    let bits: Vec<u16> = out.as_chunks::<2>().0.iter().map(|half| u16::from_le_bytes(*half)).collect();
    assert_eq!(bits, DECODED.map(|value| (value.to_bits() >> 16) as u16));
}

#[test]
fn a_plain_checkpoint_has_every_stored_tensor_as_it_is() {
    let options = OpenOptions::new().with_plain(true);
    let checkpoint = Checkpoint::from_bytes_with(mixed(), &options).unwrap();
    assert_eq!(checkpoint.names(), ["a.weight", "a.weight_scale", "half", "ids", "norm"]);
    assert!(checkpoint.weights().is_empty() && checkpoint.weight("a.weight").is_none());
    let plan = checkpoint.plan_convert(ConvertTarget::Safetensors, &ConvertOptions::new()).unwrap();
    let (written, _) = plan.to_bytes(|_| {}).unwrap();
    let written = Checkpoint::from_bytes_with(written, &options).unwrap();
    for tensor in checkpoint.tensors() {
        let data = checkpoint.tensor_data(tensor.name).unwrap();
        assert_eq!(written.tensor_data(tensor.name).unwrap(), data, "{}", tensor.name);
        assert_eq!(written.stored(tensor.name).unwrap().dtype, tensor.dtype, "{}", tensor.name);
    }
}

#[test]
fn a_plan_has_the_configuration_that_its_output_needs() {
    let values: Vec<f32> = (0..128 * 64).map(|value| (value % 97) as f32 - 48.0).collect();
    let bytes = Model::new().floats("layers.0.up_proj.weight", &[64, 128], &values).bytes();
    let checkpoint = open(bytes);
    let target = ConvertTarget::parse("w4a16").unwrap();
    let plan = checkpoint.plan_convert(target, &ConvertOptions::new()).unwrap();
    let config = plan.configuration().unwrap();
    let (written, _) = plan.to_bytes(|_| {}).unwrap();
    assert!(open(written.clone()).decode::<f32>("layers.0.up_proj.weight").is_err(), "no number of bits is assumed");
    let options = OpenOptions::new().with_config(config);
    let decoded = Checkpoint::from_bytes_with(written, &options).unwrap();
    assert_eq!(decoded.decode::<f32>("layers.0.up_proj.weight").unwrap().len(), values.len());
    let plain = checkpoint.plan_convert(ConvertTarget::Safetensors, &ConvertOptions::new()).unwrap();
    assert_eq!(plain.configuration(), None);
}

#[test]
fn stored_bytes_are_read_from_any_place() {
    let checkpoint = open(mixed());
    let mut out = [0; 4];
    checkpoint.read_tensor_data("a.weight", 1, &mut out).unwrap();
    assert_eq!(out, [0x40, 0xb8, 0x38, 0x30]);
    checkpoint.read_tensor_data("a.weight", 6, &mut []).unwrap();
    for (name, offset) in [("a.weight", 3), ("a.weight", u64::MAX), ("nothing", 0)] {
        let error = checkpoint.read_tensor_data(name, offset, &mut out).unwrap_err();
        assert!(matches!(error, AnamnesisError::Request(_)), "{name} {offset}: {error}");
    }
    assert_eq!(out, [0x40, 0xb8, 0x38, 0x30], "nothing was written");
}

#[test]
fn what_cannot_be_decoded_is_a_fact() {
    let checkpoint = open(mixed());
    let error = checkpoint.decode::<f32>("a.weigth").unwrap_err();
    assert!(
        matches!(&error, AnamnesisError::Request(Request::UnknownTensor { name }) if name == "a.weigth"),
        "{error}"
    );
    // A companion is not a tensor of the model.
    assert!(matches!(checkpoint.decode::<f32>("a.weight_scale"), Err(AnamnesisError::Request(_))));
    assert!(
        matches!(checkpoint.decode::<f32>("ids"), Err(AnamnesisError::Unsupported { format, .. }) if format == "I64")
    );
    let error = checkpoint.decode_into("norm", &mut [0; 11], TargetDtype::F32).unwrap_err();
    assert!(matches!(error, AnamnesisError::Request(Request::Contradiction { .. })), "{error}");
    let limits = ParseLimits::unbounded().with_max_single_alloc(mixed().len() as u64);
    let tight = Checkpoint::from_bytes(mixed(), &limits).unwrap();
    assert!(tight.decode::<f32>("a.weight").is_ok());
    let broken = open(Model::new().tensor("a.qweight", "I32", &[1, 8], &[0; 32]).floats("b", &[1], &[1.0]).bytes());
    assert!(
        broken.decode::<f32>("b").is_err(),
        "a checkpoint that cannot be decoded as a whole is not decoded in part"
    );
}

#[test]
fn decoding_one_by_one_gives_what_a_conversion_writes() {
    let (checkpoint, expected) = quantised();
    let mut names = Vec::new();
    for tensor in checkpoint.decoded(TargetDtype::F32) {
        let tensor = tensor.unwrap();
        assert_eq!(tensor.data, expected.tensors[&tensor.name].data, "{}", tensor.name);
        assert_eq!(tensor.shape, expected.tensors[&tensor.name].shape);
        let mut tiles = Vec::new();
        let mut take = |first: u64, bytes: &[u8]| {
            assert_eq!(first as usize * 4, tiles.len());
            tiles.extend_from_slice(bytes);
            Ok(())
        };
        checkpoint.decode_tiles(&tensor.name, TargetDtype::F32, &mut take).unwrap();
        assert_eq!(tiles, tensor.data);
        assert_eq!(checkpoint.decode::<f32>(&tensor.name).unwrap().len() * 4, tiles.len());
        names.push(tensor.name);
    }
    assert_eq!(names, expected.names());
}

#[test]
fn a_large_tensor_is_decoded_alike_by_any_number_of_threads() {
    let values: Vec<u8> = (0..1 << 20).map(|index: u32| ((index * 37) >> 3) as u8 & 0x77).collect();
    let scale = 0.37f32.to_le_bytes();
    let model =
        Model::new().tensor("w", "F8_E4M3", &[1 << 10, 1 << 10], &values).tensor("w_scale", "F32", &[1], &scale);
    let checkpoint = open(model.bytes());
    let decode = |threads| {
        let mut out = vec![0; 4 << 20];
        let options = RememberOptions::new().with_threads(threads);
        checkpoint.decode_into_with("w", &mut out, TargetDtype::F32, &options).unwrap();
        out
    };
    let one = decode(1);
    assert_eq!(floats(&one), checkpoint.decode::<f32>("w").unwrap());
    assert!([2, 3, 8].into_iter().all(|threads| decode(threads) == one));
}

#[test]
fn a_plan_outlives_its_checkpoint_and_writes_into_any_writer() {
    for target in [ConvertTarget::Safetensors, ConvertTarget::Gguf, ConvertTarget::Npz, ConvertTarget::BnbNf4] {
        let values: Vec<f32> = (0..4096).map(|value| (value as f32 * 0.1).sin()).collect();
        let model = Model::new().floats("x.weight", &[64, 64], &values).floats("odd", &[3], &values[..3]);
        let model = model.floats("y.weight", &[32, 64], &values[..2048]);
        for threads in [1, 3] {
            let names = Arc::new(Mutex::new(Vec::new()));
            let mut options = ConvertOptions::new().with_threads(threads);
            let reported = names.clone();
            options.on_tensor = RememberOptions::new()
                .with_on_tensor(move |name| reported.lock().unwrap().push(name.to_owned()))
                .on_tensor;
            let plan = open(model.bytes()).plan_convert(target, &options).unwrap();
            let (bytes, _) = plan.to_bytes(|_| {}).unwrap();
            names.lock().unwrap().clear();
            let mut written = Vec::new();
            let report = plan.write_to(&mut written, |_| {}).unwrap();
            assert!(written == bytes, "{target} with {threads} threads");
            assert_eq!(report.stats.tensors, 3);
            let mut names = names.lock().unwrap().clone();
            names.sort();
            let mut planned: Vec<_> = plan.tensors().map(|tensor| tensor.name).collect();
            planned.sort();
            assert_eq!(names, planned, "{target}");
        }
    }
}

#[test]
fn a_writer_that_fails_ends_the_conversion() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let model = (0..20).fold(Model::new(), |model, index| model.floats(&format!("t{index}"), &[1000], &[0.5; 1000]));
    let options = ConvertOptions::new().with_threads(4);
    let plan = open(model.bytes()).plan_convert(ConvertTarget::Safetensors, &options).unwrap();
    let error = plan.write_to(Full(30_000), |_| {}).unwrap_err();
    assert!(matches!(&error, AnamnesisError::Io(cause) if cause.kind() == std::io::ErrorKind::StorageFull), "{error}");
}

#[test]
fn callers_bring_bytes_from_where_they_keep_them() {
    let model = Model::new().floats("large", &[1 << 20], &vec![1.0; 1 << 20]).floats("small", &[2], &[3.0, 4.0]);
    let source = Counted::new(model.bytes());
    let checkpoint = Checkpoint::from_positioned(source.clone(), &OpenOptions::new()).unwrap();
    assert_eq!(checkpoint.decode::<f32>("small").unwrap(), [3.0, 4.0]);
    let (_, read) = source.take();
    assert!(read < 10_000, "{read} bytes were read for two values");
}

#[test]
fn decoding_all_of_many_tensors_takes_as_many_reads_as_reading_them() {
    const WEIGHTS: u64 = 25_000;
    const PLAIN: u64 = 50_000;
    let (scale, plain) = (2f32.to_le_bytes(), le_bytes(&[1.0, 2.0]));
    let mut model = Model::new();
    for index in 0..WEIGHTS {
        model = model.tensor(&format!("{index}.weight"), "F8_E4M3", &[1, 4], &[0x38; 4]);
        model = model.tensor(&format!("{index}.weight_scale"), "F32", &[1, 1], &scale);
    }
    for index in 0..PLAIN {
        model = model.tensor(&format!("norms.{index}"), "F32", &[2], &plain);
    }
    let source = Counted::new(model.bytes());
    let checkpoint = Checkpoint::from_positioned(source.clone(), &OpenOptions::new()).unwrap();
    let names: Vec<String> = checkpoint.tensors().iter().map(|tensor| tensor.name.to_owned()).collect();
    assert_eq!(checkpoint.decode::<f32>("0.weight").unwrap(), [2.0; 4]);
    source.take();
    let started = Instant::now();
    for name in &names {
        assert!(checkpoint.tensor_data(name).unwrap().is_some_and(|bytes| bytes.len() >= 4));
    }
    let (reading, (reads, bytes)) = (started.elapsed(), source.take());
    assert_eq!((reads, bytes), (2 * WEIGHTS + PLAIN, 8 * (WEIGHTS + PLAIN)));
    let started = Instant::now();
    let decoded = checkpoint.decoded(TargetDtype::F32).map(|tensor| tensor.unwrap().data.len() as u64).sum::<u64>();
    let decoding = started.elapsed();
    assert_eq!(decoded, 16 * WEIGHTS + 8 * PLAIN);
    assert_eq!(source.take(), (reads, bytes), "every stored byte once");
    println!("{} tensors: read in {reading:?}, decoded in {decoding:?}", names.len());
}

/// Counts reads, and the bytes of them.
struct Counted {
    bytes: Vec<u8>,
    reads: AtomicU64,
    read: AtomicU64,
}

impl Counted {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes, reads: AtomicU64::new(0), read: AtomicU64::new(0) })
    }

    /// The reads and the bytes since it was asked before.
    fn take(&self) -> (u64, u64) {
        (self.reads.swap(0, Ordering::Relaxed), self.read.swap(0, Ordering::Relaxed))
    }
}

impl PositionedRead for Counted {
    fn size(&self) -> std::io::Result<u64> {
        self.bytes.size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(buffer, offset)
    }
}

#[test]
fn tensors_are_chosen_by_pattern_and_by_exact_name() {
    let model = Model::new().floats("a[0]", &[1], &[1.0]).floats("a0", &[1], &[2.0]).floats("b", &[1], &[3.0]);
    let names = |selection: Selection| {
        let options = OpenOptions::new().with_selection(selection);
        Checkpoint::from_bytes_with(model.bytes(), &options)
            .map(|checkpoint| checkpoint.tensors().iter().map(|tensor| tensor.name.to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(names(Selection::new().with_name("a[0]")).unwrap(), ["a[0]"]);
    assert_eq!(names(Selection::new().with_include("a[0]").unwrap()).unwrap(), ["a0"]);
    assert_eq!(names(Selection::new().with_name("a[0]").with_include("b*").unwrap()).unwrap(), ["a[0]", "b"]);
    let error = names(Selection::new().with_name("a*")).unwrap_err();
    assert!(matches!(&error, AnamnesisError::Request(Request::UnknownTensor { name }) if name == "a*"), "{error}");
}

#[test]
fn a_checkpoint_can_be_shared_between_threads() {
    const fn shared<T: Send + Sync>() {}
    shared::<Checkpoint>();
}

#[test]
fn decoded_values_are_aligned_for_their_type() {
    let (checkpoint, contents) = quantised();
    for name in contents.names() {
        let values: Vec<f64> = checkpoint.decode(name).unwrap();
        assert_eq!(values.as_ptr().align_offset(align_of::<f64>()), 0);
    }
}

#[test]
fn values_of_a_decoded_tensor_are_borrowed_as_their_type() {
    let (checkpoint, _) = quantised();
    for tensor in checkpoint.decoded(TargetDtype::F32) {
        let tensor = tensor.unwrap();
        let numbers: Vec<f32> =
            tensor.data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
        let (narrow, wide) = (tensor.values::<f32>().unwrap(), tensor.values::<f64>().unwrap());
        let is_little = cfg!(target_endian = "little");
        assert_eq!(matches!(narrow, Cow::Borrowed(_)), is_little, "{}", tensor.name);
        assert!(matches!(wide, Cow::Owned(_)), "{}", tensor.name);
        assert!(!is_little || bytemuck::cast_slice::<u8, f32>(&tensor.data) == numbers);
        assert_eq!(*narrow, numbers);
        assert!(wide.iter().zip(&numbers).all(|(wide, &narrow)| *wide == f64::from(narrow)));
        assert_eq!(wide.len(), numbers.len());
        assert!(tensor.values::<half::bf16>().is_none());
    }
}

#[test]
fn a_tensor_without_rows_may_have_rows_of_any_length() {
    let file = Model::new().tensor("empty", "F32", &[0, 1 << 40, 1 << 40], &[]);
    let checkpoint = open(file.bytes());
    assert!(checkpoint.decode_rows::<f32>("empty", 0..0).is_ok_and(|values| values.is_empty()));
    assert!(checkpoint.decode_rows::<f32>("empty", 0..1).is_err());
}
