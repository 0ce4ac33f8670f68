//! Every fixture is decoded to the bits of its canonical library, at every CPU level.

use std::collections::BTreeMap;

use crate::support::{Contents, Folder, SIDECAR, TARGETS, Tensor, difference, fixture, le_bytes};
use anamnesis::{Checkpoint, CpuLevel, OpenOptions, Rounding};
use serde_json::Value;

/// A directory of fixtures.
struct Family {
    directory: &'static str,
    /// The minimum number of cases, so that an empty folder is noticed.
    cases: usize,
    /// Parts of the names of companions, which are not in the output.
    companions: &'static [&'static str],
    /// The prefix of the cases whose library loses the sign of zero on some machines.
    unsigned_zeros: Option<&'static str>,
}

const fn family(directory: &'static str, cases: usize, companions: &'static [&'static str]) -> Family {
    Family { directory, cases, companions, unsigned_zeros: None }
}

/// The metadata without the description of a quantisation, which a decoded file does not have.
fn without_markers(metadata: &Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut metadata = metadata.clone().unwrap_or_default();
    metadata.remove("_quantization_metadata");
    metadata
}

const PACKED: &[&str] = &[".qweight", ".qzeros", ".scales", ".g_idx"];

const HQQ: &[&str] = &[
    ".W_q",
    ".scale",
    ".zero",
    ".shape",
    ".nbits",
    ".group_size",
    ".axis",
    ".packing",
    ".view_as_float",
    ".quant_",
    ".offload_meta",
    ".channel_wise",
    ".compute_dtype",
    "state_dict",
    ".optimize",
    ".round_zero",
    ".stores_quant_config",
    ".unpack_view_dtype",
];

const FAMILIES: [Family; 25] = [
    family("fp8", 66, &["scale"]),
    family("codes", 1, &[]),
    family("gptq", 61, PACKED),
    family("awq", 7, PACKED),
    family("autoround", 27, PACKED),
    family("marlin", 8, &[".B", ".s", ".qweight"]),
    family("hqq", 24, HQQ),
    family("bitnet", 5, &[".weight_scale"]),
    family("torchao", 20, &["._weight_"]),
    family("quanto", 19, &["._data", "._scale", "._shift", "put_scale"]),
    family(
        "comfy",
        21,
        &["scale", "comfy_quant", "weight_s_", "weight_c", "weight_zero", "proj_", "smooth", "scaled_fp8"],
    ),
    family("gemma", 4, &["scale", "_quantized"]),
    family("eetq", 2, &["weight_scales", ".qweight"]),
    family("aqlm", 5, &[".codes", ".codebooks", ".scales"]),
    family("vptq", 5, &[".indices", "indices", "centroids", "weight_", ".perm"]),
    family("sinq", 11, &[".W_q", ".meta."]),
    family("fouroversix", 5, &["quantized_weight_"]),
    family("exl2", 5, &[".q_weight", ".q_scale", ".q_groups", ".q_invperm", ".q_perm"]),
    family("exl3", 5, &[".trellis", ".su", ".sv", ".mcg", ".mul1"]),
    family("mlx", 45, &[".scales", ".biases", ".qbiases"]),
    family("quark", 8, &["weight_scale", "weight_zero_point"]),
    family("modelopt", 21, &["weight_scale", "input_scale", ".k_scale", ".v_scale"]),
    family("mxfp4", 9, &["_blocks", "_scales", ".scale", "_scale_inv"]),
    Family {
        unsigned_zeros: Some("fp4"),
        ..family("bnb", 24, &["absmax", "quant_map", "quant_state", ".SCB", "weight_format"])
    },
    family(
        "compressed_tensors",
        101,
        &[
            ".weight_",
            "_scale",
            "_zero_point",
            ".scale_packed",
            ".meta",
            ".compressed",
            ".bitmask",
            ".shape",
            ".row_offsets",
        ],
    ),
];

impl Family {
    /// Names of the cases with expected values.
    fn cases(&self) -> Vec<String> {
        let entries = std::fs::read_dir(fixture(self.directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut cases: Vec<_> =
            names.filter_map(|name| Some(name.strip_suffix(".expected.safetensors")?.to_owned())).collect();
        cases.sort();
        cases
    }

    /// Decodes one case to every type at every CPU level and returns the differences.
    fn check(&self, case: &str) -> Vec<String> {
        let config = std::fs::read(fixture(&format!("{}/{case}.config.json", self.directory))).ok();
        self.check_with(case, config.map(|text| serde_json::from_slice(&text).unwrap()))
    }

    /// The same with another configuration.
    fn check_with(&self, case: &str, config: Option<Value>) -> Vec<String> {
        let file = |end: &str| fixture(&format!("{}/{case}{end}", self.directory));
        let input = std::fs::read(file(".safetensors")).unwrap();
        let folder = Folder::staged(&input, config.as_ref());
        if let Ok(sidecar) = std::fs::read(file(".sidecar.json")) {
            folder.write(SIDECAR, sidecar);
        }
        let (input, expected) = (Contents::of(&input), Contents::read(file(".expected.safetensors")));
        let mut faults = Vec::new();
        for target in TARGETS {
            let suffix = format!(".{}", target.to_string().to_lowercase());
            let mut wanted: BTreeMap<_, _> = expected
                .tensors
                .iter()
                .filter_map(|(name, tensor)| Some((name.strip_suffix(&suffix)?.to_owned(), tensor.clone())))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            for (name, tensor) in &input.tensors {
                if !self.companions.iter().any(|part| name.contains(part)) {
                    wanted.entry(name.clone()).or_insert_with(|| tensor.clone());
                }
            }
            let in_memory = CpuLevel::available().map(|level| (level.name(), folder.remember_at(level, target)));
            for (how, output) in in_memory.chain([("the best level", folder.remember(target))]) {
                let place = format!("{}/{case} {target} at {how}", self.directory);
                let found = match output {
                    Ok(output) if without_markers(&output.metadata) != without_markers(&input.metadata) => {
                        vec![format!("metadata {:?}", output.metadata)]
                    }
                    Ok(output) => self.differences(case, &wanted, &output),
                    Err(error) => vec![error.to_string()],
                };
                faults.extend(found.iter().map(|fault| format!("{place}: {fault}")));
            }
        }
        faults
    }

    /// The differences of a decoded file.
    fn differences(&self, case: &str, wanted: &BTreeMap<String, Tensor>, output: &Contents) -> Vec<String> {
        if !output.tensors.keys().eq(wanted.keys()) {
            return vec![format!("tensors {:?}", output.names())];
        }
        let unsigned = self.unsigned_zeros.is_some_and(|start| case.starts_with(start));
        let comparable = |tensor: &Tensor| if unsigned { with_positive_zeros(tensor) } else { tensor.clone() };
        let differs = |(name, tensor): (&String, &Tensor)| {
            let why = difference(&comparable(tensor), &comparable(&output.tensors[name]))?;
            Some(format!("{name}: {why}"))
        };
        wanted.iter().filter_map(differs).collect()
    }
}

/// The tensor with every negative zero made positive.
fn with_positive_zeros(tensor: &Tensor) -> Tensor {
    let width = if tensor.dtype == "F32" { 4 } else { 2 };
    let mut tensor = tensor.clone();
    for element in tensor.data.chunks_exact_mut(width) {
        if element[width - 1] == 0x80 && element[..width - 1].iter().all(|&byte| byte == 0) {
            element[width - 1] = 0;
        }
    }
    tensor
}

#[test]
fn every_fixture_decodes_to_the_bits_of_its_library() {
    let mut faults = Vec::new();
    for family in FAMILIES {
        let cases = family.cases();
        assert!(cases.len() >= family.cases, "{} has only {} cases", family.directory, cases.len());
        faults.extend(cases.iter().flat_map(|case| family.check(case)));
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// Prefixes of cases whose library computes in a requested type.
const COMPUTES_IN_THE_REQUESTED_TYPE: [&str; 4] = ["fp8/modelopt", "modelopt/", "mlx/mxfp", "mlx/nvfp"];

#[test]
fn every_fixture_decodes_with_the_arithmetic_of_its_library_on_request() {
    let options = OpenOptions::new().with_rounding(Rounding::AsLibrary);
    let (mut faults, mut weights) = (Vec::new(), 0);
    for family in FAMILIES {
        for case in family.cases() {
            let place = format!("{}/{case}", family.directory);
            let file = |end: &str| fixture(&format!("{place}{end}"));
            let expected = Contents::read(file(".expected.safetensors"));
            let config = std::fs::read(file(".config.json")).ok();
            let config = config.map(|text| serde_json::from_slice::<Value>(&text).unwrap());
            let folder = Folder::staged(&std::fs::read(file(".safetensors")).unwrap(), config.as_ref());
            for (name, native) in &expected.tensors {
                let Some(name) = name.strip_suffix(".native") else { continue };
                weights += 1;
                let checkpoint = Checkpoint::open_with(folder.model(), &options).unwrap();
                let target = native.dtype.parse().unwrap();
                let mut found = native.clone();
                found.data.fill(0);
                let decoded = checkpoint.decode_into(name, &mut found.data, target);
                let wide = checkpoint.decode::<f32>(name).map(|values| le_bytes(&values));
                let why = match (decoded, wide) {
                    (Err(error), _) | (_, Err(error)) => Some(error.to_string()),
                    _ if difference(native, &found).is_some() => difference(native, &found),
                    _ if COMPUTES_IN_THE_REQUESTED_TYPE.iter().any(|start| place.starts_with(start)) => None,
                    // Other types are rounded from the values of the library.
                    (_, Ok(wide)) => difference(&widened(native), &Tensor { data: wide, ..widened(native) }),
                };
                faults.extend(why.map(|why| format!("{}/{case} {name}: {why}", family.directory)));
            }
        }
    }
    assert!(weights >= 8, "only {weights}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// The same numbers as F32.
fn widened(tensor: &Tensor) -> Tensor {
    let pairs = tensor.data.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let values: Vec<f32> = match tensor.dtype.as_str() {
        "BF16" => pairs.map(|bits| f32::from_bits(u32::from(bits) << 16)).collect(),
        "F16" => pairs.map(half).collect(),
        _ => return tensor.clone(),
    };
    Tensor { dtype: "F32".into(), shape: tensor.shape.clone(), data: le_bytes(&values) }
}

/// Half precision by its definition.
fn half(bits: u16) -> f32 {
    let (sign, exponent, mantissa) = (bits >> 15, i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + mantissa) * 2f32.powi(exponent - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

#[test]
fn the_comparison_sees_a_single_wrong_bit_and_takes_nan_as_a_class() {
    let tensor = |values: &[u32]| Tensor {
        dtype: "F32".into(),
        shape: vec![values.len()],
        data: values.iter().flat_map(|bits| bits.to_le_bytes()).collect(),
    };
    assert_eq!(difference(&tensor(&[1, 0x7fc0_0000]), &tensor(&[1, 0xffff_ffff])), None);
    for wrong in [[0, 0x7fc0_0000], [1, 0x7f80_0000], [0x8000_0001, 0x7fc0_0000]] {
        assert!(difference(&tensor(&[1, 0x7fc0_0000]), &tensor(&wrong)).is_some(), "{wrong:x?}");
    }
}

#[test]
fn symmetric_gptq_weights_reveal_their_format_without_a_configuration() {
    let family = &FAMILIES[2];
    let cases: Vec<_> = family.cases().into_iter().filter(|case| case.contains("_sym_")).collect();
    assert!(cases.iter().filter(|case| case.ends_with("_v2")).count() >= 8, "{cases:?}");
    let faults: Vec<_> = cases.iter().flat_map(|case| family.check_with(case, None)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
