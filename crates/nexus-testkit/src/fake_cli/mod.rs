//! Fake CLIs: a program that imitates a vendor's. So tests use real processes, pipes and signals.
//!
//! [`FakeCli::install`] puts a link named `claude`, `codex` or `grok` into a folder of its own, with a script
//! beside it. The link leads to a program that calls [`run_if_invoked`] first thing in `main`: called by that
//! name, it becomes the fake and never returns. The fake finds its script by its own path, so it needs no variable in its
//! environment.
//!
//! A [`FakeScript`] can replay the output of a real CLI, with its timing, its end and any [`Misbehaviour`]. Or it plays a
//! neutral [`Scenario`](crate::sim::Scenario) as an imitation of the vendor's harness. The imitation runs shell commands,
//! writes files, and connects to the given MCP servers, as the vendor's program does. The fake records its inputs
//! (arguments, environment, working directory, standard input) in the folder of the script, so that a test can check
//! them.

mod cast;
mod claude;
mod codex;
mod codex_acp;
mod grok;
mod imitation;
mod install;
mod misbehaviour;
mod notes;
mod perform;
mod replay;
mod script;
mod servers;
mod stage;
mod tool;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use imitation::{AfterFault, Ask, Ending, Exit, Heard, Imitation, Moment, Next, Reaction, Trouble};
pub use install::FakeCli;
pub use misbehaviour::Misbehaviour;
pub use notes::{Given, Invocation};
pub use replay::{Chunk, End, Replay, WrittenFile};
pub use script::{Act, FakeScript};
pub use servers::{Answer, ServerCall};
pub use stage::Stage;

/// Vendor whose CLI a fake imitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// `claude`.
    Claude,
    /// `codex`.
    Codex,
    /// `grok`.
    Grok,
    /// `codex-acp`, an agent of the Agent Client Protocol.
    CodexAcp,
}

impl Vendor {
    /// The vendors with a program of their own.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Grok];

    /// The name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Grok => "grok",
            Self::CodexAcp => "codex-acp",
        }
    }

    /// Answer of the real program to `--version`. Source: observed.
    pub fn version_line(self) -> &'static str {
        match self {
            Self::Claude => "2.1.197 (Claude Code)",
            Self::Codex => "codex-cli 0.169.0",
            Self::Grok => "grok 1.0.41",
            Self::CodexAcp => "codex-acp 0.16.0",
        }
    }
}

/// Becomes the fake if this program was called by a vendor's name, and returns otherwise. Call it first
/// in `main`.
pub fn run_if_invoked() {
    run_if_invoked_with(cast::imitation_of);
}

/// Like [`run_if_invoked`], with the caller's own imitations.
pub fn run_if_invoked_with(casting: fn(Vendor) -> Option<Box<dyn Imitation>>) {
    perform_if(|name| {
        let mut vendors = Vendor::ALL.into_iter().chain([Vendor::CodexAcp]);
        let vendor = vendors.find(|vendor| vendor.program() == name)?;
        Some(Role { version_line: vendor.version_line().to_owned(), imitation: casting(vendor) })
    });
}

/// Like [`run_if_invoked`], for a program that does not belong to a vendor: called by the name `program`, this becomes
/// `imitation`. [`FakeCli::install_as`] installs it.
pub fn run_if_named(program: &str, imitation: fn() -> Box<dyn Imitation>) {
    perform_if(|name| {
        (name == program)
            .then(|| Role { version_line: format!("{program} 1.0"), imitation: Some(imitation()) })
    });
}

/// Role that a program plays.
struct Role {
    version_line: String,
    imitation: Option<Box<dyn Imitation>>,
}

fn perform_if(role_of: impl FnOnce(&str) -> Option<Role>) {
    // The name of the call decides, because `current_exe` would resolve the link.
    let Some(name) = std::env::args_os().next() else { return };
    let name = PathBuf::from(name);
    let Some(file_name) = name.file_name().and_then(OsStr::to_str) else { return };
    // Check the helpers before the vendors: they are the same program under other names.
    if file_name == tool::LEADER {
        tool::lead_a_session();
    }
    if file_name == misbehaviour::LINGERER {
        misbehaviour::linger();
    }
    if let Some(role) = role_of(file_name) {
        let code = perform::perform(&role.version_line, role.imitation, &located(&name));
        std::process::exit(code);
    }
}

/// Returns the path of the link that this program was called by. A bare name was found on the `PATH`.
fn located(name: &Path) -> PathBuf {
    if name.components().count() > 1 {
        return name.to_owned();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| name.to_owned())
}
