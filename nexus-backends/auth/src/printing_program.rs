//! A program that prints a credential on its standard output.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use nexus_core::{ErrorKind, harness::Failure};
use nexus_process::{
    environment::Environment,
    executable::Executable,
    spawn::{Bounds, EndedBy, ExitStatus, Invocation},
};
use zeroize::Zeroizing;

/// Longest run of a program, unless its owner sets another limit. Source: our own choice.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Maximum amount of output of a program, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// A program with its arguments, and the setting that names it, for messages.
pub(crate) struct PrintingProgram {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
    pub(crate) time_limit: Duration,
    /// Name of the setting with the program.
    pub(crate) setting: &'static str,
    /// Name of what the program prints, such as "the token alone".
    pub(crate) printed: &'static str,
}

impl PrintingProgram {
    /// Finds the program. The error is the reason, with advice.
    pub(crate) fn executable(&self) -> Result<Executable, String> {
        Executable::find(&self.program, self.environment.value("PATH"))
            .map_err(|error| format!("{}: install it, or correct `{}`", words(&error), self.setting))
    }

    /// Runs the program and returns its output. The error is the reason, without any of its output, because a program may print
    /// a secret on its standard error too.
    pub(crate) async fn output(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        let setting = self.setting;
        let mut bounds = Bounds::default();
        bounds.time_limit = Some(self.time_limit);
        let process = Invocation::new(self.executable()?, &self.folder)
            .arguments(&self.arguments)
            .environment(self.environment.clone())
            .bounds(bounds)
            .keep_output(MAX_OUTPUT_BYTES as u64, MAX_OUTPUT_BYTES)
            .spawn()
            .map_err(|error| format!("{}: correct `{setting}`", words(&error)))?;
        let exit = process.wait().await;
        let [output, _] = process.take_kept();
        // The output may be a secret even if the program fails.
        let bytes = Zeroizing::new(output.head());
        // Test the limits first, because a program that was stopped also has a status.
        match (exit.ended_by, exit.status) {
            (EndedBy::TimeLimit, _) => Err(format!(
                "the program did not end within {} s: run it in a terminal to see what it waits for, or set \
                 `credential.timeout`",
                self.time_limit.as_secs_f32()
            )),
            (EndedBy::OutputLimit, _) => Err(format!(
                "the program printed more than {MAX_OUTPUT_BYTES} bytes: `{setting}` must print {}",
                self.printed
            )),
            (_, status) if !status.is_success() => {
                let end = match status {
                    ExitStatus::Code(code) => format!("exited with code {code}"),
                    ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
                    ExitStatus::Unknown => "ended without a status".to_owned(),
                };
                Err(format!(
                    "the program {end}: run it in a terminal to see its error output, or correct `{setting}`"
                ))
            }
            _ => Ok(bytes),
        }
    }
}

/// Returns the words of an error and of its causes.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    Failure::of(ErrorKind::Unauthenticated, error).message.unwrap_or_default()
}
