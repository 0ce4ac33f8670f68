//! Decoding weights in memory: this library, the published crate, ggml's C and memcpy.

use std::hint::black_box;

use crate::MEMORY;
use crate::clock::in_turn;
use crate::ggml::Library;
use crate::memory::Mode;

const ROWS: usize = 2048;
const COLS: usize = 8192;
const VALUES: usize = ROWS * COLS;
/// The group size of the packed formats.
const GROUP: usize = 128;

/// The bytes of a weight and its companions.
#[derive(Default)]
struct Stored {
    codes: Vec<u8>,
    scales: Vec<u8>,
    zeros: Vec<u8>,
}

/// Name, elements and bytes of a block, and the offsets of its F16 scales.
const BLOCKS: [(&str, usize, usize, &[usize]); 14] = [
    ("Q4_0", 32, 18, &[0]),
    ("Q5_1", 32, 24, &[0, 2]),
    ("Q8_0", 32, 34, &[0]),
    ("Q2_K", 256, 84, &[80, 82]),
    ("Q3_K", 256, 110, &[108]),
    ("Q4_K", 256, 144, &[0, 2]),
    ("Q5_K", 256, 176, &[0, 2]),
    ("Q6_K", 256, 210, &[208]),
    ("IQ2_XXS", 256, 66, &[0]),
    ("IQ3_S", 256, 110, &[0]),
    ("IQ4_NL", 32, 18, &[0]),
    ("IQ4_XS", 256, 136, &[0]),
    ("TQ1_0", 256, 54, &[52]),
    ("TQ2_0", 256, 66, &[64]),
];

const NAMED: [&str; 8] = ["FP8 tensor", "FP8 row", "FP8 128x128", "GPTQ 4", "AWQ 4", "NF4", "INT8", "NVFP4"];

macro_rules! library {
    ($module:ident, $library:ident) => {
        mod $module {
            use super::{COLS, GROUP, ROWS, Stored, VALUES};
            use $library::*;

            fn block_type(name: &str) -> Option<GgufType> {
                use GgufType::*;
                let all =
                    [Q4_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ2_XXS, IQ3_S, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0];
                all.into_iter().find(|block| block.to_string() == name)
            }

            pub fn decode<E: OutputElement>(name: &str, stored: &Stored) -> Result<Vec<u8>> {
                let Stored { codes, scales, zeros } = stored;
                match name {
                    "FP8 tensor" => dequantize_per_tensor_fp8::<E>(codes, 0.0123),
                    "FP8 row" => dequantize_per_channel_fp8::<E>(codes, scales, ROWS, COLS, Dtype::F32),
                    "FP8 128x128" => dequantize_fp8::<E>(codes, scales, ROWS, COLS, Dtype::F32),
                    "GPTQ 4" => dequantize_gptq::<E>(codes, scales, zeros, None, ROWS, COLS, GROUP, 4, Dtype::F16),
                    "AWQ 4" => dequantize_awq::<E>(codes, scales, zeros, ROWS, COLS, GROUP, 4, Dtype::F16),
                    "NF4" => dequantize_bnb4::<E>(codes, scales, zeros, VALUES, 64),
                    "INT8" => dequantize_bnb_int8::<E>(codes, scales, ROWS, COLS),
                    "NVFP4" => dequantize_nvfp4::<E>(codes, scales, 0.003, ROWS, COLS),
                    block => match block_type(block) {
                        Some(block) => dequantize_gguf::<E>(codes, block, VALUES),
                        None => Ok(Vec::new()),
                    },
                }
            }

            pub fn run(name: &str, is_wide: bool, stored: &Stored) -> std::result::Result<Vec<u8>, String> {
                let decoded = if is_wide { decode::<F32Out>(name, stored) } else { decode::<Bf16Out>(name, stored) };
                decoded.map_err(|error| format!("{name}: {error}"))
            }
        }
    };
}
library!(ours, anamnesis);
library!(theirs, published);

/// Processor seconds of one weight and output type.
struct Times {
    name: &'static str,
    is_wide: bool,
    fresh: Candidates,
    warm: Candidates,
}

struct Candidates {
    ours: f64,
    theirs: f64,
    memcpy: f64,
    /// ggml decodes its own block types, to F32 only.
    ggml: Option<f64>,
}

pub fn report(ggml: Option<&Library>) -> Result<(), String> {
    println!("## Weights in memory, one thread\n");
    println!(
        "Gigabytes of output per second; {VALUES} values, every candidate into a vector of its own, all from the same"
    );
    println!("allocator with huge pages: *fresh*, mapped for this call, so that the system's page faults count, and");
    println!(
        "*warm*, memory that was used before. `×` is the time of that candidate over ours: above 1 we are faster.\n"
    );
    let all = names()
        .flat_map(|name| [(name, false), (name, true)])
        .map(|(name, is_wide)| times(name, is_wide, ggml))
        .collect::<Result<Vec<_>, _>>()?;
    print_table("Fresh memory", &all, |times| &times.fresh);
    print_table("Warm memory", &all, |times| &times.warm);
    Ok(())
}

fn times(name: &'static str, is_wide: bool, ggml: Option<&Library>) -> Result<Times, String> {
    let stored = stored(name);
    ours::run(name, is_wide, &stored)?;
    theirs::run(name, is_wide, &stored)?;
    let candidates = |mode| {
        MEMORY.set_mode(mode);
        let candidates = candidates(name, is_wide, &stored, ggml);
        MEMORY.set_mode(Mode::Fresh);
        candidates
    };
    Ok(Times { name, is_wide, fresh: candidates(Mode::Fresh), warm: candidates(Mode::Warm) })
}

fn candidates(name: &'static str, is_wide: bool, stored: &Stored, ggml: Option<&Library>) -> Candidates {
    let output = vec![1u8; VALUES * width(is_wide)];
    // NVFP4 has blocks of its own in ggml; the weight here is that of safetensors.
    let is_block = BLOCKS.iter().any(|block| block.0 == name);
    let c = ggml.filter(|_| is_wide && is_block).and_then(|library| library.decoder(name));
    let seconds = in_turn(&mut [
        &mut || drop(black_box(ours::run(name, is_wide, stored))),
        &mut || drop(black_box(theirs::run(name, is_wide, stored))),
        &mut || drop(black_box(output.to_vec())),
        &mut || {
            if let Some(decode) = c {
                let mut floats = Vec::<f32>::with_capacity(VALUES);
                // SAFETY: the vector has room for as many values as the blocks hold, and the call writes them all.
                unsafe {
                    decode(stored.codes.as_ptr(), floats.as_mut_ptr(), VALUES as i64);
                    floats.set_len(VALUES);
                }
                drop(black_box(floats));
            }
        },
    ]);
    Candidates { ours: seconds[0], theirs: seconds[1], memcpy: seconds[2], ggml: c.map(|_| seconds[3]) }
}

fn print_table(title: &str, all: &[Times], of: impl Fn(&Times) -> &Candidates) {
    println!("### {title}\n");
    println!("| weight | output | anamnesis | published crate | × | ggml | × | memcpy | × |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for times in all {
        let Candidates { ours, theirs, memcpy, ggml } = of(times);
        let rate = |seconds: &f64| (VALUES * width(times.is_wide)) as f64 / seconds / 1e9;
        let column = |seconds: &f64| format!("{:.1} | {:.2}", rate(seconds), seconds / ours);
        println!(
            "| {} | {} | {:.1} | {} | {} | {} |",
            times.name,
            output_type(times.is_wide),
            rate(ours),
            column(theirs),
            ggml.as_ref().map_or_else(|| " | ".into(), column),
            column(memcpy),
        );
    }
    let logarithms = all.iter().map(|times| (of(times).theirs / of(times).ours).ln()).sum::<f64>();
    println!("\nGeometric mean over the published crate: {:.1}.", (logarithms / all.len() as f64).exp());
    let slower = |seconds: f64, ours: f64| seconds < ours / 1.05;
    let wins = |is_faster: &dyn Fn(&Candidates) -> bool| {
        let found = all.iter().filter(|times| is_faster(of(times)));
        let names: Vec<_> = found.map(|times| format!("{} to {}", times.name, output_type(times.is_wide))).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    println!("ggml is faster at: {}.", wins(&|times| times.ggml.is_some_and(|seconds| slower(seconds, times.ours))));
    println!("The published crate is faster at: {}.\n", wins(&|times| slower(times.theirs, times.ours)));
}

fn output_type(is_wide: bool) -> &'static str {
    if is_wide { "F32" } else { "BF16" }
}

fn width(is_wide: bool) -> usize {
    if is_wide { 4 } else { 2 }
}

fn names() -> impl Iterator<Item = &'static str> {
    NAMED.into_iter().chain(BLOCKS.iter().map(|block| block.0))
}

/// Pseudo-random codes, from a linear congruential generator.
fn codes(count: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    (0..count.div_ceil(4)).flat_map(|_| ((next() >> 32) as u32).to_le_bytes()).take(count).collect()
}

fn halves(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| half::f16::from_f32(0.004 + (at % 89) as f32 * 1e-4).to_le_bytes()).collect()
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| (0.01 + (at % 89) as f32 * 1e-5).to_le_bytes()).collect()
}

fn stored(name: &str) -> Stored {
    let groups = ROWS / GROUP;
    match name {
        "FP8 tensor" | "FP8 row" | "INT8" => Stored { codes: codes(VALUES), scales: floats(ROWS), ..Stored::default() },
        "FP8 128x128" => Stored { codes: codes(VALUES), scales: floats(VALUES >> 14), ..Stored::default() },
        "GPTQ 4" | "AWQ 4" => {
            Stored { codes: codes(VALUES / 2), scales: halves(groups * COLS), zeros: codes(groups * COLS / 2) }
        }
        "NF4" => Stored { codes: codes(VALUES / 2), scales: floats(VALUES / 64), zeros: floats(16) },
        "NVFP4" => {
            let scales = (0..VALUES / 16).map(|at| 0x20 + (at % 0x38) as u8).collect();
            Stored { codes: codes(VALUES / 2), scales, ..Stored::default() }
        }
        name => {
            let found = BLOCKS.iter().find(|block| block.0 == name);
            let &(_, elements, bytes, scales) = found.unwrap_or(&BLOCKS[0]);
            let mut blocks = codes(VALUES / elements * bytes);
            for block in blocks.chunks_exact_mut(bytes) {
                for &at in scales {
                    block[at..at + 2].copy_from_slice(&half::f16::from_f32(0.003).to_le_bytes());
                }
            }
            Stored { codes: blocks, ..Stored::default() }
        }
    }
}
