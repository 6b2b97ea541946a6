//! Roles: who does what, what each may use, and which agent goes on with a task.

pub(crate) mod resume;
