//! Program that opens the network of a sandbox: it runs in the sandbox's network namespace before bubblewrap, and sends
//! listening sockets to the relay outside.
//!
//! A socket belongs to the namespace in which it was created, so the relay accepts connections from the inside although it
//! is outside. No process has to stay inside, and the program in the sandbox finds no path to the relay's own socket. The
//! program has to be one of its own, because only a process with a single thread can enter a user namespace. It has the
//! rights of the namespace's owner, which the program in the sandbox lacks: to change the loopback interface, and to listen
//! at ports below 1024.

use std::ffi::OsString;
use std::io::{self, IoSlice, Read as _};
use std::net::{Shutdown, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::plan::{OpeningPlan, is_optional};

/// First argument of this program if it is started to open a network.
const ARGUMENT: &str = "open-sandbox-network";
/// File of the run with the plan.
pub(super) const PLAN: &str = "network";
/// Socket of the run, which receives the listening sockets.
pub(super) const SOCKET: &str = "network-socket";
/// Number of sockets in one message. The kernel's maximum is 253. Source: `unix(7)`, SCM_RIGHTS.
pub(super) const SOCKETS_PER_MESSAGE: usize = 64;
/// Answer of the relay that has all sockets.
pub(super) const OPENED: &str = "opened";
/// Maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 10;
/// Prefix of the opener's messages.
pub(in crate::sandbox) const OPENER_SAYS: &str = "nexus-sandbox-network: ";

/// This program, if its `main` handles the first argument.
static THIS_PROGRAM: OnceLock<NetworkOpener> = OnceLock::new();

/// Command line of a program that opens networks. The folder of the run is added as its last argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct NetworkOpener {
    pub(in crate::sandbox) program: PathBuf,
    pub(in crate::sandbox) argument: OsString,
}

impl NetworkOpener {
    pub(super) fn new(program: PathBuf, argument: OsString) -> Self {
        Self { program, argument }
    }

    /// Returns this program, if [`open_if_asked`] ran.
    pub(super) fn this_program() -> Option<Self> {
        THIS_PROGRAM.get().cloned()
    }
}

/// Makes this program able to open the networks of its sandboxes. Call it first in `main`, before any thread is started.
///
/// If the program was started to open a network, the function does so and returns the exit code, with which `main` has to end
/// at once. Otherwise it returns `None`.
#[must_use = "`main` ends with this exit code"]
pub fn open_if_asked() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == ARGUMENT) {
        let opened = match (arguments.next(), arguments.next()) {
            (Some(folder), None) => open_network(Path::new(&folder)),
            _ => Err("it is started by Nexus alone, with the folder of a run".to_owned()),
        };
        return Some(opened.map_or_else(
            |error| {
                complain(&error);
                125
            },
            |()| 0,
        ));
    }
    if let Ok(program) = std::env::current_exe() {
        set_network_opener(program, ARGUMENT);
    }
    None
}

/// Sets the program that opens the networks of this program's sandboxes: it calls [`open_network`] with its last argument, after
/// `argument`. For a host whose `main` cannot call [`open_if_asked`], such as a library in another language. Only the first call has
/// an effect.
pub fn set_network_opener(program: impl Into<PathBuf>, argument: impl Into<OsString>) {
    let _ = THIS_PROGRAM.set(NetworkOpener::new(program.into(), argument.into()));
}

/// Opens the network that the files in `folder` describe. Changes the current folder. For a program that is not reached by
/// [`open_if_asked`].
///
/// # Errors
///
/// The failed step, and its cause.
pub fn open_network(folder: &Path) -> Result<(), String> {
    // The address of a socket has at most 107 bytes, so its path is relative.
    std::env::set_current_dir(folder).map_err(failed("the folder of the run"))?;
    let text = std::fs::read(PLAN).map_err(failed("the plan"))?;
    let plan: OpeningPlan = serde_json::from_slice(&text).map_err(|error| format!("the plan: {error}"))?;
    set_up_loopback(&plan)?;
    let mut listeners = Vec::new();
    for address in &plan.listeners {
        match TcpListener::bind(address) {
            Ok(listener) => listeners.push(listener),
            Err(_) if is_optional(*address) => {}
            Err(error) => return Err(format!("a listener at {address}: {error}")),
        }
    }
    let relay = UnixStream::connect(SOCKET).map_err(failed("the relay"))?;
    for part in listeners.chunks(SOCKETS_PER_MESSAGE) {
        send(&relay, part).map_err(failed("the relay"))?;
    }
    // A program with only a part of its network would fail in strange ways.
    relay.shutdown(Shutdown::Write).map_err(failed("the relay"))?;
    let mut answer = String::new();
    relay.take(MAX_ANSWER_BYTES).read_to_string(&mut answer).map_err(failed("the relay"))?;
    match answer.as_str() {
        OPENED => Ok(()),
        "" => Err("the relay: it ended".to_owned()),
        fault => Err(format!("the relay: {fault}")),
    }
}

/// Starts the loopback interface, and gives it the addresses of the plan.
#[cfg(target_os = "linux")]
fn set_up_loopback(plan: &OpeningPlan) -> Result<(), String> {
    let loopback = super::netlink::LoopbackSetup::open().map_err(failed("netlink"))?;
    loopback.start().map_err(failed("the loopback interface"))?;
    for address in &plan.addresses {
        loopback.add(*address).map_err(|error| format!("the address {address}: {error}"))?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_up_loopback(_plan: &OpeningPlan) -> Result<(), String> {
    Err("only Linux has network namespaces".to_owned())
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> String {
    move |error| format!("{step}: {error}")
}

fn send(relay: &UnixStream, listeners: &[TcpListener]) -> io::Result<()> {
    let descriptors: Vec<_> = listeners.iter().map(TcpListener::as_fd).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_PER_MESSAGE))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("too many listeners in one message"));
    }
    sendmsg(relay, &[IoSlice::new(b".")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn complain(error: &str) {
    eprintln!("{OPENER_SAYS}{error}");
}
