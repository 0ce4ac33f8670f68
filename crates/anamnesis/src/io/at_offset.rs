//! Reading and writing an open file at an offset, by several threads.
//!
//! Unix and Windows have calls for that. Elsewhere the cursor of the file is moved, which all handles of a file share:
//! one thread at a time.

/// Fills `buffer` from `offset`; a short read is an error.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// Writes all bytes at `offset`.
#[cfg(unix)]
pub(crate) fn write_all_at(file: &std::fs::File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Fills `buffer` from `offset`; a short read is an error.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &std::fs::File, mut buffer: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// Writes all bytes at `offset`.
#[cfg(windows)]
pub(crate) fn write_all_at(file: &std::fs::File, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            count => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
pub(crate) use by_cursor::{read_exact_at, write_all_at};

#[cfg(any(test, not(any(unix, windows))))]
mod by_cursor {
    use std::fs::File;
    use std::io::{Read, Result, Seek, SeekFrom, Write};
    use std::sync::{Mutex, PoisonError};

    /// Held from the move of a cursor to the end of the transfer. One for all files: handles may share a cursor.
    static CURSORS: Mutex<()> = Mutex::new(());

    /// Fills `buffer` from `offset`; a short read is an error.
    pub(crate) fn read_exact_at(mut file: &File, buffer: &mut [u8], offset: u64) -> Result<()> {
        let _cursors = CURSORS.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }

    /// Writes all bytes at `offset`.
    pub(crate) fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> Result<()> {
        let _cursors = CURSORS.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{ErrorKind, Result};

    /// A function that reads at an offset, and one that writes.
    type Calls = (fn(&File, &mut [u8], u64) -> Result<()>, fn(&File, &[u8], u64) -> Result<()>);

    const CALLS: [Calls; 2] = [(read_exact_at, write_all_at), (by_cursor::read_exact_at, by_cursor::write_all_at)];

    #[test]
    fn threads_read_and_write_the_same_file_at_their_own_offsets() {
        for (read, write) in CALLS {
            let file = tempfile::tempfile().unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4_u8 {
                    let file = &file;
                    scope.spawn(move || {
                        for step in 0..100 {
                            let offset = (step * 4 + u64::from(thread)) * 8;
                            write(file, &[thread; 8], offset).unwrap();
                            let mut found = [9; 8];
                            read(file, &mut found, offset).unwrap();
                            assert_eq!(found, [thread; 8]);
                        }
                    });
                }
            });
            assert_eq!(file.metadata().unwrap().len(), 3200);
        }
    }

    #[test]
    fn a_read_past_the_end_is_an_error_and_a_write_past_it_leaves_zeros() {
        for (read, write) in CALLS {
            let file = tempfile::tempfile().unwrap();
            write(&file, &[1; 4], 4).unwrap();
            let mut found = [9; 8];
            read(&file, &mut found, 0).unwrap();
            assert_eq!(found, [0, 0, 0, 0, 1, 1, 1, 1]);
            assert_eq!(read(&file, &mut found, 1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
    }
}
