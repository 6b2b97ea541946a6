//! Model servers of other users, on the usual ports. These tests need root, to be three users, and the usual ports. `.ci/run root`
//! runs them in a network namespace of their own.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use nexus_files::FileLock;
use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};
use rustix::process::{Gid, Uid};

use crate::{
    detection::{Person, usual_ports},
    support::{PATIENCE, text},
};

/// The person who runs the commands.
const OWN: u32 = 1234;
/// Another user.
const OTHER: u32 = 65_534;
const ROOT: u32 = 0;

/// A model server of a user. It ends when it is dropped.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    serving: Option<thread::JoinHandle<()>>,
}

impl Server {
    fn start(address: &str, user: u32) -> Self {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        // The kernel lists a socket with the owner of its file.
        rustix::fs::fchown(&listener, Some(Uid::from_raw(user)), Some(Gid::from_raw(user))).unwrap();
        let (connections, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (address, counted, stop) = (listener.local_addr().unwrap(), connections.clone(), is_over.clone());
        let serving = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = answer(stream.unwrap());
            }
        });
        Self { address, connections, is_over, serving: Some(serving) }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.serving.take().map(thread::JoinHandle::join);
    }
}

/// Answers one request with a list of models.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut request, mut chunk) = (Vec::new(), [0; 4_096]);
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&chunk[..count]),
        }
    }
    let body = r#"{"object":"list","data":[{"id":"qwen3:8b","object":"model"}]}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The person of the commands, with a home and a copy of the program that this user can enter.
struct OtherPerson {
    person: Person,
    program: PathBuf,
    _alone: FileLock,
}

impl OtherPerson {
    fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "this test needs root");
        let alone = FileLock::lock(&usual_ports(), PATIENCE * 4).unwrap().expect("the usual ports");
        let person = Person::without_ports();
        let program = person.bin().join("nexus");
        // The folder of the build may be closed to this user.
        fs::copy(env!("CARGO_BIN_EXE_nexus"), &program).unwrap();
        give(person.root());
        Self { person, program, _alone: alone }
    }

    /// Runs a command as this user. Returns whether it succeeded, and its outputs.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        self.run_with(arguments, &[])
    }

    fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        let of_root = self.person.command("", arguments);
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .current_dir(self.person.project())
            .uid(OWN)
            .gid(OWN)
            .stdin(Stdio::null());
        for (name, value) in of_root.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.success(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }
}

fn give(folder: &Path) {
    chown(folder, Some(OWN), Some(OWN)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => give(&entry.path()),
            false => chown(entry.path(), Some(OWN), Some(OWN)).unwrap(),
        }
    }
}

const COMMANDS: [&[&str]; 7] = [
    &["explain"],
    &["status"],
    &["doctor"],
    &["check", "--probe"],
    &["check", "--print"],
    &["setup", "--yes"],
    &["run", "Say hello."],
];

/// Commands that only detect, and that would send a prompt.
const TWO: &[&[&str]] = &[COMMANDS[0], COMMANDS[6]];

#[test]
#[ignore = "needs root and the usual ports"]
fn a_server_of_another_user_gets_no_connection_and_each_command_names_it_with_the_reason() {
    let person = OtherPerson::new();
    for (bound, named, user, commands) in [
        ("127.0.0.1:11434", "127.0.0.1:11434", OTHER, &COMMANDS[..]),
        ("0.0.0.0:1234", "127.0.0.1:1234", 1_000, TWO),
        ("[::1]:8080", "[::1]:8080", OTHER, TWO),
        ("[::]:8000", "127.0.0.1:8000", 1_000, TWO),
    ] {
        let server = Server::start(bound, user);
        let expected = format!("a server at {named}: the server belongs to another user ({user})");
        for arguments in commands {
            let (_, said) = person.run(arguments);
            assert!(said.contains(&expected), "{bound}: {arguments:?}: {said}");
            assert_eq!(server.connections(), 0, "{bound}: {arguments:?}: {said}");
        }
        assert!(!person.person.config().exists(), "{bound}");
    }
}

#[test]
#[ignore = "needs root and the usual ports"]
fn a_server_of_this_user_or_of_root_is_used_on_either_loopback_address_and_never_through_a_proxy() {
    let person = OtherPerson::new();
    let proxy = Server::start("127.0.0.1:3128", OTHER);
    let through = [("http_proxy", "http://127.0.0.1:3128"), ("HTTP_PROXY", "http://127.0.0.1:3128")];
    for user in [OWN, ROOT] {
        for address in ["127.0.0.1:11434", "[::1]:11434"] {
            let server = Server::start(address, user);
            let (is_found, said) = person.run_with(&["explain", "executor"], &through);
            assert!(is_found && said.contains(&format!("Ollama at {address}")), "{user}: {said}");
            let (_, said) = person.run_with(&["setup", "--yes"], &through);
            let config =
                fs::read_to_string(person.person.config()).unwrap_or_else(|error| panic!("{error}: {said}"));
            assert!(config.contains(&format!("base_url: \"http://{address}/v1\"")), "{config}");
            let before = server.connections();
            let (_, said) = person.run_with(&["run", "Say hello."], &through);
            assert!(server.connections() > before, "{user} {address}: {said}");
            fs::remove_file(person.person.config()).unwrap();
        }
    }
    assert_eq!(proxy.connections(), 0);
    // A whole turn of this user on a server of root.
    let scenario = Scenario::new([Reply::text("From here.")]).models(["qwen3:8b"]);
    let server = Sim::builder(Dialect::Responses, scenario).port(11434).start().unwrap();
    let (is_complete, said) = person.run(&["run", "Say hello."]);
    assert!(is_complete && said.contains("From here."), "{said}");
    assert_eq!(server.main_calls().len(), 1);
}

#[test]
#[ignore = "needs root and the usual ports"]
fn a_server_of_another_user_beside_ones_own_on_the_other_loopback_address_gets_no_connection() {
    let person = OtherPerson::new();
    for (own, other) in [("127.0.0.1:11434", "[::1]:11434"), ("[::1]:11434", "127.0.0.1:11434")] {
        let (own, theirs) = (Server::start(own, OWN), Server::start(other, OTHER));
        for arguments in [COMMANDS[0], &["setup", "--yes"], COMMANDS[6]] {
            let before = own.connections();
            let (_, said) = person.run(arguments);
            assert_eq!(theirs.connections(), 0, "{arguments:?}: {said}");
            assert!(own.connections() > before, "{arguments:?}: {said}");
            if let ["run", ..] = arguments {
                assert!(said.contains("ollama"), "{said}");
            }
        }
        let config = fs::read_to_string(person.person.config()).unwrap();
        assert!(config.contains(&format!("http://{}/v1", own.address)), "{config}");
        assert!(!config.contains(&format!("http://{}/v1", theirs.address)), "{config}");
        fs::remove_file(person.person.config()).unwrap();
        let (_, said) = person.run(&["explain"]);
        assert!(said.contains(&format!("Ollama at {}", own.address)), "{said}");
    }
}
