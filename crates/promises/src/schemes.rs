//! The scheme families, each decoded from [parts](crate::parts): any configuration and any tensors are decoded within the
//! limits or refused with a typed error; every CPU level, and every range of rows, gives the same bits.

use anamnesis::{AnamnesisError, Checkpoint, CpuLevel, QuantScheme, RememberOptions, TargetDtype};

use crate::parts;

/// Weights with more values are not decoded.
const MAX_VALUES: u64 = 1 << 15;

/// Decodes the weights of a family; others only claim theirs.
fn family(input: &[u8], belongs: impl Fn(QuantScheme, &str) -> bool) {
    let Some((tensors, options)) = parts::parse(input) else { return };
    let checkpoint = match Checkpoint::from_positioned(tensors, &options) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return refused(&error),
    };
    for weight in checkpoint.weights() {
        let values = weight.values.filter(|values| *values <= MAX_VALUES);
        if let (Some(shape), Some(values)) = (weight.shape, values)
            && belongs(weight.family, &format!("{} {}", weight.family, weight.scheme))
        {
            decode(&checkpoint, &weight.name, &shape, values as usize);
        }
    }
}

/// A file, a request or a limit is at fault, never the library.
fn refused(error: &AnamnesisError) {
    assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}");
}

/// Decodes one weight at every level, and its last row alone.
fn decode(checkpoint: &Checkpoint, name: &str, shape: &[usize], values: usize) {
    let mut outputs = CpuLevel::available().map(|level| {
        let mut out = vec![0xA5; 4 * values];
        let options = RememberOptions::new().with_threads(1).with_cpu_level(level);
        checkpoint.decode_into_with(name, &mut out, TargetDtype::F32, &options).map(|()| (out, level))
    });
    let first = outputs.next().expect("the portable level");
    let Ok((portable, _)) = first else {
        first.as_ref().err().into_iter().for_each(refused);
        return assert!(outputs.all(|output| output.is_err()), "{name} is refused at the portable level alone");
    };
    for output in outputs {
        let (out, level) = output.expect("a weight that is decoded at the portable level");
        assert!(out == portable, "{name} has other values at {level}");
    }
    let Some((&rows, row)) = shape.split_first() else { return };
    let row = row.iter().product::<usize>();
    if rows > 1 {
        let last: Vec<f32> = checkpoint.decode_rows(name, rows - 1..rows).expect("the rows of a decoded weight");
        let bytes = portable[4 * (rows - 1) * row..].as_chunks::<4>().0;
        let same = |(value, bytes): (&f32, &[u8; 4])| value.to_bits() == u32::from_le_bytes(*bytes);
        assert!(last.len() == bytes.len() && last.iter().zip(bytes).all(same), "{name} has another last row alone");
    }
}

/// Whether a scheme has one of these names.
fn named(scheme: &str, names: &[&str]) -> bool {
    let scheme = scheme.to_ascii_lowercase();
    names.iter().any(|name| scheme.contains(name))
}

/// FP8 under one scale, scales of rows or of blocks.
pub fn fp8(input: &[u8]) {
    family(input, |family, scheme| {
        use QuantScheme::{FineGrainedFp8, PerChannelFp8, PerTensorFp8};
        matches!(family, FineGrainedFp8 | PerChannelFp8 | PerTensorFp8) || named(scheme, &["fp8", "fbgemm"])
    });
}

/// GPTQ, AWQ, and the layouts of Marlin and AutoRound.
pub fn gptq_awq(input: &[u8]) {
    family(input, |family, scheme| {
        matches!(family, QuantScheme::Gptq | QuantScheme::Awq) || named(scheme, &["marlin", "autoround", "auto-round"])
    });
}

/// BitsAndBytes.
pub fn bitsandbytes(input: &[u8]) {
    family(input, |family, _| matches!(family, QuantScheme::Bnb4 | QuantScheme::BnbInt8));
}

/// MXFP4, NVFP4 and their relatives: ModelOpt, Quark, Four Over Six.
pub fn microscaled(input: &[u8]) {
    family(input, |family, scheme| {
        family == QuantScheme::Nvfp4 || named(scheme, &["mxfp", "nvfp", "modelopt", "quark", "four over six", "mx"])
    });
}

/// compressed-tensors.
pub fn compressed_tensors(input: &[u8]) {
    family(input, |_, scheme| named(scheme, &["compressed"]));
}

/// MLX.
pub fn mlx(input: &[u8]) {
    family(input, |_, scheme| named(scheme, &["mlx"]));
}

/// HQQ, quanto, torchao, SINQ and EETQ.
pub fn hqq_quanto_torchao(input: &[u8]) {
    family(input, |_, scheme| named(scheme, &["hqq", "quanto", "torchao", "sinq", "eetq"]));
}

/// ExLlama: EXL2 and EXL3.
pub fn exllama(input: &[u8]) {
    family(input, |_, scheme| named(scheme, &["exl"]));
}

/// Codebooks and one to two bits: AQLM, VPTQ, BitNet.
pub fn codebooks(input: &[u8]) {
    family(input, |_, scheme| named(scheme, &["aqlm", "vptq", "bitnet"]));
}

/// All others.
pub fn others(input: &[u8]) {
    family(input, |family, _| matches!(family, QuantScheme::Named(_)));
}
