//! A home of one test, and what runs in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nexus_testkit::issuer::{Issuer, IssuerBuilder};
use serde_json::Value;

use super::running::Running;
use crate::support::{Folder, answers::checked};

/// How every refresh token of the issuer begins.
pub(crate) const REFRESH_MARK: &str = "canary-refresh";
/// How every access token of the issuer begins: it is a JWT.
const ACCESS_MARK: &str = "eyJ";

/// An issuer whose device flows may be asked at once, and whose tokens can be told.
pub(crate) fn issuer() -> Issuer {
    builder().start().unwrap()
}

pub(crate) fn builder() -> IssuerBuilder {
    Issuer::builder().refresh_token_mark(REFRESH_MARK)
}

/// A folder to run in, with a home of its own and an environment that holds nothing of the caller's.
pub(crate) struct Home {
    folder: Folder,
    variables: Vec<(String, String)>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: Folder::empty(), variables: Vec::new() }
    }

    /// Adds a variable to what commands see.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Nexus's own folder. Nothing makes it but the command.
    pub(crate) fn nexus_home(&self) -> PathBuf {
        self.folder.nexus_home()
    }

    /// Where a login is kept.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.nexus_home().join("auth").join(format!("{name}.json"))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.folder.command(arguments);
        command
            // No keyring of whoever runs the tests.
            .env("DBUS_SESSION_BUS_ADDRESS", self.folder.no_bus())
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn nexus(&self, arguments: &[&str]) -> Finished {
        let output = self.command(arguments).output().unwrap();
        if arguments.contains(&"--json") {
            checked(arguments, &String::from_utf8_lossy(&output.stdout));
        }
        Finished::of(output)
    }

    /// Starts a command that waits for a person.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Starts a login at `issuer`, with more arguments.
    pub(crate) fn start_login(&self, login: &str, issuer: &Issuer, more: &[&str]) -> Running {
        let url = issuer.url();
        let mut arguments = vec!["login", login, "--issuer", &url, "--client-id", "a-client", "--port", "0"];
        arguments.extend(more);
        self.start(&arguments)
    }

    /// Logs in to the end, by a browser that agrees, or a person with a code where the vendor has no page.
    pub(crate) fn log_in(&self, login: &str, issuer: &Issuer) -> Finished {
        self.log_in_with(login, issuer, &[])
    }

    /// As [`Home::log_in`], with more arguments.
    pub(crate) fn log_in_with(&self, login: &str, issuer: &Issuer, more: &[&str]) -> Finished {
        let method = if login == "grok" { "--device" } else { "--browser" };
        let mut login = self.start_login(login, issuer, &[&[method, "--json"], more].concat());
        let step = login.line_of_json();
        let visit = match step["user_code"].as_str() {
            Some(code) => issuer.browser().approve_device(code),
            None => issuer.browser().approve(step["url"].as_str().unwrap()),
        };
        assert_eq!(visit.wait().unwrap().status, 200);
        let finished = login.finish();
        assert_eq!(finished.code, Some(0), "{finished:?}");
        finished
    }

    /// The tokens that a login's file holds, which is where they are allowed.
    pub(crate) fn stored_tokens(&self, name: &str) -> [String; 2] {
        let stored = self.stored(name);
        let token = |key: &str| stored[key].as_str().unwrap().to_owned();
        let tokens = [token("access_token"), token("refresh_token")];
        assert!(tokens[0].starts_with(ACCESS_MARK) && tokens[1].starts_with(REFRESH_MARK), "no canaries");
        tokens
    }

    pub(crate) fn stored(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.file(name)).unwrap()).unwrap()
    }

    /// Puts a text where a login is kept, with the modes that are asked of it.
    pub(crate) fn put(&self, name: &str, text: &str) {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

        let file = self.file(name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Takes the output, in which no token may be.
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let finished =
            Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        for mark in [REFRESH_MARK, ACCESS_MARK] {
            assert!(!finished.stdout.contains(mark), "a token was printed: {}", finished.stdout);
            assert!(!finished.stderr.contains(mark), "a token was printed: {}", finished.stderr);
        }
        finished
    }

    /// Standard output, which is one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Standard output, which is one JSON value per line: the last of them.
    pub(crate) fn last_json(&self) -> Value {
        let line = self.stdout.lines().last().unwrap_or_else(|| panic!("nothing was printed: {self:?}"));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
