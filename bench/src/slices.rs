//! Decoding slices in memory: this library, the published crate, ggml's C and memcpy.

use std::hint::black_box;

use crate::clock::in_turn;
use crate::ggml::Library;

const ROWS: usize = 2048;
const COLS: usize = 8192;
const VALUES: usize = ROWS * COLS;
/// Inputs that share a scale in the packed formats.
const GROUP: usize = 128;

/// The bytes of a weight and its companions.
#[derive(Default)]
struct Stored {
    codes: Vec<u8>,
    scales: Vec<u8>,
    zeros: Vec<u8>,
}

/// Name, elements and bytes of a block, and where its half-precision scales are.
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

/// Processor seconds of one form.
struct Times {
    name: &'static str,
    is_wide: bool,
    ours: f64,
    theirs: f64,
    memcpy: f64,
    ggml: Option<f64>,
}

pub fn report(ggml: Option<&Library>) -> Result<(), String> {
    println!("## Weights in memory, one thread\n");
    println!(
        "Gigabytes of output a second; {VALUES} values. Everybody returns a vector of its own, memcpy too, so that memory"
    );
    println!("fresh from the system is part of it; ggml alone writes into memory it was given.\n");
    print_table(&measured(ggml)?);
    Ok(())
}

fn measured(ggml: Option<&Library>) -> Result<Vec<Times>, String> {
    names().flat_map(|name| [(name, false), (name, true)]).map(|(name, is_wide)| times(name, is_wide, ggml)).collect()
}

fn times(name: &'static str, is_wide: bool, ggml: Option<&Library>) -> Result<Times, String> {
    let stored = stored(name);
    let output = vec![1u8; VALUES * width(is_wide)];
    ours::run(name, is_wide, &stored)?;
    theirs::run(name, is_wide, &stored)?;
    let c = ggml.filter(|_| is_wide).and_then(|library| library.decoder(name));
    let mut floats = vec![0.0f32; if c.is_some() { VALUES } else { 0 }];
    let seconds = in_turn(&mut [
        &mut || drop(black_box(ours::run(name, is_wide, &stored))),
        &mut || drop(black_box(theirs::run(name, is_wide, &stored))),
        &mut || drop(black_box(output.to_vec())),
        &mut || {
            if let Some(decode) = c {
                // SAFETY: the blocks hold as many values as the output.
                unsafe { decode(stored.codes.as_ptr(), floats.as_mut_ptr(), VALUES as i64) };
            }
        },
    ]);
    let ggml = c.map(|_| seconds[3]);
    Ok(Times { name, is_wide, ours: seconds[0], theirs: seconds[1], memcpy: seconds[2], ggml })
}

fn print_table(all: &[Times]) {
    println!("| weight | output | anamnesis | published crate | ratio | ggml | ratio | memcpy | share of it |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for times in all {
        let rate = |seconds: f64| (VALUES * width(times.is_wide)) as f64 / seconds / 1e9;
        let ggml = |seconds| format!("{:.1} | {:.1} |", rate(seconds), seconds / times.ours);
        println!(
            "| {} | {} | {:.1} | {:.1} | {:.1} | {} {:.1} | {:.2} |",
            times.name,
            if times.is_wide { "F32" } else { "BF16" },
            rate(times.ours),
            rate(times.theirs),
            times.theirs / times.ours,
            times.ggml.map_or_else(|| "| |".into(), ggml),
            rate(times.memcpy),
            times.memcpy / times.ours,
        );
    }
    let logarithms = all.iter().map(|times| (times.theirs / times.ours).ln()).sum::<f64>();
    println!("\nGeometric mean beside the published crate: {:.1}.\n", (logarithms / all.len() as f64).exp());
}

fn width(is_wide: bool) -> usize {
    if is_wide { 4 } else { 2 }
}

fn names() -> impl Iterator<Item = &'static str> {
    NAMED.into_iter().chain(BLOCKS.iter().map(|block| block.0))
}

/// Codes without a pattern, from a multiplicative generator.
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
