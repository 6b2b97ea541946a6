//! Sends a base and its changes to another machine, as bundles.
//!
//! A bundle is a few lines of text and a pack. Git's own `bundle` can read the bundle of a change. Plumbing commands pack
//! and unpack the objects, without a transport. Source: gitformat-bundle.

use std::{
    io::{self, BufRead, Write},
    path::Path,
};

use super::{
    CommitId, Tree, TreeError, TreeErrorKind, TreeLimits,
    refusal::to_path,
    repo::{GITLINK, Repo},
    text,
};

const V2: &str = "# v2 git bundle";
const V3: &str = "# v3 git bundle";
const TIP: &str = "refs/nexus/tip";
/// Maximum length of a line in a bundle's head, in bytes, and maximum number of lines.
const MAX_LINE: u64 = 4 << 10;
const MAX_LINES: usize = 64;
/// Maximum number of commits in a bundle.
const MAX_COMMITS: usize = 10_000;

/// The head of a bundle.
#[derive(Debug)]
pub(super) struct BundleHead {
    pub(super) object_format: String,
    pub(super) prerequisites: Vec<CommitId>,
    pub(super) tip: CommitId,
}

impl Tree {
    /// Writes the base commit with its files, without its history. [`Tree::create_from_bundle`] reads it.
    ///
    /// # Errors
    ///
    /// [`MissingObject`](TreeErrorKind::MissingObject) in a partial clone; errors of `to` and of git.
    pub fn bundle_base(&self, to: &mut (dyn Write + Send)) -> Result<(), TreeError> {
        let base = &self.base().commit;
        let listed =
            self.repo.command("rev-list").args(["--objects", "--no-walk", base.as_str()]).run(b"")?;
        let mut objects = Vec::new();
        for line in listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            objects.extend(line.iter().take_while(|byte| **byte != b' '));
            objects.push(b'\n');
        }
        self.write_bundle(&[], base, &["--delta-base-offset"], &objects, to)
    }

    /// Writes the objects that `tip` has and `from` does not. A repository with `from` reads them by
    /// [`Tree::apply_bundle`].
    ///
    /// # Errors
    ///
    /// [`NotFound`](TreeErrorKind::NotFound) if a commit does not exist; errors of `to` and of git.
    pub fn bundle(
        &self,
        from: &CommitId,
        tip: &CommitId,
        to: &mut (dyn Write + Send),
    ) -> Result<(), TreeError> {
        for commit in [from, tip] {
            self.repo.tree_of(commit)?;
        }
        let objects = format!("{tip}\n^{from}\n");
        let options = ["--delta-base-offset", "--revs", "--thin"];
        self.write_bundle(&[from], tip, &options, objects.as_bytes(), to)
    }

    /// Reads a bundle of changes, and returns its tip. Moves no ref. Checks every commit of the bundle by the
    /// rules of [`Tree::commit`].
    ///
    /// # Errors
    ///
    /// [`Malformed`](TreeErrorKind::Malformed) if it is not a bundle; [`NotFound`](TreeErrorKind::NotFound) if
    /// its parents do not exist here; [`Refused`](TreeErrorKind::Refused) and
    /// [`TooLarge`](TreeErrorKind::TooLarge); [`Unrelated`](TreeErrorKind::Unrelated) if it does not descend
    /// from the base.
    pub fn apply_bundle(&self, from: &mut (dyn BufRead + Send)) -> Result<CommitId, TreeError> {
        let head = read_head(from)?;
        for commit in &head.prerequisites {
            self.repo.tree_of(commit)?;
        }
        unpack(&self.repo, from, self.limits.total_bytes)?;
        self.descends_from_base(&head.tip)?;
        let new = format!("^{}", self.base().commit);
        let commits = self.repo.command("rev-list").args(["--objects", "--quiet", head.tip.as_str(), &new]);
        commits.run(b"")?;
        let most = format!("--max-count={}", MAX_COMMITS + 1);
        let commits = self.repo.command("rev-list").args([&most, head.tip.as_str(), &new]).run(b"")?;
        let commits = text::line(commits)?;
        if commits.lines().count() > MAX_COMMITS {
            let message = format!("a bundle contains more than {MAX_COMMITS} commits");
            return Err(TreeError::new(TreeErrorKind::TooLarge, message));
        }
        bounded(&self.repo, &head.tip, &self.limits)?;
        for commit in commits.lines() {
            self.check(&self.repo.tree_of(&text::id(commit)?)?)?;
        }
        Ok(head.tip)
    }

    fn write_bundle(
        &self,
        prerequisites: &[&CommitId],
        tip: &CommitId,
        options: &[&str],
        objects: &[u8],
        to: &mut (dyn Write + Send),
    ) -> Result<(), TreeError> {
        let mut head = match tip.as_str().len() {
            40 => format!("{V2}\n"),
            _ => format!("{V3}\n@object-format=sha256\n"),
        };
        for commit in prerequisites {
            head += &format!("-{commit}\n");
        }
        head += &format!("{tip} {TIP}\n\n");
        let failed = |error| TreeError::from_io(Path::new("a bundle"), "cannot be written", error);
        to.write_all(head.as_bytes()).map_err(failed)?;
        let command = self.repo.command("pack-objects").args(["--quiet", "--stdout"]).args(options);
        let ended = command.start()?.exchange(objects, |chunk| to.write_all(chunk).map_err(failed))?;
        ended.success()?;
        to.flush().map_err(failed)
    }
}

/// Reads the head of a bundle up to its pack.
pub(super) fn read_head(from: &mut (dyn BufRead + Send)) -> Result<BundleHead, TreeError> {
    let malformed =
        |what: &str| TreeError::new(TreeErrorKind::Malformed, format!("this is not a bundle: {what}"));
    let mut object_format = "sha1".to_owned();
    let (mut prerequisites, mut tips) = (Vec::new(), Vec::new());
    for at in 0..MAX_LINES {
        let mut line = Vec::new();
        io::Read::take(&mut *from, MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| TreeError::from_io(Path::new("a bundle"), "cannot be read", error))?;
        let line = String::from_utf8(line).map_err(|_| malformed("its head is not UTF-8"))?;
        let line = line.strip_suffix('\n').ok_or_else(|| malformed("its head does not end"))?;
        if at == 0 {
            if !matches!(line, V2 | V3) {
                return Err(malformed("its first line is not one of a bundle"));
            }
        } else if line.is_empty() {
            let [tip] = &tips[..] else { return Err(malformed("it must have exactly one tip")) };
            return Ok(BundleHead { object_format, prerequisites, tip: CommitId::clone(tip) });
        } else if let Some(capability) = line.strip_prefix('@') {
            let format =
                capability.strip_prefix("object-format=").filter(|it| matches!(*it, "sha1" | "sha256"));
            object_format =
                format.ok_or_else(|| malformed("it requires commits that do not exist here"))?.to_owned();
        } else {
            let (list, rest) = match line.strip_prefix('-') {
                Some(rest) => (&mut prerequisites, rest),
                None => (&mut tips, line),
            };
            let id = rest.split(' ').next().unwrap_or_default();
            list.push(id.parse().map_err(|_| malformed("it has an odd line"))?);
        }
    }
    Err(malformed("its head is too long"))
}

/// Rejects a commit whose files exceed the limits when they are checked out. A pack of a few bytes may contain any number of
/// files, and one content many times.
pub(super) fn bounded(repo: &Repo, tip: &CommitId, limits: &TreeLimits) -> Result<(), TreeError> {
    let entries = repo.entries(tip.as_str())?;
    let files = entries.iter().filter(|(_, entry)| entry.mode != GITLINK);
    let (paths, ids): (Vec<_>, Vec<&str>) = files.map(|(path, entry)| (path, entry.id.as_str())).unzip();
    let too_large = |what: String| Err(TreeError::new(TreeErrorKind::TooLarge, what));
    if paths.len() > limits.files {
        return too_large(format!("a bundle contains {} files, more than {}", paths.len(), limits.files));
    }
    let mut total = 0_u64;
    for (path, bytes) in paths.iter().zip(repo.sizes(&ids)?) {
        total = total.saturating_add(bytes);
        if bytes > limits.file_bytes || total > limits.total_bytes {
            return too_large(format!(
                "{:?} of a bundle has {bytes} bytes, {total} with the files before it: the limits are {} for \
                one file and {} in total",
                to_path(path),
                limits.file_bytes,
                limits.total_bytes
            ));
        }
    }
    Ok(())
}

/// Reads the pack of a bundle.
pub(super) fn unpack(repo: &Repo, from: &mut (dyn BufRead + Send), max_bytes: u64) -> Result<(), TreeError> {
    let limit = format!("--max-input-size={max_bytes}");
    let command = repo.command("index-pack").args(["--stdin", "--fix-thin", "--strict", &limit]);
    let mut running = command.start()?;
    let unread = |error| TreeError::from_io(Path::new("a bundle"), "cannot be read", error);
    let copied = loop {
        let chunk = match from.fill_buf() {
            Ok([]) => break Ok(()),
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(unread(error)),
        };
        let length = chunk.len();
        // Git may end before it has read everything. Its exit then has the reason.
        if !running.write(chunk)? {
            break Ok(());
        }
        from.consume(length);
    };
    let ended = running.finish()?;
    if ended.code().is_none() {
        return Err(ended.failure());
    }
    if ended.code() != Some(0) {
        let kind = if ended.stderr().contains("exceeds maximum allowed size") {
            TreeErrorKind::TooLarge
        } else {
            TreeErrorKind::Malformed
        };
        let failure = ended.failure();
        return Err(match failure.kind() {
            TreeErrorKind::NoSpace | TreeErrorKind::PermissionDenied => failure,
            _ => TreeError::new(kind, format!("a bundle cannot be read: {failure}")),
        });
    }
    copied
}
