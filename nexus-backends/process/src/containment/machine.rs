//! Abilities of this machine, tested once.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use nexus_core::Containment;
use thiserror::Error;

use super::ContainmentPolicy;
use super::attempt::CachedTrial;
use super::cgroup::OwnCgroup;
use super::namespace::NamespaceLauncher;
use super::subreaper::Subreaper;

/// Containment of one child.
#[derive(Clone, Debug)]
pub(crate) enum Means {
    Namespace(NamespaceLauncher, Containment),
    Cgroup(OwnCgroup),
    Subreaper,
    Search,
}

impl Means {
    pub(crate) fn kind(&self) -> Containment {
        match self {
            Self::Namespace(_, kind) => *kind,
            Self::Cgroup(_) => Containment::Cgroup,
            Self::Subreaper => Containment::Subreaper,
            Self::Search => Containment::Search,
        }
    }
}

/// Error for a policy that requires more than this machine supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "this machine can contain processes only with {found}, but the configuration requires more: allow this \
     user to create namespaces (`unshare --user --pid` must work), delegate a cgroup to it, or set \
     `containment: auto`"
)]
pub struct NotContained {
    /// Strongest available kind.
    pub found: Containment,
}

/// All kinds, the strongest first.
const KINDS: [Containment; 5] = [
    Containment::PidNamespace,
    Containment::UserNamespace,
    Containment::Cgroup,
    Containment::Subreaper,
    Containment::Search,
];

/// Returns all kinds of containment that this machine supports for this program, the strongest first. The first call
/// starts some processes to test them, and blocks for about ten milliseconds.
#[must_use]
pub fn available() -> Vec<Containment> {
    KINDS.into_iter().filter(|kind| found(*kind).is_some()).collect()
}

/// Returns the kind that contains a child under `policy`, depending on the privileges that the child keeps. The first
/// call blocks like that of [`available`].
///
/// # Errors
///
/// [`NotContained`] if the policy requires more than the machine supports.
pub fn strongest(policy: ContainmentPolicy, keeps_privileges: bool) -> Result<Containment, NotContained> {
    let fit = KINDS.into_iter().filter(|kind| is_fit(policy, keeps_privileges, *kind));
    fit.into_iter().find(|kind| found(*kind).is_some()).ok_or_else(not_contained)
}

/// Chooses the containment of a child.
///
/// # Errors
///
/// The outer error if the machine is short of descriptors, processes or memory, so that its abilities are
/// unknown; [`NotContained`] if the policy demands more than the machine has.
pub(crate) fn choose(
    policy: ContainmentPolicy,
    keeps_privileges: bool,
) -> io::Result<Result<Means, NotContained>> {
    for kind in KINDS.into_iter().filter(|kind| is_fit(policy, keeps_privileges, *kind)) {
        // An error ends the choice: a resource that is short for a moment must not lead to weaker containment.
        if let Some(means) = means(kind)? {
            return Ok(Ok(means));
        }
    }
    Ok(Err(not_contained()))
}

/// Returns the cgroup in which the kernel can limit child cgroups, if this program has one. Returns `None` if a child
/// is contained by a cgroup, which it must not leave.
///
/// # Errors
///
/// The machine is short of descriptors, processes or memory.
pub(crate) fn limiting_cgroup() -> io::Result<Option<OwnCgroup>> {
    static LIMITING: CachedTrial<OwnCgroup> = CachedTrial::new();
    let kind = strongest(ContainmentPolicy::Auto, false);
    if kind.is_ok_and(|kind| kind == Containment::Cgroup) {
        return Ok(None);
    }
    LIMITING.get_or_try(OwnCgroup::find_limiting)
}

fn is_fit(policy: ContainmentPolicy, keeps_privileges: bool, kind: Containment) -> bool {
    match policy {
        // Programs with a set-user-id bit gain nothing in a user namespace.
        ContainmentPolicy::Auto => !(keeps_privileges && kind == Containment::UserNamespace),
        ContainmentPolicy::Required => kind >= Containment::Cgroup,
        ContainmentPolicy::Off => kind == Containment::Search,
        ContainmentPolicy::Exactly(wanted) => kind == wanted,
    }
}

fn not_contained() -> NotContained {
    NotContained { found: KINDS.into_iter().find(|kind| found(*kind).is_some()).unwrap_or_default() }
}

/// Returns the means of one kind, if they are known to work.
fn found(kind: Containment) -> Option<Means> {
    means(kind).ok().flatten()
}

/// Returns the means of one kind, if this machine has them.
fn means(kind: Containment) -> io::Result<Option<Means>> {
    static NAMESPACES: [CachedTrial<NamespaceLauncher>; 2] = [const { CachedTrial::new() }; 2];
    static CGROUP: CachedTrial<OwnCgroup> = CachedTrial::new();
    static SUBREAPER: CachedTrial<()> = CachedTrial::new();
    let namespace =
        |place: usize| NAMESPACES[place].get_or_try(|| tried(NamespaceLauncher::find(place == 1)));
    Ok(match kind {
        Containment::PidNamespace => namespace(0)?.map(|launcher| Means::Namespace(launcher, kind)),
        Containment::UserNamespace => namespace(1)?.map(|launcher| Means::Namespace(launcher, kind)),
        Containment::Cgroup => CGROUP.get_or_try(OwnCgroup::find)?.map(Means::Cgroup),
        Containment::Subreaper => SUBREAPER
            .get_or_try(|| Ok((lists_children() && Subreaper::hold().is_some()).then_some(())))?
            .map(|()| Means::Subreaper),
        Containment::Search => Some(Means::Search),
        _ => None,
    })
}

/// Returns the launcher if it works: the program runs as one of the first processes, and sees itself in `/proc`.
fn tried(launcher: Option<NamespaceLauncher>) -> io::Result<Option<NamespaceLauncher>> {
    let Some(launcher) = launcher.filter(|_| lists_children()) else { return Ok(None) };
    let (program, arguments) = launcher.command();
    let mut command = Command::new(program);
    // In a new PID namespace the ids start at 1, and `/proc` lists no process of the host.
    command.args(arguments).args([
        "/bin/sh",
        "-c",
        "[ $$ -lt 9 ] && [ -e /proc/$$/stat ] && [ ! -e /proc/9 ]",
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status()?.success().then_some(launcher))
}

/// Returns true if the kernel lists the children of a process. Source: `proc_tid_children(5)`, an option of the
/// kernel.
fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_without_the_search_and_required_takes_no_less_than_a_cgroup() {
        let all = available();
        assert_eq!(all.last(), Some(&Containment::Search));
        assert!(all.is_sorted_by(|stronger, weaker| stronger > weaker), "{all:?}");
        assert_eq!(strongest(ContainmentPolicy::Off, false), Ok(Containment::Search));
        match strongest(ContainmentPolicy::Required, true) {
            Ok(kind) => assert!(kind >= Containment::Cgroup && all.contains(&kind)),
            Err(refused) => assert_eq!(refused.found, all[0]),
        }
        assert_ne!(strongest(ContainmentPolicy::Auto, true), Ok(Containment::UserNamespace));
        for kind in KINDS {
            assert_eq!(strongest(ContainmentPolicy::Exactly(kind), false).is_ok(), all.contains(&kind));
        }
    }
}
