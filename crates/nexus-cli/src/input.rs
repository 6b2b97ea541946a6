//! Standard input of the command.

use std::io::{self, IsTerminal as _};

use crate::output::complain;

/// Tells a person at the terminal what the command waits for on standard input.
pub(crate) fn ask_for_input(what: &str) {
    if io::stdin().is_terminal() {
        complain(format_args!("type {what}, and end it with Enter and Ctrl-D"));
    }
}

/// Tells a person at the terminal that a program is expected on standard input.
pub(crate) fn expect_program(which: &str) {
    if io::stdin().is_terminal() {
        complain(format_args!("waiting for {which} on standard input; Ctrl-C ends this"));
    }
}
