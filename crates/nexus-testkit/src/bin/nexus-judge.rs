//! `nexus-judge`: tests a version of a vendor's program against the simulator.

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::Parser;
use nexus_testkit::judge::{Table, judge, page, repository};

/// Runs a vendor's program through its backend against a simulated model, and prints the scenarios that it passes.
///
/// Run it in a network namespace that has only loopback (`real/clis/in-namespace`). The exit code is 1 if the program fails
/// a scenario, and 2 if it cannot be judged.
#[derive(Debug, Parser)]
#[command(name = "nexus-judge")]
struct Arguments {
    /// The program.
    #[arg(required_unless_present = "page")]
    program: Option<PathBuf>,

    /// Writes the row into the vendor's `versions.json` and `docs/reference/versions.md`.
    #[arg(long)]
    write: bool,

    /// Compares the result with the row in the vendor's `versions.json`, and fails unless they are equal. A version without a
    /// row must pass everything.
    #[arg(long, conflicts_with = "write")]
    check: bool,

    /// Rewrites `docs/reference/versions.md` from the tables, and judges nothing.
    #[arg(long)]
    page: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("nexus-judge: {reason}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode, String> {
    let mut code = ExitCode::SUCCESS;
    if let Some(path) = &arguments.program {
        let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let began = Instant::now();
        let (program, row) = judge(&path, |finding| println!("  {finding}")).await?;
        println!("{} {row} in {:.0} s", program.vendor(), began.elapsed().as_secs_f64());
        let recorded = match arguments.check {
            true => Table::of(&repository(), program.vendor())?.row(&row.version).cloned(),
            false => None,
        };
        let is_as_expected = match &recorded {
            Some(recorded) => {
                println!("  recorded: {recorded}{}", listed(&recorded.failed));
                *recorded == row
            }
            None => row.failed.is_empty(),
        };
        if !is_as_expected {
            code = ExitCode::FAILURE;
        }
        if arguments.write {
            let mut table = Table::of(&repository(), program.vendor())?;
            table.insert(row);
            table.write()?;
        }
    }
    if arguments.page || arguments.write {
        let path = repository().join("docs/reference/versions.md");
        let text = page(&Table::all(&repository())?);
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        folder
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(code)
}

/// The failed cases of a recorded row, in parentheses.
fn listed(failed: &[String]) -> String {
    match failed.is_empty() {
        true => String::new(),
        false => format!(" (failed: {})", failed.join(", ")),
    }
}
