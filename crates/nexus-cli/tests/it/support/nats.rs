//! A real `nats-server`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::until;

/// A server that logs every message with its payload. Dropped, it is killed.
pub(crate) struct NatsServer {
    child: Child,
    pub(crate) url: String,
    folder: tempfile::TempDir,
}

impl NatsServer {
    pub(crate) fn start() -> Self {
        let program = std::env::var_os("NEXUS_REAL_NATS").expect("NEXUS_REAL_NATS: run real/servers/install");
        let folder = tempfile::tempdir().unwrap();
        // It takes a port that is free, and writes which.
        let child = Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir"])
            .arg(folder.path())
            .args(["-VV", "--log"])
            .arg(folder.path().join("log"))
            .args(["--jetstream", "--store_dir"])
            .arg(folder.path().join("store"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { child, url: String::new(), folder };
        until("the server listens", || match url_in(server.folder.path()) {
            Some(url) => {
                server.url = url;
                true
            }
            None => false,
        });
        server
    }

    #[cfg(feature = "login")]
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Every message so far.
    #[cfg(feature = "login")]
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("log")).unwrap()).into_owned()
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The URL in the file of ports, once it is there.
fn url_in(folder: &Path) -> Option<String> {
    let mut files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let file: PathBuf = files.find(|path| path.extension().is_some_and(|extension| extension == "ports"))?;
    let ports: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    Some(ports["nats"][0].as_str()?.to_owned())
}
