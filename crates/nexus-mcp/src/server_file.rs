//! Files of a home that describe its running HTTP server.
//!
//! `NAME.json` has its address, and `NAME.token` the token for its clients. The server locks `NAME.lock` while it runs, so
//! that the file of a dead server is recognised.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_files::FileLock;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest server file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4096;
/// Longest wait for the lock. Two other processes may have it for a moment. One is a child that a killed server had just
/// forked, until the child executes its program. The other is a program that checks for a running server.
const PATIENCE: Duration = Duration::from_secs(2);

/// The right to be the HTTP server of a home. Its drop releases the right and removes the file with the address.
#[derive(Debug)]
pub struct ServerFile {
    place: ServerPaths,
    _lock: FileLock,
}

/// Address and process of a running HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunningServer {
    /// Address of the server.
    pub address: SocketAddr,
    /// Process id of the server.
    pub pid: u32,
}

/// Reason why a home has no server, or already has one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerFileError {
    /// Another server runs.
    #[error(
        "an HTTP server of this home already runs{}: use it with --attach, or end it first",
        running.as_ref().map(|running| format!(" at {} (process {})", running.address, running.pid)).unwrap_or_default()
    )]
    Running {
        /// The other server, if it has already written its address.
        running: Option<RunningServer>,
    },
    /// No server runs.
    #[error("no HTTP server of this home is running (according to {}): start one with --http", path.display())]
    NotRunning {
        /// File that would contain the server's address.
        path: PathBuf,
    },
    /// A file of the server cannot be used.
    #[error("the server file {} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Paths of one server's files.
#[derive(Clone, Debug)]
struct ServerPaths {
    folder: PathBuf,
    name: String,
}

impl ServerPaths {
    fn new(home: &Path, name: &str) -> Self {
        Self { folder: home.join("mcp"), name: name.to_owned() }
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    fn read(&self) -> io::Result<RunningServer> {
        let bytes = nexus_files::read_bounded(&self.file("json"), MAX_FILE_BYTES)?;
        serde_json::from_slice(&bytes.ok_or(io::ErrorKind::NotFound)?).map_err(io::Error::other)
    }
}

impl ServerFile {
    /// Claims the right to be the server `name` of a home, and removes the files of a dead server. While another process has
    /// the right, waits for up to 2 seconds and blocks the thread.
    ///
    /// # Errors
    ///
    /// [`ServerFileError::Running`] and [`ServerFileError::File`].
    pub fn claim(home: &Path, name: &str) -> Result<Self, ServerFileError> {
        let place = ServerPaths::new(home, name);
        let fail = |path: PathBuf| move |source| ServerFileError::File { path, source };
        nexus_files::make_private_folder(&place.folder).map_err(fail(place.folder.clone()))?;
        let path = place.file("lock");
        let Some(lock) = FileLock::lock(&path, PATIENCE).map_err(fail(path))? else {
            return Err(ServerFileError::Running { running: place.read().ok() });
        };
        // The file of a dead server would lead clients to an address that is no longer ours.
        match fs::remove_file(place.file("json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(fail(place.file("json"))(error));
            }
            _ => {}
        }
        Ok(Self { place, _lock: lock })
    }

    /// Writes the server's address to its file.
    ///
    /// # Errors
    ///
    /// [`ServerFileError::File`].
    pub fn announce(&self, address: SocketAddr) -> Result<(), ServerFileError> {
        let path = self.place.file("json");
        let running = RunningServer { address, pid: std::process::id() };
        let written = serde_json::to_vec(&running)
            .map_err(io::Error::other)
            .and_then(|text| nexus_files::replace(&path, &text));
        written.map_err(|source| ServerFileError::File { path, source })
    }

    /// Returns the path of the token of the server `name` in a home.
    pub fn token_path(home: &Path, name: &str) -> PathBuf {
        ServerPaths::new(home, name).file("token")
    }

    /// Returns the running server `name` of a home.
    ///
    /// # Errors
    ///
    /// [`ServerFileError::NotRunning`] and [`ServerFileError::File`].
    pub fn running(home: &Path, name: &str) -> Result<RunningServer, ServerFileError> {
        let place = ServerPaths::new(home, name);
        let path = place.file("json");
        let lock = place.file("lock");
        // The lock decides, because the file of a killed server remains.
        let is_running =
            FileLock::is_locked(&lock).map_err(|source| ServerFileError::File { path: lock, source })?;
        if !is_running {
            return Err(ServerFileError::NotRunning { path });
        }
        match place.read() {
            Ok(running) => Ok(running),
            // The server is starting or ending.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ServerFileError::NotRunning { path })
            }
            Err(source) => Err(ServerFileError::File { path, source }),
        }
    }
}

impl Drop for ServerFile {
    fn drop(&mut self) {
        // Ignore an error: the lock is released after this, and shows that the server has ended.
        let _ = fs::remove_file(self.place.file("json"));
    }
}
