//! Coders that fill only part of a tile: the run fails with the name of the tensor, and no file is written.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::write_file;
use crate::catalog::{Dtype, Extent, TargetDtype};
use crate::container::OutputTensor;
use crate::container::safetensors::Safetensors;
use crate::error::{AnamnesisError, Fault, Result};
use crate::io::{BytesSource, Source};
use crate::pipeline::{Checks, Origin, Plan, Planned, RememberOptions, Values, Work};
use crate::scheme::{Context, EncodedTensor, PlainDecoder, TileDecoder, TileEncoder, Window};

/// More values than fit one tile, so that the tile buffer is reused.
const VALUES: u64 = 200_000;

/// A decoder that copies F32 values, except the last `missing` values of every tile.
#[derive(Hash)]
struct CopyingDecoder {
    missing: usize,
}

impl TileDecoder for CopyingDecoder {
    fn granule(&self) -> u64 {
        1000
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::run(0, elements.start * 4, (elements.end - elements.start) * 4));
    }

    fn decode(
        &self,
        _elements: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        _context: &mut Context,
    ) -> Result<usize> {
        let written = out.len() - 4 * self.missing;
        out[..written].copy_from_slice(&inputs[0][..written]);
        Ok(written)
    }

    fn describe(&self) -> String {
        "a decoder that leaves bytes".to_owned()
    }
}

/// An encoder that copies F32 values, except the last `missing` values of every range.
#[derive(Hash)]
struct CopyingEncoder {
    output: [EncodedTensor; 1],
    missing: usize,
}

impl TileEncoder for CopyingEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.output
    }

    fn granule(&self) -> u64 {
        1000
    }

    fn scale_values(&self) -> u64 {
        1
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        places.push(Window::between(0, range.start * 4..range.end * 4));
    }

    fn encode(
        &self,
        _range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        _context: &mut Context,
    ) -> Result<usize> {
        let written = values.len() - self.missing;
        for (out, value) in outs[0].as_chunks_mut::<4>().0.iter_mut().zip(&values[..written]) {
            *out = value.to_le_bytes();
        }
        Ok(4 * written)
    }

    fn decode(
        &self,
        _range: &Range<u64>,
        outs: &[&mut [u8]],
        decoded: &mut [u8],
        _context: &mut Context,
    ) -> Result<usize> {
        decoded.copy_from_slice(outs[0]);
        Ok(decoded.len())
    }

    fn describe(&self) -> String {
        "an encoder that leaves bytes".to_owned()
    }
}

fn stored() -> Vec<u8> {
    (0..VALUES).flat_map(|value| (value as f32).to_le_bytes()).collect()
}

/// Writes one tensor to a file with a coder that leaves out `missing` values per tile.
fn written(missing: usize, is_encoded: bool, output: &Path) -> Result<()> {
    let (name, shape) = ("model.layers.3.weight".to_owned(), vec![VALUES as usize]);
    let values = |decoder: Arc<dyn TileDecoder>| Values {
        decoder,
        parts: vec![Extent { file: 0, offset: 0, bytes: VALUES * 4 }],
        sources: Vec::new(),
        dtype: TargetDtype::F32,
        elements: VALUES,
        origin: Origin::Plain,
    };
    let work = if is_encoded {
        let output = [EncodedTensor { name: name.clone(), dtype: Dtype::F32, shape: shape.clone() }];
        let plain = PlainDecoder::of(Dtype::F32).unwrap();
        Work::Encode {
            name: name.clone(),
            values: values(Arc::new(plain)),
            encoder: Box::new(CopyingEncoder { output, missing }),
            checks: Checks { allow_nonfinite: false, measure: true, loaded_as: TargetDtype::F32 },
            shared: None,
        }
    } else {
        Work::Decode(values(Arc::new(CopyingDecoder { missing })))
    };
    let planned = Planned { outputs: vec![OutputTensor { name, dtype: Dtype::F32, shape, bytes: VALUES * 4 }], work };
    let plan = Plan::new(vec![planned], &Safetensors, None)?;
    let sources: Vec<Box<dyn Source>> = vec![Box::new(BytesSource(stored()))];
    for threads in [1, 3] {
        let options = RememberOptions { threads: Some(threads), ..RememberOptions::default() };
        write_file(&plan, &sources, output, &options, &mut |_| {})?;
    }
    Ok(())
}

#[test]
fn a_coder_that_leaves_bytes_unwritten_is_refused_and_no_file_appears() {
    for is_encoded in [false, true] {
        for missing in [1, 7] {
            let directory = tempfile::tempdir().unwrap();
            let output = directory.path().join("model.safetensors");
            let error = written(missing, is_encoded, &output).unwrap_err();
            assert_eq!(error.fault(), Fault::Library, "{error}");
            assert!(
                matches!(&error, AnamnesisError::Internal { reason } if reason.contains("model.layers.3.weight")),
                "{error}"
            );
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
        }
    }
}

#[test]
fn the_same_coders_write_whole_tiles() {
    for is_encoded in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("model.safetensors");
        written(0, is_encoded, &output).unwrap();
        let file = std::fs::read(&output).unwrap();
        assert!(file.ends_with(&stored()));
    }
}
