//! Appends lines to files in which other writers may have left an incomplete line.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
};

/// Appends a line with its end in one write. If an earlier writer left a last line without an end, ends that line first.
///
/// `file` must be open for reading and appending. It may also be open for reading and writing, if the caller owns a lock
/// that excludes other writers.
///
/// # Errors
///
/// The error of the file system. A part of the line may be written then.
pub fn append_line(mut file: &File, line: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(line.len() + 2);
    if !ends_whole(file)? {
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(line);
    bytes.push(b'\n');
    file.write_all(&bytes)
}

fn ends_whole(mut file: &File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}
