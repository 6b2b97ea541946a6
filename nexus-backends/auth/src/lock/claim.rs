//! A claim: a file that stands for a lock where locks may lie.
//!
//! Making a file that must not exist yet is atomic on every file system that is shared between machines, NFS from
//! version 3 included, where locks may be kept by nobody. What a lock does by itself a claim has to be told: it
//! stays when its maker dies. So one whose maker is known to have died is taken away, and so is one that was
//! *watched* for longer than any renewal takes; no clock of one machine is ever compared with that of another.

use std::{
    fs::{self, OpenOptions},
    hash::{BuildHasher as _, RandomState},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{fs::OFlags, io::Errno};
use serde::{Deserialize, Serialize};

use super::Holder;

/// How long a claim is watched before it is held to be nobody's: longer than any renewal takes.
pub(crate) const CLAIM_LIFE: Duration = Duration::from_secs(90);

/// How often an attempt starts over because a claim came or went under it.
const ROUNDS: usize = 100;

/// Largest claim that is read, in bytes.
const MAX_CLAIM_BYTES: u64 = 4 << 10;

/// A claim of ours. Dropped, it is given up.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    text: String,
}

/// Tells one claim from the next at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimId {
    text: String,
    inode: u64,
    modified: (i64, i64),
}

/// What came of asking for a claim.
#[derive(Debug)]
pub(super) enum Claiming {
    /// It is ours.
    Made {
        claim: Claim,
        /// Whether another one had to go. Somebody may have judged that one at the same moment, and be about to take
        /// ours for it; so ours counts only if it is still there a moment later.
        took_over: bool,
    },
    /// Somebody else's stands there.
    Foreign { id: ClaimId, holder: Option<Holder> },
}

/// A claim as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    holder: Holder,
    /// No two claims say the same.
    nonce: String,
}

impl Claim {
    /// Makes a claim at `path`, if there is none, or none that anybody stands for: `stale` is one that was watched
    /// for long enough.
    pub(super) fn make(path: &Path, here: &Holder, stale: Option<&ClaimId>) -> io::Result<Claiming> {
        // Whoever has judged one may find it gone, taken away by another who has.
        let mut took_over = stale.is_some();
        for _ in 0..ROUNDS {
            let nonce = format!("{:016x}", RandomState::new().hash_one(path));
            let text = serde_json::to_string(&Written { holder: here.clone(), nonce })?;
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(mut file) => {
                    let claim = Self { path: path.to_owned(), text };
                    if let Err(error) = file.write_all(claim.text.as_bytes()).and_then(|()| file.sync_all()) {
                        let _ = fs::remove_file(path);
                        return Err(error);
                    }
                    return Ok(Claiming::Made { claim, took_over });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let Some(id) = ClaimId::read(path)? else { continue };
            let holder = serde_json::from_str::<Written>(&id.text).ok().map(|written| written.holder);
            let is_nobodys = holder.as_ref().is_some_and(|holder| holder.is_gone(here));
            if !is_nobodys && stale != Some(&id) {
                return Ok(Claiming::Foreign { id, holder });
            }
            took_over |= take_away(path, &id)?;
        }
        Err(io::Error::other("the claim beside it changes all the time"))
    }

    /// Whether it still stands.
    pub(super) fn stands(&self) -> bool {
        matches!(ClaimId::read(&self.path), Ok(Some(id)) if id.text == self.text)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.stands()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "a claim to a login could not be given up; it is ignored after a while");
        }
    }
}

impl ClaimId {
    /// Whether it is this very claim, under whatever name. One that has not been written yet says nothing of itself.
    fn is(&self, other: &Self) -> bool {
        self.text == other.text && (!self.text.is_empty() || self.inode == other.inode)
    }

    fn read(path: &Path) -> io::Result<Option<Self>> {
        // Without NONBLOCK, a pipe in its place would be waited for.
        let how = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let odd = || io::Error::other(format!("{} is not a file: move it away", path.display()));
        let file = match OpenOptions::new().read(true).custom_flags(how).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return Err(odd()),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(odd());
        }
        let mut text = Vec::new();
        file.take(MAX_CLAIM_BYTES).read_to_end(&mut text)?;
        Ok(Some(Self {
            text: String::from_utf8_lossy(&text).into_owned(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }))
    }
}

/// Takes the claim `judged` away, and only that: what turns out to be another one is put back.
fn take_away(path: &Path, judged: &ClaimId) -> io::Result<bool> {
    let nonce = RandomState::new().hash_one(path);
    let aside = path.with_extension(format!("claim-{nonce:016x}"));
    match fs::rename(path, &aside) {
        Ok(()) => {}
        // Somebody else was quicker.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    let is_the_one = ClaimId::read(&aside)?.is_none_or(|found| found.is(judged));
    if !is_the_one {
        // Where there is a new claim already, its maker has it; whoever made this one finds out before it counts.
        let _ = fs::hard_link(&aside, path);
    }
    fs::remove_file(&aside)?;
    Ok(is_the_one)
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    fn foreign() -> Holder {
        Holder { boot_id: "another".into(), ..Holder::here() }
    }

    fn made(claiming: Claiming) -> Claim {
        match claiming {
            Claiming::Made { claim, .. } => claim,
            Claiming::Foreign { id, .. } => panic!("there is a claim: {id:?}"),
        }
    }

    fn id(claiming: &Claiming) -> &ClaimId {
        match claiming {
            Claiming::Foreign { id, .. } => id,
            Claiming::Made { .. } => panic!("there was no claim"),
        }
    }

    #[test]
    fn there_is_one_claim_until_it_is_given_up() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("login.claim");
        let here = Holder::here();
        let first = made(Claim::make(&path, &here, None).unwrap());
        let second = Claim::make(&path, &here, None).unwrap();
        assert!(matches!(&second, Claiming::Foreign { holder, .. } if holder.as_ref() == Some(&here)));
        drop(first);
        assert!(made(Claim::make(&path, &here, Some(id(&second))).unwrap()).stands());
    }

    #[test]
    fn only_the_claim_that_was_watched_is_taken_away() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("login.claim");
        let here = Holder::here();
        let theirs = made(Claim::make(&path, &foreign(), None).unwrap());
        let watched = Claim::make(&path, &here, None).unwrap();
        drop(theirs);
        let next = made(Claim::make(&path, &foreign(), None).unwrap());
        assert!(matches!(Claim::make(&path, &here, Some(id(&watched))).unwrap(), Claiming::Foreign { .. }));
        assert!(next.stands());
    }

    #[test]
    fn what_was_taken_for_another_claim_is_put_back() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("login.claim");
        let theirs = made(Claim::make(&path, &foreign(), None).unwrap());
        let judged = ClaimId { text: "an older one".into(), ..ClaimId::read(&path).unwrap().unwrap() };
        assert!(!take_away(&path, &judged).unwrap());
        assert!(theirs.stands());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_claim_that_was_taken_away_stands_no_more_and_its_successor_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("login.claim");
        let lost = made(Claim::make(&path, &foreign(), None).unwrap());
        let watched = Claim::make(&path, &Holder::here(), None).unwrap();
        let claiming = Claim::make(&path, &Holder::here(), Some(id(&watched))).unwrap();
        assert!(matches!(claiming, Claiming::Made { took_over: true, .. }));
        let successor = made(claiming);
        assert!(!lost.stands());
        drop(lost);
        assert!(successor.stands());
    }

    /// No lock is held here: this is what two machines see of each other.
    #[test]
    fn of_eight_that_judge_a_claim_stale_at_one_moment_exactly_one_has_it_a_moment_later() {
        for _ in 0..100 {
            let scratch = tempfile::tempdir().unwrap();
            let path = scratch.path().join("login.claim");
            std::mem::forget(made(Claim::make(&path, &foreign(), None).unwrap()));
            let watched = Claim::make(&path, &Holder::here(), None).unwrap();
            let (start, settled) = (Barrier::new(8), Barrier::new(8));
            let standing = thread::scope(|scope| {
                let racers: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            let claiming = Claim::make(&path, &Holder::here(), Some(id(&watched))).unwrap();
                            settled.wait();
                            let stands = matches!(&claiming, Claiming::Made { claim, .. } if claim.stands());
                            settled.wait();
                            stands
                        })
                    })
                    .collect();
                racers.into_iter().map(|racer| racer.join().unwrap()).filter(|stands| *stands).count()
            });
            assert_eq!(standing, 1);
            assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        }
    }
}
