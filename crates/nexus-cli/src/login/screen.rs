//! Output during a sign-in.

use std::thread;

use nexus::auth::{LoginScreen, LoginStep};

use super::LoginEvent;
use crate::{
    output::{AnswerWriter, printable, say, say_json},
    spoken_time::spoken,
    surroundings::Surroundings,
};

/// Shows each step, as text or as a line of JSON, and starts a browser if the person can see it.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) login: &'static str,
    /// True if the issuer also offers device codes.
    pub(super) takes_codes: bool,
    pub(super) surroundings: Surroundings,
    pub(super) starts_browsers: bool,
    pub(super) out: AnswerWriter,
}

impl LoginScreen for Screen {
    fn show(&mut self, step: &LoginStep) {
        if self.out.is_json() {
            self.show_json(step);
        } else {
            self.show_text(step);
        }
        // The address is printed first, so it is there even if the browser fails.
        match step {
            LoginStep::OpenPage { url, .. } => self.start_browser(url),
            LoginStep::EnterCode { url, complete_url, .. } => {
                self.start_browser(complete_url.as_deref().unwrap_or(url));
            }
            _ => {}
        }
    }
}

impl Screen {
    /// Shows a note of the command itself, as opposed to a step of the issuer.
    pub(super) fn note(&mut self, text: &str) {
        self.show(&LoginStep::Note(text.to_owned()));
    }

    fn show_json(&self, step: &LoginStep) {
        let opens = |url: &str| self.starts_browsers && is_web_page(url);
        say_json(&match step {
            LoginStep::OpenPage { url, returns_to } => LoginEvent::OpenPage {
                url: url.clone(),
                returns_to: returns_to.clone(),
                starts_browser: opens(url),
            },
            LoginStep::EnterCode { url, complete_url, user_code, expires_in } => LoginEvent::EnterCode {
                url: url.clone(),
                complete_url: complete_url.clone(),
                user_code: user_code.clone(),
                expires_in_seconds: expires_in.as_secs(),
                starts_browser: opens(complete_url.as_deref().unwrap_or(url)),
            },
            LoginStep::Note(text) => LoginEvent::Note { text: text.clone() },
            _ => return,
        });
    }

    fn show_text(&self, step: &LoginStep) {
        match step {
            LoginStep::OpenPage { url, returns_to } => {
                if self.surroundings.is_remote {
                    self.show_way_back(returns_to);
                }
                let how = if self.starts_browsers { "A browser opens this page" } else { "Open" };
                say(format_args!("{how}:\n\n  {}\n", printable(url)));
                say(format_args!(
                    "Its answer returns to {} automatically. Ctrl-C cancels.",
                    printable(returns_to)
                ));
            }
            LoginStep::EnterCode { url, complete_url, user_code, expires_in } => {
                say(format_args!("Open on any device:\n\n  {}\n", printable(url)));
                say(format_args!("and enter the code:\n\n  {}\n", printable(user_code)));
                if let Some(url) = complete_url {
                    say(format_args!("The page with the code already in it:\n\n  {}\n", printable(url)));
                }
                say(format_args!("The code is valid for {}. Ctrl-C cancels.", spoken(*expires_in)));
            }
            LoginStep::Note(text) => say(printable(text)),
            _ => {}
        }
    }

    /// Explains how the redirect of a browser on the person's machine reaches a port of this one.
    fn show_way_back(&self, returns_to: &str) {
        let Some(port) = port(returns_to) else { return };
        say(format_args!(
            "This is an SSH session. To let the answer of your browser reach it, first run this command on \
             the machine with the browser:\n\n  ssh -N -L {port}:127.0.0.1:{port} YOU@THIS-MACHINE\n"
        ));
        if self.takes_codes {
            say(format_args!("Or cancel, and use a code: `nexus login {} --device`.\n", self.login));
        }
    }

    fn start_browser(&self, url: &str) {
        // An address of another scheme could start a program of this machine.
        if !self.starts_browsers || !is_web_page(url) {
            return;
        }
        let (url, out) = (url.to_owned(), self.out);
        // A launcher may be slow, so it runs on its own thread.
        let launcher = thread::Builder::new().name("browser".into()).spawn(move || {
            if open::that_detached(&url).is_err() {
                let text = "No browser could be started; open the address yourself.";
                out.event(|| LoginEvent::Note { text: text.to_owned() }, || say(text));
            }
        });
        // Nothing waits for the thread: a launcher that hangs must not delay the login.
        drop(launcher);
    }
}

/// Returns true if this is a web page. The address comes from the issuer, and a launcher would open anything.
fn is_web_page(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// The port in `http://127.0.0.1:1455/callback`.
fn port(url: &str) -> Option<u16> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_that_is_forwarded_is_the_one_of_the_address() {
        assert_eq!(port("http://127.0.0.1:1455/auth/callback"), Some(1455));
        assert_eq!(port("http://[::1]:1457/callback"), Some(1457));
        assert_eq!(port("http://localhost/callback"), None);
    }

    #[test]
    fn only_pages_are_opened() {
        assert!(is_web_page("https://auth.example.org/device"));
        for other in ["file:///etc/passwd", "javascript:alert(1)", "--help", "vscode://x", ""] {
            assert!(!is_web_page(other), "{other}");
        }
    }
}
