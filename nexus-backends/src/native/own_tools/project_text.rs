//! `AGENTS.md` files of a project.

use std::path::{Path, PathBuf};

use nexus_core::harness::run_blocking;

/// Name of the file. Source: agents.md, the convention that most agents read.
const NAME: &str = "AGENTS.md";
/// Maximum size of all files together, in bytes. Source: our own bound.
const MAX_BYTES: usize = 32 << 10;
/// Maximum number of folders above the working directory that are searched for the root of the repository.
const MAX_FOLDERS: usize = 64;

/// Reads `AGENTS.md` from the root of the repository down to `folder`, the outermost first. `None` if there is none.
///
/// Only regular files of this user or of root count. Text beyond 32 KiB is left out, and the text says so.
pub(super) async fn read(folder: PathBuf) -> Option<String> {
    run_blocking(move || read_all(&folder)).await.ok().flatten()
}

/// Returns the files that [`read`] reads in `folder`, as far as the limit reaches. Blocks.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    read_files(&folder).into_iter().map(|file| file.path).collect()
}

fn read_all(folder: &Path) -> Option<String> {
    let mut text = String::new();
    for file in read_files(folder) {
        let path = file.path.display();
        text.push_str(&format!("# {path}\n\n{}\n", file.text.trim_end()));
        if !file.is_whole {
            text.push_str(&format!("\n[the rest of {path} is left out: the limit is 32 KiB]\n"));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// One file of the project.
struct ProjectFile {
    path: PathBuf,
    text: String,
    /// False if the limit cut the text.
    is_whole: bool,
}

fn read_files(folder: &Path) -> Vec<ProjectFile> {
    let above: Vec<&Path> = folder.ancestors().take(MAX_FOLDERS).collect();
    // Without a repository only the folder itself counts: a folder above it may belong to anybody.
    let root = above.iter().position(|folder| folder.join(".git").exists());
    // On a shared machine, others can create `/tmp/.git` and a file of instructions beside it.
    let is_trusted = |at: &usize| {
        above[..=*at].iter().all(|folder| is_of_this_user(folder))
            && is_of_this_user(&above[*at].join(".git"))
    };
    let root = root.filter(is_trusted).unwrap_or(0);
    let (mut files, mut left) = (Vec::new(), MAX_BYTES);
    for folder in above[..=root].iter().rev() {
        let path = folder.join(NAME);
        let Ok(Some((text, is_whole))) = read_start(&path, left) else { continue };
        left -= text.len().min(left);
        files.push(ProjectFile { path, text, is_whole });
        if !is_whole {
            break;
        }
    }
    files
}

/// Returns true if the path belongs to this user or to root.
fn is_of_this_user(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let found = path.symlink_metadata();
    found.is_ok_and(|found| found.uid() == 0 || found.uid() == rustix::process::geteuid().as_raw())
}

/// Reads at most `most` bytes of a regular file, and returns false if there is more. `None` if it does not exist.
fn read_start(path: &Path, most: usize) -> std::io::Result<Option<(String, bool)>> {
    use std::io::Read as _;

    // A link could lead out of the project.
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) || !is_of_this_user(path) {
        return Ok(None);
    }
    let file = nexus_files::open_regular(path, std::fs::OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() <= most;
    bytes.truncate(most);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if !is_whole {
        // A character that was cut in two is left out.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
    }
    Ok(Some((text, is_whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_from_the_root_of_the_repository_down_and_never_beyond_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("repo/.git")).unwrap();
        std::fs::create_dir_all(root.join("repo/a/b")).unwrap();
        for (name, text) in
            [("AGENTS.md", "outside"), ("repo/AGENTS.md", "first"), ("repo/a/AGENTS.md", "second")]
        {
            std::fs::write(root.join(name), text).unwrap();
        }
        let text = read_all(&root.join("repo/a/b")).unwrap();
        let of = |word: &str| text.find(word);
        assert!(of("first") < of("second") && of("first").is_some() && of("outside").is_none(), "{text}");
        std::fs::remove_dir(root.join("repo/.git")).unwrap();
        assert_eq!(read_all(&root.join("repo/a/b")), None);
        std::os::unix::fs::symlink(root.join("AGENTS.md"), root.join("repo/a/b/AGENTS.md")).unwrap();
        assert_eq!(read_all(&root.join("repo/a/b")), None, "a link is not followed");
    }

    #[test]
    fn long_notes_are_cut_and_say_so() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("AGENTS.md"), "ä".repeat(20 << 10)).unwrap();
        let text = read_all(folder.path()).unwrap();
        assert!(text.len() < (33 << 10) && text.contains("is left out"), "{}", text.len());
        assert!(!text.contains('\u{fffd}'));
    }
}
