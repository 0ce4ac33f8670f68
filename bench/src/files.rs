//! Whole checkpoints, by the command line: how it goes with threads.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::clock::on_the_wall;

const SHARDS: usize = 8;
const ROWS: usize = 4096;
const COLS: usize = 4096;
/// Weights of a shard.
const WEIGHTS: usize = 4;

pub fn report(amn: &Path) -> io::Result<()> {
    // Memory, where there is a file system of it: a disk is another measurement.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let model = place.path().join("model");
    std::fs::create_dir(&model)?;
    for shard in 0..SHARDS {
        write_shard(&model, shard)?;
    }
    let bytes = (SHARDS * WEIGHTS * ROWS * COLS * 2) as f64;
    println!("## A checkpoint of {SHARDS} shards, FP8 to BF16\n");
    println!("{:.1} GB of output, files in memory, seconds on the wall.\n", bytes / 1e9);
    println!("| threads | seconds | GB/s |\n|---|---|---|");
    let out = place.path().join("out");
    for threads in ["1", "2", "4", "16"] {
        let seconds = on_the_wall(|| {
            if out.exists() {
                std::fs::remove_dir_all(&out)?;
            }
            let mut command = Command::new(amn);
            command.arg("remember").arg(&model).arg("-o").arg(&out).args(["--threads", threads, "--quiet"]);
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            if status.success() { Ok(()) } else { Err(io::Error::other(format!("{} failed", amn.display()))) }
        })?;
        println!("| {threads} | {seconds:.2} | {:.1} |", bytes / seconds / 1e9);
    }
    let copied = on_the_wall(|| {
        let to = place.path().join("copy");
        for shard in std::fs::read_dir(&out)? {
            std::fs::copy(shard?.path(), &to)?;
        }
        std::fs::remove_file(&to)
    })?;
    println!("\nCopying the output, one file at a time: {copied:.2} seconds.\n");
    Ok(())
}

fn write_shard(model: &Path, shard: usize) -> io::Result<()> {
    let name = format!("model-{:05}-of-{SHARDS:05}.safetensors", shard + 1);
    let mut header = String::from("{");
    let mut at = 0;
    for weight in 0..WEIGHTS {
        let module = format!("model.layers.{}.mlp.up_proj", shard * WEIGHTS + weight);
        let (codes, scales) = (ROWS * COLS, ROWS / 128 * (COLS / 128) * 4);
        let comma = if weight == 0 { "" } else { "," };
        header += &format!(
            "{comma}\"{module}.weight\":{{\"dtype\":\"F8_E4M3\",\"shape\":[{ROWS},{COLS}],\"data_offsets\":[{at},{}]}},\
             \"{module}.weight_scale_inv\":{{\"dtype\":\"F32\",\"shape\":[{},{}],\"data_offsets\":[{},{}]}}",
            at + codes,
            ROWS / 128,
            COLS / 128,
            at + codes,
            at + codes + scales,
        );
        at += codes + scales;
    }
    header.push('}');
    let mut file = io::BufWriter::new(std::fs::File::create(model.join(name))?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let codes: Vec<u8> = (0..ROWS * COLS).map(|at| (at * 151 % 127) as u8).collect();
    for _ in 0..WEIGHTS {
        file.write_all(&codes)?;
        for _ in 0..ROWS / 128 * (COLS / 128) {
            file.write_all(&0.01f32.to_le_bytes())?;
        }
    }
    file.flush()
}
