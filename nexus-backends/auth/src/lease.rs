//! A credential lent to one child process. Dropping the lease erases the files that contain it.
//!
//! All vendors share this type. The vendor's folder decides the rest: how early the vendor's program treats a token as
//! expired, whether the token goes into a variable or a file, and the content of that file.
//!
//! A refresh token cannot be lent by mistake, because a [`Credential`] has no field for it.

use std::{
    fmt, fs, io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use nexus_core::{Secret, harness::Renewal};

use super::{Credential, CredentialError, CredentialSource};

/// Lifetime that a credential must have beyond the end of its turn.
const SPARE_LIFE: Duration = Duration::from_secs(300);

/// Time before its end at which a child stops using a credential. It covers requests in flight and clock differences. A
/// tenth of the remaining lifetime applies if it is shorter.
const EARLY: Duration = Duration::from_secs(30);

/// A credential lent to one child, with the files that contain it.
///
/// Dropping the lease erases the files, however the turn ends. If the host is killed, the files stay in the run's home,
/// which the next start of a host removes.
pub struct Lease {
    source: Arc<dyn CredentialSource>,
    credential: Credential,
    written: Vec<LeasedFile>,
}

/// File that contains the credential.
#[derive(Debug)]
struct LeasedFile {
    path: PathBuf,
    /// Open file. It reaches the content even after the child renamed the file.
    file: fs::File,
    length: usize,
}

impl Lease {
    /// Borrows a credential that outlives a child which runs for `run`. The vendor may grant a shorter lifetime; see
    /// [`Lease::last_use`].
    ///
    /// # Errors
    ///
    /// Errors of [`CredentialSource::credential`].
    pub async fn borrow(source: &Arc<dyn CredentialSource>, run: Duration) -> Result<Self, CredentialError> {
        Ok(Self::of(source, source.credential(asked_life(run)).await?))
    }

    /// Lends `credential`, which the caller got from `source`.
    pub fn of(source: &Arc<dyn CredentialSource>, credential: Credential) -> Self {
        Self { source: Arc::clone(source), credential, written: Vec::new() }
    }

    /// Requests a replacement for this credential after the vendor refused it. The replacement is for another child
    /// that runs for `run`. Each `renewal` allows one replacement. Returns `None` if the source has no other
    /// credential.
    ///
    /// # Errors
    ///
    /// Errors of [`CredentialSource::renewed`].
    pub async fn renew(
        &self,
        renewal: &mut Renewal,
        run: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        renewal.replace(&*self.source, &self.credential, asked_life(run)).await
    }

    /// Returns the lent credential.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Returns the location of the credential, for messages.
    pub fn place(&self) -> String {
        self.source.describe()
    }

    /// Returns the last moment at which the child may use the credential, slightly before its end. `None` if the end is
    /// not known.
    pub fn last_use(&self, now: SystemTime) -> Option<SystemTime> {
        let end = self.credential.expires_at?;
        let left = end.duration_since(now).unwrap_or_default();
        Some(end.checked_sub(EARLY.min(left / 10)).unwrap_or(end))
    }

    /// Writes a file with the credential in one step, owner-only. Replaces an existing file.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn put(&mut self, path: &Path, text: &Secret) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Write under another name first, so that the child never reads a part.
        let unfinished = path.with_file_name(format!(".lent-{}-{count}", std::process::id()));
        // The mode applies from the creation on, so no other user can open the file before the rename.
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        let mut written = LeasedFile { path: unfinished, file, length: text.expose().len() };
        let finished = written
            .file
            .write_all_at(text.expose().as_bytes(), 0)
            .and_then(|()| fs::rename(&written.path, path));
        match finished {
            Ok(()) => {
                written.path = path.to_owned();
                self.written.push(written);
                Ok(())
            }
            Err(error) => {
                if let Err(left) = written.erase() {
                    tracing::warn!(path = %written.path.display(), error = %left, "it could not be erased");
                    // The end of the lease tries again.
                    self.written.push(written);
                }
                Err(error)
            }
        }
    }

    /// Erases all files of this lease. Logs a warning for each file that cannot be erased.
    pub fn erase(&mut self) {
        for written in self.written.drain(..) {
            if let Err(error) = written.erase() {
                let path = written.path.display();
                tracing::warn!(%path, %error, "a credential that was lent to a child process could not be \
                    erased");
            }
        }
    }
}

/// Returns the lifetime that a credential needs for a child that runs for `run`.
fn asked_life(run: Duration) -> Duration {
    run.saturating_add(SPARE_LIFE)
}

impl LeasedFile {
    /// Overwrites and truncates the file, which also empties every hard link to it. Then removes the file's own name if
    /// it still exists.
    fn erase(&self) -> io::Result<()> {
        // Overwrite only what exists: a full disk may hold a partial file and has no room for more bytes.
        let there = usize::try_from(self.file.metadata()?.len()).unwrap_or(self.length);
        self.file.write_all_at(&vec![0; there.min(self.length)], 0)?;
        // Truncation alone would leave the content in free blocks of the disk.
        self.file.set_len(0)?;
        let ours = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            // The child may have replaced the file by another one, which is not removed.
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                fs::remove_file(&self.path)
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.erase();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.written.iter().map(|written| &written.path).collect::<Vec<_>>();
        f.debug_struct("Lease")
            .field("place", &self.place())
            .field("expires_at", &self.credential.expires_at)
            .field("files", &files)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, sync::Mutex};

    use async_trait::async_trait;

    use super::*;
    use crate::Standing;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Lends these tokens in turn, each good for so long, and notes what it was asked for.
    #[derive(Debug)]
    struct Scripted {
        tokens: Mutex<Vec<(&'static str, u64)>>,
        asked: Mutex<Vec<Duration>>,
    }

    impl Scripted {
        fn new(tokens: &[(&'static str, u64)]) -> Arc<Self> {
            let tokens = tokens.iter().rev().copied().collect();
            Arc::new(Self { tokens: Mutex::new(tokens), asked: Mutex::default() })
        }
    }

    #[async_trait]
    impl CredentialSource for Scripted {
        fn describe(&self) -> String {
            "the script".into()
        }

        async fn standing(&self) -> Result<Standing, CredentialError> {
            Ok(Standing::default())
        }

        async fn credential(&self, life: Duration) -> Result<Credential, CredentialError> {
            self.asked.lock().unwrap().push(life);
            let next = self.tokens.lock().unwrap().pop();
            let (token, seconds) = next.ok_or_else(|| CredentialError::Unreachable {
                place: self.describe(),
                reason: "the script is over".into(),
            })?;
            let end = SystemTime::now() + Duration::from_secs(seconds);
            Ok(Credential::new(Secret::new(token)).with_expiry(end))
        }

        async fn renewed(
            &self,
            _refused: &Credential,
            _life: Duration,
        ) -> Result<Option<Credential>, CredentialError> {
            Ok(None)
        }
    }

    async fn lease(source: &Arc<Scripted>, run: Duration) -> Lease {
        let source: Arc<dyn CredentialSource> = source.clone();
        Lease::borrow(&source, run).await.unwrap()
    }

    #[tokio::test]
    async fn it_is_asked_to_outlive_the_run_and_used_until_a_little_before_its_end() {
        let source = Scripted::new(&[("long", 3_600), ("short", 100), ("over", 0)]);
        let mut lasts = Vec::new();
        for _ in 0..3 {
            let lease = lease(&source, MINUTE).await;
            let end = lease.credential().expires_at.unwrap();
            let early = end.duration_since(lease.last_use(SystemTime::now()).unwrap()).unwrap();
            lasts.push(early.as_secs_f64().round());
        }
        assert_eq!(lasts, [30.0, 10.0, 0.0]);
        assert_eq!(*source.asked.lock().unwrap(), [Duration::from_secs(360); 3]);
    }

    #[tokio::test]
    async fn what_was_written_is_gone_with_it_by_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("auth.json"), folder.path().join("link"));
        let mut lease = lease(&Scripted::new(&[("canary", 3_600)]), MINUTE).await;
        for text in ["first canary", "second canary"] {
            lease.put(&path, &Secret::new(text)).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::hard_link(&path, &link).unwrap();
        assert!(!format!("{lease:?}").contains("canary"));
        drop(lease);
        assert!(!path.exists());
        assert_eq!(fs::read(&link).unwrap(), b"");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the link is left");
    }

    #[tokio::test]
    async fn what_cannot_be_put_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        let mut lease = lease(&Scripted::new(&[("canary", 3_600)]), MINUTE).await;
        // No file takes the place of a folder.
        fs::create_dir(&path).unwrap();
        for _ in 0..3 {
            lease.put(&path, &Secret::new("canary")).unwrap_err();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the folder is there");
        fs::remove_dir(&path).unwrap();
        lease.put(&path, &Secret::new("canary")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "canary");
    }

    #[tokio::test]
    async fn what_another_put_in_its_place_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        let mut lease = lease(&Scripted::new(&[("canary", 3_600)]), MINUTE).await;
        lease.put(&path, &Secret::new("canary")).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(lease);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
    }
}
