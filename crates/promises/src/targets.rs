//! The list of all promises.

use crate::{
    against_gguf, against_safetensors, against_zip, containers, descriptions, encodings, levels, outputs, schemes,
    slices, splits,
};

/// A promise by its name, which is that of its fuzz target and of its folder of seeds.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Checks it.
    pub run: fn(&[u8]),
    /// The length of the longest inputs.
    pub max_len: usize,
    /// The name of its dictionary in `fuzz/dictionaries`, if it has one.
    pub dictionary: Option<&'static str>,
}

/// `targets!(name function length dictionary, …)`
macro_rules! targets {
    ($($name:ident $module:ident::$function:ident $length:literal $dictionary:ident),+ $(,)?) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[
            $(Target {
                name: stringify!($name),
                run: $module::$function,
                max_len: $length,
                dictionary: dictionary!($dictionary),
            }),+
        ];
    };
}

/// A name, or `none`.
macro_rules! dictionary {
    (none) => {
        None
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

targets! {
    against_gguf against_gguf::header 65536 gguf,
    against_safetensors against_safetensors::header 65536 safetensors,
    against_zip against_zip::npz 65536 zip,
    architecture descriptions::architecture 4096 configuration,
    configuration descriptions::configuration 8192 configuration,
    convert outputs::converted 16384 safetensors,
    distributed containers::distributed 32768 pth,
    encodings encodings::round_trip 256 none,
    flax containers::flax 65536 flax,
    gguf outputs::gguf 65536 gguf,
    hdf5 containers::hdf5 65536 hdf5,
    importance descriptions::importance 16384 gguf,
    index descriptions::index 16384 safetensors,
    keras containers::keras 65536 zip,
    levels_block_encoders levels::block_encoders 128 none,
    levels_blocks levels::blocks 512 none,
    levels_codes levels::codes 256 none,
    levels_encoders levels::encoders 320 none,
    levels_float8 levels::float8 320 none,
    levels_layouts levels::layouts 520 none,
    levels_sums levels::sums 512 none,
    onnx containers::onnx 16384 onnx,
    pickle containers::pickle 16384 pth,
    pth containers::pth 65536 pth,
    remember outputs::remembered 65536 safetensors,
    scheme_bitsandbytes schemes::bitsandbytes 4096 configuration,
    scheme_codebooks schemes::codebooks 4096 configuration,
    scheme_compressed_tensors schemes::compressed_tensors 4096 configuration,
    scheme_exllama schemes::exllama 4096 configuration,
    scheme_fp8 schemes::fp8 4096 configuration,
    scheme_gptq_awq schemes::gptq_awq 4096 configuration,
    scheme_hqq_quanto_torchao schemes::hqq_quanto_torchao 4096 configuration,
    scheme_microscaled schemes::microscaled 4096 configuration,
    scheme_mlx schemes::mlx 4096 configuration,
    scheme_others schemes::others 4096 configuration,
    slices_bnb slices::bnb 512 none,
    slices_fp8 slices::fp8 512 none,
    slices_gguf slices::gguf 1024 none,
    slices_nvfp4 slices::nvfp4 512 none,
    slices_packed slices::packed 1024 none,
    split_reads splits::reads 16384 safetensors,
    tar containers::tar 65536 tar,
    tensorflow containers::tensorflow 32768 tensorflow,
    tflite containers::tflite 65536 tflite,
    vocabulary descriptions::vocabulary 32768 vocabulary,
    whisper containers::whisper 65536 whisper,
    written_by_zip against_zip::written 16384 none,
}
