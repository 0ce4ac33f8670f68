//! Reading the header of a file with many tensors.

use std::hint::black_box;
use std::io::Write;

use crate::clock::in_turn;

const TENSORS: usize = 100_000;

pub fn report() -> std::io::Result<()> {
    let mut header = String::from("{");
    for tensor in 0..TENSORS {
        let (start, end) = (tensor * 8, tensor * 8 + 8);
        let comma = if tensor == 0 { "" } else { "," };
        let name = format!("model.layers.{}.mlp.experts.{}.down_proj.weight", tensor / 256, tensor % 256);
        header += &format!("{comma}\"{name}\":{{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[{start},{end}]}}");
    }
    header.push('}');
    let mut file = tempfile::Builder::new().suffix(".safetensors").tempfile()?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    file.write_all(&vec![0; TENSORS * 8])?;
    file.flush()?;
    let path = file.path();
    let bytes = std::fs::read(path)?;
    let seconds = in_turn(&mut [
        &mut || drop(black_box(anamnesis::parse(path).map(|model| model.inspect()))),
        &mut || drop(black_box(published::parse(path).map(|model| model.inspect()))),
        &mut || drop(black_box(safetensors::SafeTensors::read_metadata(&bytes))),
    ]);
    println!("## A header of {TENSORS} tensors\n");
    println!(
        "Milliseconds to open the file and look through it: anamnesis {:.0}, the published crate {:.0} ({:.2} of it),",
        seconds[0] * 1e3,
        seconds[1] * 1e3,
        seconds[0] / seconds[1]
    );
    println!("the `safetensors` crate {:.0} (it keeps less: no claims, no schemes).\n", seconds[2] * 1e3);
    Ok(())
}
