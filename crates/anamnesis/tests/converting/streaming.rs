//! An output written sequentially has the bytes of a file, for every target and any number of threads, and a blocked
//! stream ends.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Model, Noise};
use anamnesis::{CancelToken, Checkpoint, ConvertOptions, ConvertTarget, ParseLimits};

/// Longer than any of these conversions takes.
const PATIENCE: Duration = Duration::from_secs(240);

/// Matrices of several tiles each, with plain tensors of odd lengths between them.
fn model() -> Vec<u8> {
    let mut noise = Noise(5);
    let mut matrix = |rows: usize, cols: usize| (0..rows * cols).map(|_| noise.scale() - 0.5).collect::<Vec<f32>>();
    Model::new()
        .floats("model.layers.0.mlp.up_proj.weight", &[264, 1024], &matrix(264, 1024))
        .tensor("odd.0", "I8", &[13], &[7; 13])
        .floats("model.layers.0.mlp.down_proj.weight", &[1024, 384], &matrix(1024, 384))
        .floats("model.norm.weight", &[1031], &matrix(1, 1031))
        .tensor("empty", "F32", &[0], &[])
        .floats("model.layers.1.mlp.up_proj.weight", &[264, 1024], &matrix(264, 1024))
        .tensor("large", "I8", &[9_000_001], &Noise(6).bytes(9_000_001))
        .bytes()
}

fn options(threads: usize) -> ConvertOptions {
    let mut options = ConvertOptions::new().with_allow_nonfinite(true);
    options.threads = Some(threads);
    options
}

fn open(model: &[u8]) -> Checkpoint {
    Checkpoint::from_bytes(model.to_vec(), &ParseLimits::default()).unwrap()
}

/// Runs `work` in another thread, so that a hang is a failure.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not end"))
}

/// Writes few bytes at a time, and yields in between.
struct Slow(Vec<u8>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = bytes.len().min(70_001);
        self.0.extend_from_slice(&bytes[..count]);
        std::thread::yield_now();
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_target_streams_the_bytes_of_its_file_with_any_number_of_threads() {
    let model = model();
    let names = [
        "safetensors",
        "gguf",
        "npz",
        "q8_0",
        "q4_0",
        "q4_k_m",
        "bnb-nf4",
        "bnb-int8",
        "fp8",
        "w4a16",
        "mxfp4",
        "nvfp4",
        "gptq-4bit",
        "fp8-cast",
        "mlx-4bit",
        "hqq-4bit",
        "quanto-int8",
    ];
    let mut tried = 0;
    for name in names {
        let Ok(target) = ConvertTarget::parse(name) else { continue };
        let Ok(plan) = open(&model).plan_convert(target, &options(1)) else { continue };
        tried += 1;
        let (whole, _) = plan.to_bytes(|_| {}).unwrap();
        for threads in [0, 2, 5, 16] {
            let bytes = model.clone();
            let streamed = in_time(&format!("{name} with {threads} threads"), move || {
                let mut writer = Slow(Vec::new());
                let plan = open(&bytes).plan_convert(target, &options(threads)).unwrap();
                plan.write_to(&mut writer, |_| {}).unwrap();
                writer.0
            });
            assert!(streamed == whole, "{name} with {threads} threads");
        }
    }
    assert!(tried >= 12, "only {tried} targets take this model");
}

#[test]
fn a_writer_that_fails_ends_the_run_with_its_error() {
    /// Fails after some bytes, like a closed pipe.
    struct Broken(usize);

    impl Write for Broken {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    for (room, threads) in [(0, 8), (1000, 8), (1 << 20, 8), (3 << 20, 8), (0, 0), (1 << 20, 0)] {
        let bytes = model();
        let result = in_time("a broken pipe", move || {
            let plan = open(&bytes).plan_convert(ConvertTarget::Safetensors, &options(threads)).unwrap();
            plan.write_to(Broken(room), |_| {}).map(drop)
        });
        let error = result.unwrap_err();
        assert!(
            matches!(&error, anamnesis::AnamnesisError::Io(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe)
                || error.to_string().contains("pipe"),
            "{error}"
        );
    }
}

#[test]
fn a_cancelled_stream_ends_though_workers_wait_for_their_turn() {
    /// Cancels the run after some bytes, then stays slow.
    struct Cancelling(CancelToken, usize);

    impl Write for Cancelling {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1 += bytes.len();
            if self.1 > 1 << 20 {
                self.0.cancel();
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    for threads in [0, 1, 4, 16] {
        let bytes = model();
        let result = in_time("a cancelled stream", move || {
            let token = CancelToken::new();
            let options = options(threads).with_cancel(token.clone());
            let plan = open(&bytes).plan_convert(ConvertTarget::Safetensors, &options).unwrap();
            plan.write_to(Cancelling(token, 0), |_| {}).map(drop)
        });
        assert!(matches!(result, Err(anamnesis::AnamnesisError::Cancelled)), "{result:?}");
    }
}
