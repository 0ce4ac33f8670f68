//! Lists the tensors of the models given, of any format, as burn sees them: `cargo run --example list -- MODEL...`.

use std::error::Error;

use anamnesis_burn::CheckpointStore;
use burn_store::ModuleStore;

fn main() -> Result<(), Box<dyn Error>> {
    for model in std::env::args_os().skip(1) {
        let mut store = CheckpointStore::open(&model)?;
        for (name, tensor) in store.get_all_tensors()? {
            println!("{name} {:?} {:?}", tensor.dtype, tensor.shape);
        }
    }
    Ok(())
}
