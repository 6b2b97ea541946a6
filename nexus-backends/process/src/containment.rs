//! Containment of one child's processes, so that none outlives it. The strongest kind that works is selected at run
//! time.
//!
//! | kind | finds | after the host was killed | works |
//! | --- | --- | --- | --- |
//! | PID namespace | all processes: the kernel ends them with the first process of the namespace | nothing is left | as root; with a user namespace for any user |
//! | cgroup | all processes, by `cgroup.kill` | until the next [sweep](crate::run_registry::sweep), which finds all | if the program's own cgroup is writable |
//! | subreaper | every descendant of this program with the run's mark | until the next sweep | on Linux |
//! | search | every process of the machine with the run's mark | until the next sweep | on Linux; elsewhere the process group |
//!
//! A child that [ends with this program](crate::spawn::Invocation::end_with_host) is killed with it under every kind,
//! if the machine has util-linux. The processes that the child started wait for the sweep. A child also waits for the
//! sweep if its host is killed in the millisecond before the kernel has registered the request. A child in a namespace
//! has no such gap, because it does not start without its host.
//!
//! If the machine is short of descriptors, processes or memory, a trial shows nothing about its abilities. The trial is
//! then repeated, and a child is rejected rather than started with weaker containment.
//!
//! With the first three kinds, `/proc` is read only for processes of this program. Only the first two end the processes
//! of an endless fork loop.
//!
//! **A user namespace has a price.** Programs with a set-user-id bit gain nothing in it, and files of other users seem
//! to have no owner, which `ssh` rejects. So it is not used if the child [keeps its
//! privileges](crate::spawn::Invocation::keep_privileges), unless containment is required.
//!
//! **The host as subreaper.** While such a child runs, this program is the subreaper of its descendants, so orphans of
//! *any* child of this program become its children. Orphans with a mark are reaped here; others are left alone. The
//! setting is reverted when the last such child has ended. A helper process would keep the setting away from the host,
//! but a library has no program of its own to start.

mod attempt;
mod cgroup;
pub(crate) mod core_limit;
mod hold;
mod machine;
mod namespace;
mod parent_death;
mod shell_variables;
mod subreaper;
pub(crate) mod tag;

pub use nexus_core::Containment;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use cgroup::{Cgroup, end_cgroup};
pub(crate) use hold::{Enclosure, Holding};
pub(crate) use machine::{Means, choose, limiting_cgroup};
pub use machine::{NotContained, available, strongest};
pub(crate) use namespace::signal_in_code;
pub(crate) use parent_death::{ParentDeath, program_of_the_system};
pub(crate) use shell_variables::ShellVariables;
pub(crate) use subreaper::Subreaper;
pub(crate) use tag::RunTag;

/// Containment that a child must have.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContainmentPolicy {
    /// The strongest containment under which the child can still do everything that it could do without one.
    #[default]
    Auto,
    /// A PID namespace or a cgroup; without either, nothing is started.
    Required,
    /// No containment: at the end the descendants are found by a search.
    Off,
    /// This kind of containment; without it, nothing is started.
    #[serde(skip)]
    Exactly(Containment),
}
