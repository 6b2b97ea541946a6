//! Archives whose bytes depend on their files alone.

use std::io::Write as _;
use std::path::PathBuf;

use flate2::{Compression, GzBuilder};

/// File of an archive.
pub(super) struct Member {
    path: PathBuf,
    mode: u32,
    bytes: Vec<u8>,
}

impl Member {
    pub(super) fn file(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), mode: 0o644, bytes }
    }

    pub(super) fn program(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), mode: 0o755, bytes }
    }
}

/// Archive of files below one folder.
pub(super) struct Archive<'a> {
    folder: &'a str,
    members: &'a [Member],
}

impl<'a> Archive<'a> {
    pub(super) fn below(folder: &'a str) -> Self {
        Self { folder, members: &[] }
    }

    pub(super) fn with_all(mut self, members: &'a [Member]) -> Self {
        self.members = members;
        self
    }

    /// Writes a `.tar.gz`. Owner and time of each file are zero, so that equal files give equal bytes.
    pub(super) fn gzip(&self) -> Result<Vec<u8>, String> {
        let mut tar = tar::Builder::new(Vec::new());
        for Member { path, mode, bytes } in self.members {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(*mode);
            header.set_mtime(0);
            let path = PathBuf::from(self.folder).join(path);
            tar.append_data(&mut header, &path, bytes.as_slice())
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let bytes = tar.into_inner().map_err(|error| error.to_string())?;
        let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        gzip.write_all(&bytes).and_then(|()| gzip.finish()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_give_equal_archives_that_tar_reads() {
        let members =
            [Member::program("bin/nexus", b"#!".to_vec()), Member::file("share/a", b"text".to_vec())];
        let pack = || Archive::below("nexus-1").with_all(&members).gzip().unwrap();
        assert_eq!(pack(), pack());
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(std::io::Cursor::new(pack())));
        let read: Vec<_> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap())
            })
            .collect();
        assert_eq!(read, [("nexus-1/bin/nexus".to_owned(), 0o755), ("nexus-1/share/a".to_owned(), 0o644)]);
    }
}
