//! A question before something is removed.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use crate::{command_error::CommandError, output::complain};

/// Longest answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 10;

/// Asks the person at the terminal, below some rows. Without a terminal, the error names `--yes`.
pub(crate) fn is_confirmed(command: &str, rows: &[String], question: &str) -> Result<bool, CommandError> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(format!("`{command}` asks before it removes anything: confirm with --yes").into());
    }
    rows.iter().for_each(complain);
    complain(format_args!("{question} Type y and Enter; anything else removes nothing"));
    let mut answer = String::new();
    let read = io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer);
    read.map_err(|error| format!("the answer cannot be read from standard input: {error}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
