//! The one gate: what it lets through, what it never does, and what it says and remembers of it.

mod asked;
mod budget;
mod end;
mod gate;
mod scope;
