//! Reads a GGUF file and writes its metadata and tensors to a new file, in the layout of `write_gguf`.
//!
//! `cargo run --example rewrite_gguf IN.gguf OUT.gguf`

use std::process::ExitCode;

use anamnesis::{GgufWriteTensor, parse_gguf, write_gguf};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [input, output] = &arguments[..] else {
        eprintln!("usage: rewrite_gguf IN.gguf OUT.gguf");
        return ExitCode::from(2);
    };
    let rewritten = parse_gguf(input).and_then(|model| {
        let stored: Vec<_> = model.tensors().collect();
        let tensors = stored.iter().map(|tensor| GgufWriteTensor {
            name: tensor.name,
            shape: tensor.shape,
            dtype: tensor.dtype,
            data: &tensor.data,
        });
        write_gguf(output, &tensors.collect::<Vec<_>>(), model.metadata())
    });
    match rewritten {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
