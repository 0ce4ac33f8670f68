//! GGUF against a naive reader: a file that the library reads has the keys and tensors that the specification gives it, and
//! one that follows the specification is read, or over a limit.

use std::collections::HashSet;

use anamnesis::{Fault, parse_gguf_front_matter_from_reader_with_limits};

use crate::naive_gguf;
use crate::reading::limits;

/// Both readers agree on every file that one of them accepts.
pub fn header(file: &[u8]) {
    let naive = naive_gguf::read(file);
    let ours = match parse_gguf_front_matter_from_reader_with_limits(std::io::Cursor::new(file), &limits()) {
        Ok(ours) => ours,
        Err(error) => {
            let flaw = naive.map_or(Some("it cannot be read"), |naive| naive.flaw());
            assert!(
                flaw.is_some() || error.fault() == Fault::Limit,
                "a file that follows the rules is refused: {error}"
            );
            return;
        }
    };
    let naive = naive.expect("a file that is read follows the specification");
    assert_eq!(naive.flaw(), None);
    assert_eq!((u64::from(ours.version), u64::from(ours.alignment)), (naive.version, naive.alignment));
    let keys: HashSet<_> = naive.keys.iter().map(Vec::as_slice).collect();
    assert_eq!(ours.metadata.len(), naive.keys.len());
    assert!(ours.metadata.keys().all(|key| keys.contains(key.as_bytes())));
    assert_eq!(ours.tensor_infos.len(), naive.tensors.len());
    let mut infos: Vec<_> = ours.tensor_infos.iter().collect();
    let mut tensors: Vec<_> = naive.tensors.iter().collect();
    infos.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    for (ours, theirs) in infos.into_iter().zip(tensors) {
        assert_eq!(ours.name.as_bytes(), theirs.name);
        assert!(ours.shape.iter().map(|&dim| dim as u64).eq(theirs.dimensions.iter().copied()), "{}", ours.name);
        assert_eq!((u64::from(ours.type_id), ours.data_offset), (theirs.kind, theirs.offset), "{}", ours.name);
        let end = ours.byte_len.map(|bytes| ours.data_offset + bytes);
        assert!(end.is_none_or(|end| end <= file.len() as u64), "{} ends in the file", ours.name);
    }
}
