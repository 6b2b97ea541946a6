//! A bundle that is stored in or fetched from the object store: a file of bounded size, with its size and hash.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use nexus_core::{ErrorKind, harness::Failure};
use nexus_trees::{TreeError, TreeErrorKind, TreeLimits};
use sha2::{Digest as _, Sha256};

use crate::objects::FileToStore;

/// Maximum ratio between the unpacked files and the bundle. Source: our own bound; text compresses to a quarter, and only
/// malicious data has much better ratios.
const UNPACKED: u64 = 16;

/// Returns the limits of a tree whose bundle may have `max_bytes`.
pub(crate) fn limits(max_bytes: u64) -> TreeLimits {
    let mut limits = TreeLimits::default();
    limits.total_bytes = max_bytes.saturating_mul(UNPACKED);
    limits.file_bytes = limits.file_bytes.min(limits.total_bytes);
    limits
}

/// Writes a bundle to a file at this path. `what` names the bundle in errors: "the base".
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`] if it has more than `max_bytes`; otherwise as [`failure`].
pub(crate) fn write(
    path: &Path,
    max_bytes: u64,
    what: &str,
    bundle: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), TreeError>,
) -> Result<FileToStore, Failure> {
    let unwritten = |error: io::Error| {
        Failure::new(ErrorKind::InvalidRequest, format!("{} cannot be written: {error}", path.display()))
    };
    let file = File::create(path).map_err(unwritten)?;
    let mut writer = BoundedFile { file, hash: Sha256::new(), bytes: 0, max_bytes, is_full: false };
    let written = bundle(&mut writer);
    if writer.is_full {
        let reason = format!(
            "{what} has more than {max_bytes} bytes as a bundle, the limit for another machine: \
             `fleet.max_workspace_bytes` sets the limit"
        );
        return Err(Failure::new(ErrorKind::InvalidRequest, reason));
    }
    written.map_err(|error| failure(what, &error))?;
    Ok(FileToStore {
        path: path.to_owned(),
        bytes: writer.bytes,
        sha256: nexus_files::hex(writer.hash.finalize()),
    })
}

/// File that is written up to a size, with its hash.
struct BoundedFile {
    file: File,
    hash: Sha256,
    bytes: u64,
    max_bytes: u64,
    is_full: bool,
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes + bytes.len() as u64 > self.max_bytes {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Converts a failure of a tree to the failure of a turn whose files could not travel.
pub(crate) fn failure(what: &str, error: &TreeError) -> Failure {
    let kind = match error.kind() {
        TreeErrorKind::Cancelled => return Failure::cancelled(),
        TreeErrorKind::GitMissing | TreeErrorKind::GitTooOld => ErrorKind::NotInstalled,
        _ => ErrorKind::InvalidRequest,
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::new(kind, format!("{what}: {error}{cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_beyond_the_bound_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle");
        let three = |to: &mut (dyn Write + Send)| {
            to.write_all(b"abc").unwrap();
            Ok(())
        };
        let written = write(&path, 3, "the base", three).unwrap();
        assert_eq!((written.bytes, std::fs::read(&path).unwrap()), (3, b"abc".to_vec()));
        assert!(written.sha256.starts_with("ba7816bf"), "{}", written.sha256);
        let four = |to: &mut (dyn Write + Send)| {
            let _ = to.write_all(b"ab");
            let _ = to.write_all(b"cd");
            Ok(())
        };
        let refused = write(&path, 3, "the base", four).unwrap_err();
        assert!(refused.message.unwrap().contains("the base has more than 3 bytes"));
    }
}
