//! Environment of this process: a display, and a connection from another machine.

use std::collections::BTreeMap;

/// Facts that decide if a browser is opened, and if its redirect could reach this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// A window could be shown.
    has_display: bool,
    /// The person sits at another machine.
    pub(crate) is_remote: bool,
}

impl Surroundings {
    /// Derives these facts from the environment of a process.
    pub(crate) fn of(environment: &BTreeMap<String, String>) -> Self {
        let any = |names: &[&str]| {
            names.iter().any(|name| environment.get(*name).is_some_and(|value| !value.is_empty()))
        };
        // On other systems no variable shows that a display exists, and a display is rarely missing. Under WSL the display is that of Windows.
        let is_told = cfg!(all(unix, not(target_os = "macos")));
        Self {
            has_display: !is_told || any(&["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"]),
            is_remote: any(&["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"]),
        }
    }

    /// Returns true if the person sees a browser that is started on this machine.
    pub(crate) fn shows_browsers(self) -> bool {
        self.has_display && !self.is_remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(variables: &[(&str, &str)]) -> bool {
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Surroundings::of(&environment.collect()).shows_browsers()
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn a_browser_needs_a_display() {
        assert!(!shows(&[]));
        assert!(!shows(&[("DISPLAY", "")]));
        assert!(shows(&[("DISPLAY", ":0")]));
        assert!(shows(&[("WAYLAND_DISPLAY", "wayland-0")]));
    }

    #[test]
    fn a_display_that_is_lent_over_ssh_shows_no_browser() {
        assert!(!shows(&[("DISPLAY", "localhost:10.0"), ("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22")]));
        assert!(!shows(&[("DISPLAY", ":0"), ("SSH_TTY", "/dev/pts/0")]));
    }
}
