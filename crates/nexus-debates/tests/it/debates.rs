//! Debates, walked by agents that do what a test says, through the public interface.

mod isolation;
mod kill;
mod kit;
mod served;
mod walk;
