//! Quantising to the layout of HQQ without its solver (`optimize=False`): scales and zeros are those the solver begins
//! with.
//!
//! | quantity | computation |
//! |---|---|
//! | factor | 1 / (highest − lowest value of a group) × the highest code; 1 if they are almost equal, 20000 at most |
//! | zero | −lowest value × factor; for four bits rounded to an integer |
//! | code | value × factor + zero, rounded |
//! | scale | 1 / factor; scale and zero are stored in the type of the weight |
//!
//! The solver is not followed because its steps depend on how a machine computes `pow`.

use serde_json::{Value, json};

use super::encoder::GroupEncoder;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::{Request, Result, quoted};
use crate::scheme::coder::{EncodedTensor, FieldOrder, ScaleType};
use crate::scheme::quantise::{
    Candidate, Decision, Encoding, GroupSize, KEPT_FOR_SERVING, QuantiseOptions, QuantisedModel, Quantiser, Task,
    encode, plan_layers,
};

/// The encodings of this scheme.
pub(crate) static ENCODINGS: [Encoding; 4] = [
    Encoding::with_companions(&["hqq-4bit"], "4-bit weights in the layout of HQQ, without its solver", "HQQ4", &BITS4),
    Encoding::with_companions(&["hqq-8bit"], "8-bit weights in the layout of HQQ, without its solver", "HQQ8", &BITS8),
    Encoding::with_companions(&["hqq-2bit"], "2-bit weights in the layout of HQQ, without its solver", "HQQ2", &BITS2),
    Encoding::with_companions(&["hqq-1bit"], "1-bit weights in the layout of HQQ, without its solver", "HQQ1", &BITS1),
];

static BITS4: Kind = Kind { name: "hqq-4bit", bits: 4, packing: "4bit_u8" };
static BITS8: Kind = Kind { name: "hqq-8bit", bits: 8, packing: "8bit_u8" };
static BITS2: Kind = Kind { name: "hqq-2bit", bits: 2, packing: "2bit_u8" };
static BITS1: Kind = Kind { name: "hqq-1bit", bits: 1, packing: "1bit_u8" };

/// The default group size.
const GROUP: u64 = 64;

/// An encoding, by its number of bits.
struct Kind {
    name: &'static str,
    bits: u8,
    packing: &'static str,
}

/// The group size; `None` if a row has one scale.
fn group(options: &QuantiseOptions) -> Option<u64> {
    match options.groups.size {
        None => Some(GROUP),
        Some(GroupSize::Values(values)) => Some(values.into()),
        Some(GroupSize::Row) => None,
    }
}

impl Kind {
    /// Whether zeros are rounded to integers.
    const fn rounds_zeros(&self) -> bool {
        self.bits == 4
    }

    fn weight(&self, tensor: &Candidate<'_>, group: u64) -> Result<Decision> {
        let fields = 8 / u64::from(self.bits);
        let (rows, cols) = match *tensor.shape {
            [rows, cols] => (rows as u64, cols as u64),
            _ => (1, tensor.row()),
        };
        let groups = rows * (cols / group);
        if !groups.is_multiple_of(fields) {
            let what = format!("{} for tensor {}", self.name, quoted(tensor.name));
            let why =
                format!("its {groups} groups of {group} values do not divide into sets of {fields} that share bytes");
            return Err(Request::Contradiction { what, why }.into());
        }
        let output =
            |part: &str, dtype: Dtype, shape: Vec<usize>| EncodedTensor { name: tensor.part(part), dtype, shape };
        let floats = tensor.dtype.dtype();
        let mut outputs = vec![
            output("W_q", Dtype::U8, vec![(groups / fields) as usize, group as usize]),
            output("scale", floats, vec![groups as usize, 1]),
            output("zero", floats, vec![groups as usize, 1]),
        ];
        let number = |value: u64| (value as i32).to_le_bytes().to_vec();
        let flag = |value: bool| vec![u8::from(value)];
        let text = |value: &str| value.as_bytes().to_vec();
        let compute = match tensor.dtype {
            TargetDtype::BF16 => "torch.bfloat16",
            TargetDtype::F16 => "torch.float16",
            TargetDtype::F32 => "torch.float32",
        };
        let shape = [rows, cols].iter().flat_map(|size| size.to_le_bytes()).collect();
        let entries: [(&str, Dtype, Vec<u8>, bool); 16] = [
            ("shape", Dtype::I64, shape, true),
            ("nbits", Dtype::I32, number(self.bits.into()), false),
            ("group_size", Dtype::I32, number(group), false),
            ("axis", Dtype::I32, number(1), false),
            ("packing", Dtype::U8, text(self.packing), true),
            ("unpack_view_dtype", Dtype::U8, text("torch.uint8"), true),
            ("compute_dtype", Dtype::U8, text(compute), true),
            ("view_as_float", Dtype::U8, flag(false), false),
            ("quant_scale", Dtype::U8, flag(false), false),
            ("quant_zero", Dtype::U8, flag(false), false),
            ("offload_meta", Dtype::U8, flag(false), false),
            ("channel_wise", Dtype::U8, flag(true), false),
            ("optimize", Dtype::U8, flag(false), false),
            ("round_zero", Dtype::U8, flag(self.rounds_zeros()), false),
            ("encoded_state_dict", Dtype::U8, flag(true), false),
            ("stores_quant_config", Dtype::U8, flag(true), false),
        ];
        let mut contents = Vec::with_capacity(entries.len());
        for (name, dtype, bytes, is_list) in entries {
            let count = bytes.len() / dtype.byte_size();
            outputs.push(output(name, dtype, if is_list { vec![count] } else { Vec::new() }));
            contents.push(bytes);
        }
        encode(GroupEncoder {
            outputs,
            entries: contents,
            bits: self.bits,
            order: FieldOrder { fields, row: group, run: groups / fields * group },
            scale: ScaleType::of_target(tensor.dtype),
        })
    }
}

impl Quantiser for Kind {
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>> {
        task.options.check_only_groups(self.name)?;
        let group = group(task.options);
        plan_layers(task, self.name, &KEPT_FOR_SERVING, group.unwrap_or(1), |tensor| {
            self.weight(tensor, group.unwrap_or(tensor.row()))
        })
    }

    fn loaded_by(&self) -> &'static str {
        "hqq 0.2.8, layer by layer (HQQLinear.load_state_dict); transformers 5.22 refuses it, as it reads no HQQ tensors"
    }

    fn loads_experts(&self) -> bool {
        false
    }

    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        Some(json!({
            "quant_config": {
                "offload_meta": false,
                "scale_quant_params": null,
                "weight_quant_params": {
                    "axis": 1,
                    "channel_wise": true,
                    "group_size": group(model.options),
                    "nbits": self.bits,
                    "optimize": false,
                    "round_zero": self.rounds_zeros(),
                    "view_as_float": false,
                },
                "zero_quant_params": null,
            },
            // Not `skip_modules`, which transformers 5 requires: with it, transformers would load the model as one that
            // it quantises itself, find none of the expected weights, and initialise them randomly.
            "modules_to_not_convert": model.kept_modules(),
            "quant_method": "hqq",
        }))
    }
}
