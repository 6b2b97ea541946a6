//! A `nats-server` of a test.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use tokio::time::sleep;

use super::monitoring::NatsMonitoring;

/// Names the program. Set by `real/servers/install`.
pub const NATS_PROGRAM: &str = "NEXUS_REAL_NATS";
/// Names a program older than 2.11. Set by `real/servers/install`.
const OLD_PROGRAM: &str = "NEXUS_REAL_NATS_OLD";

/// Maximum time from the start of the process until it is ready, for a busy machine. An idle one needs 0.1 seconds.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(30);
/// Pause between two checks of an awaited condition.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A `nats-server` with JetStream, on loopback, with its own store folder.
///
/// Dropped, the process is killed and its folder removed. The kernel kills it where the test process dies before that; this
/// needs `setpriv` of util-linux.
#[derive(Debug)]
pub struct NatsServer {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    scheme: &'static str,
    port: u16,
    monitoring: NatsMonitoring,
    folder: TempDir,
    child: Mutex<Option<Child>>,
}

impl NatsServer {
    /// Starts a server without accounts, and waits until JetStream is ready.
    pub async fn start() -> Self {
        Self::with_config("").await
    }

    /// Starts a server with a configuration file of this text.
    ///
    /// Name, ports and store folder are set by the command line, which has precedence over the text. Accounts of the text
    /// that use JetStream need `jetstream: enabled`.
    pub async fn with_config(text: &str) -> Self {
        let server = Self::new(&program(NATS_PROGRAM), "alone", text);
        server.restart().await;
        server
    }

    /// Starts a server of a version before 2.11.
    pub async fn old() -> Self {
        let server = Self::new(&program(OLD_PROGRAM), "old", "");
        server.restart().await;
        server
    }

    /// Starts a server that accepts TLS only, with a certificate for `localhost` and `127.0.0.1`. `config` is the rest of the
    /// configuration file, with accounts, users and their permissions.
    ///
    /// Clients trust the certificate by [`Self::authority`].
    pub async fn with_tls_and_accounts(config: &str) -> Self {
        let mut server = Self::new(&program(NATS_PROGRAM), "secured", "");
        write_identity(server.folder.path()).expect("a certificate is written");
        server.scheme = "tls";
        let folder = server.folder.path().display();
        server.configure(&format!(
            "tls {{ cert_file: \"{folder}/{CERTIFICATE}\", key_file: \"{folder}/{KEY}\" }}\n{config}\n"
        ));
        server.restart().await;
        server
    }

    /// A server that has not been started yet.
    pub fn new(program: &Path, name: &str, config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the server");
        let (port, monitoring_port) = (free_port(), free_port());
        let arguments = ["--name", name, "--addr", "127.0.0.1", "--port", &port.to_string()]
            .into_iter()
            .chain(["--http_port", &monitoring_port.to_string(), "--jetstream", "--store_dir"])
            .map(OsString::from)
            .chain([folder.path().join(STORE).into()])
            .collect();
        let mut server = Self {
            name: name.to_owned(),
            program: program.to_owned(),
            arguments,
            scheme: "nats",
            port,
            monitoring: NatsMonitoring::on_port(monitoring_port),
            folder,
            child: Mutex::new(None),
        };
        // The program refuses an empty file.
        if !config.is_empty() {
            server.configure(config);
        }
        server
    }

    /// Creates a server with TLS, without starting it. `text` returns its whole configuration from its port, its monitoring
    /// port and its store folder.
    pub fn of_file(name: &str, text: impl FnOnce(u16, u16, &Path) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the server");
        let (port, monitoring_port) = (free_port(), free_port());
        let text = text(port, monitoring_port, &folder.path().join(STORE));
        let mut server = Self {
            name: name.to_owned(),
            program: program(NATS_PROGRAM),
            arguments: Vec::new(),
            scheme: "tls",
            port,
            monitoring: NatsMonitoring::on_port(monitoring_port),
            folder,
            child: Mutex::new(None),
        };
        server.configure(&text);
        server
    }

    fn configure(&mut self, config: &str) {
        let path = self.folder.path().join("server.conf");
        std::fs::write(&path, config).expect("the configuration is written");
        self.add_arguments(["--config".into(), path.into()]);
    }

    /// Adds arguments for the next start, after the existing ones.
    pub fn add_arguments(&mut self, arguments: impl IntoIterator<Item = OsString>) {
        self.arguments.extend(arguments);
    }

    /// The name of the server in its cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    /// The address for clients, for a proxy before it.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The folder with all that JetStream has stored.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join(STORE)
    }

    /// The PEM file of the authority that signed the certificate of [`Self::with_tls_and_accounts`].
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join(AUTHORITY)
    }

    /// Log of the server since its first start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    /// The HTTP monitoring port.
    pub fn monitoring(&self) -> NatsMonitoring {
        self.monitoring
    }

    /// The process id. `None` if the server is killed.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// A client without credentials.
    pub async fn client(&self) -> async_nats::Client {
        async_nats::connect(self.url()).await.expect("the server accepts clients")
    }

    /// Kills the process with SIGKILL and waits for its end. Without effect on a killed server.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            child.kill().expect("the server is killed");
            // The ports and the store are free only after the end.
            child.wait().expect("the server has ended");
        }
    }

    /// Kills the process if it runs, starts it on the same ports and store, and waits until JetStream is ready.
    ///
    /// # Panics
    ///
    /// Panics with the log of the server if it ends or is not ready within 30 seconds.
    pub async fn restart(&self) {
        self.kill();
        self.launch();
        self.ready().await;
    }

    /// Starts the process and waits for nothing.
    pub fn launch(&self) {
        // A test may ask for the lines of an earlier start.
        let log = OpenOptions::new().create(true).append(true).open(self.folder.path().join(LOG));
        let mut command = command(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log"));
        let child = spawn(command).expect("the server starts");
        *self.child() = Some(child);
    }

    /// Waits until JetStream is ready.
    pub async fn ready(&self) {
        let began = Instant::now();
        while !self.monitoring.is_healthy().await {
            // A server that has ended is never ready, so the test fails at once and shows the log.
            let ended = match &mut *self.child() {
                Some(child) => child.try_wait().expect("the state of the server").is_some(),
                None => true,
            };
            let late = began.elapsed() > READY_WITHIN;
            assert!(!ended && !late, "the server {} is not ready. Its log:\n{}", self.name, self.log());
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops the process with SIGSTOP, and returns when it has stopped. Its connections stay open and nothing answers.
    pub fn pause(&self) {
        let pid = self.signal(Signal::STOP);
        // Other threads of the process run for a moment after the signal. `NOWAIT` leaves the state for the next pause.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped).expect("the server stops");
    }

    /// Continues a stopped process.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) -> Pid {
        let child = self.child();
        let pid = Pid::from_child(child.as_ref().expect("the server runs"));
        kill_process(pid, signal).expect("the server takes the signal");
        pid
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

const STORE: &str = "store";
const LOG: &str = "log";
const AUTHORITY: &str = "authority.pem";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// The program that the environment names.
///
/// # Panics
///
/// If the variable is not set.
pub fn program(variable: &str) -> PathBuf {
    let program = std::env::var_os(variable);
    program.unwrap_or_else(|| panic!("{variable} is not set: run real/servers/install")).into()
}

/// Returns a port on loopback that nothing listens on.
///
/// The port is below the range that Linux assigns to outgoing connections. So no connection takes the port of a stopped server
/// that restarts later.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Test programs that run at once begin at different ports.
    let own = u16::try_from(u64::from(std::process::id()) * 97 % u64::from(COUNT)).expect("below the count");
    for _ in 0..COUNT {
        let offset = u32::from(own) + u32::from(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from(offset % u32::from(COUNT)).expect("below the count");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Returns the command for `program`. If `setpriv` is installed, the kernel kills the program when the thread that started it
/// ends.
fn command(program: &Path) -> Command {
    const SETPRIV: &str = "/usr/bin/setpriv";
    if !Path::new(SETPRIV).exists() {
        return Command::new(program);
    }
    // `setpriv` becomes the program, under the same process id.
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// A command, and the channel for its process.
type Spawn = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a command from a thread that ends with the test process. A thread of a runtime may end earlier, and the kernel
/// would end the server then.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: LazyLock<mpsc::Sender<Spawn>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel::<Spawn>();
        std::thread::spawn(move || {
            for (mut command, child) in receiver {
                // The receiver waits below, unless its thread has panicked.
                let _ = child.send(command.spawn());
            }
        });
        sender
    });
    let (sender, receiver) = mpsc::channel();
    SPAWNER.send((command, sender)).expect("the thread runs");
    receiver.recv().expect("the thread answers")
}

/// Writes `certificate.pem` for `localhost` and `127.0.0.1`, its `key.pem`, and the `authority.pem` that signed it.
pub fn write_identity(folder: &Path) -> io::Result<()> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, "nexus-fleet tests, valid nowhere else");
    let authority_key = KeyPair::generate().map_err(io::Error::other)?;
    let pem = authority.self_signed(&authority_key).map_err(io::Error::other)?.pem();
    std::fs::write(folder.join(AUTHORITY), pem)?;
    let issuer = Issuer::new(authority, authority_key);

    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])
        .and_then(|certificate| certificate.signed_by(&key, &issuer))
        .map_err(io::Error::other)?;
    std::fs::write(folder.join(CERTIFICATE), certificate.pem())?;
    std::fs::write(folder.join(KEY), key.serialize_pem())
}
