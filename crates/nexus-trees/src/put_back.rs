//! Restores a checkout to its state before a landing.

use std::{fs, io::ErrorKind, path::Path};

use rustix::fs::{AtFlags, FileType};

use super::{
    CommitId, Tree, TreeError, handle,
    in_the_way::unlike,
    repo::{self, Difference, GitEntry, Repo},
    uncommitted::Checkout,
};

impl Tree {
    /// Restores the files of a checkout to `now`, for each path where `tip` differs. Leaves a file that matches
    /// neither, because another program wrote it meanwhile, and files behind a link.
    pub(super) fn put_files_back(
        &self,
        checkout: &Checkout<'_>,
        folder: &Path,
        now: &CommitId,
        tip: &CommitId,
    ) -> Result<(), TreeError> {
        let changes = self.repo.differences(now.as_str(), tip.as_str())?;
        let root = handle::open_folder(folder)
            .map_err(|error| TreeError::from_io(folder, "cannot be opened", error))?;
        let not_old = unlike(checkout, &changes, |change| change.old.as_ref())?;
        let not_new = unlike(checkout, &changes, |change| change.new.as_ref())?;
        for change in &changes {
            let path = change.path.as_slice();
            let is_old = change.old.is_some() && !not_old.contains(path);
            let is_new = change.new.is_some() && !not_new.contains(path);
            // Touch only files that this landing wrote: any other content belongs to the person.
            if is_old || !(is_new || is_half_written(&self.repo, &root, change)) {
                continue;
            }
            let Ok((parent, name)) = handle::open_parent(&root, path) else { continue };
            // If a file cannot be removed, it stays, and git reports it to the person.
            let _ = rustix::fs::unlinkat(&parent, name, AtFlags::empty());
            if change.old.is_none() {
                let above = Path::new(repo::os(path)).ancestors().skip(1);
                for empty in above.take_while(|above| !above.as_os_str().is_empty()) {
                    let _ = fs::remove_dir(folder.join(empty));
                }
            }
        }
        let is_missing = |change: &&Difference| {
            let found = handle::open_parent(&root, &change.path)
                .and_then(|(parent, name)| handle::stat(&parent, name));
            change.old.is_some() && found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        let missing: Vec<&[u8]> =
            changes.iter().filter(is_missing).map(|change| change.path.as_slice()).collect();
        let written = checkout.command("checkout-index").args(["-q", "-u", "-z", "--stdin"]);
        written.outcome(&repo::joined(missing))?.0.refusal().map(drop)
    }
}

/// Returns true if the file is a prefix of the new content, as a killed git leaves it. Ignores line ends.
fn is_half_written(repo: &Repo, root: &std::os::fd::OwnedFd, change: &Difference) -> bool {
    let Some(GitEntry { mode: repo::FILE | repo::EXECUTABLE, id }) = &change.new else { return false };
    let found = handle::open_parent(root, &change.path).and_then(|(parent, name)| {
        let is_file = handle::kind(&handle::stat(&parent, name)?) == FileType::RegularFile;
        let bytes = if is_file { Some(handle::open_file_at(&parent, name)?) } else { None };
        bytes
            .map(|mut file| {
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut file, &mut bytes).map(|_| bytes)
            })
            .transpose()
    });
    let Ok(Some(found)) = found else { return false };
    let Ok(Some(whole)) = repo.reader().and_then(|mut reader| reader.object(id, u64::MAX)) else {
        return false;
    };
    let plain = |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<_>>();
    plain(&whole.bytes).starts_with(&plain(&found))
}
