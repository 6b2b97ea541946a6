//! `nexus-judge`: tests a version of a vendor's program against the simulator.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Instant, SystemTime},
};

use clap::Parser;
use nexus_backends::acp::{AgentJudgement, JudgedCase, JudgedLevel};
use nexus_core::BuildContext;
use nexus_testkit::judge::{AgentUnderTest, JudgedAgents, Table, judge, judge_agent, page, repository};

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

    /// Judges the program as this agent of the Agent Client Protocol. With --write, the result is written into the table of judged
    /// agents.
    #[arg(long, requires = "program")]
    agent: Option<String>,

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

fn main() -> ExitCode {
    // The sandbox of an agent starts this program to open its network.
    if let Some(code) = nexus_backends::process::sandbox::open_if_asked() {
        return ExitCode::from(code);
    }
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("nexus-judge: {error}");
            return ExitCode::from(2);
        }
    };
    let judged = runtime.block_on(async {
        match &arguments.agent {
            Some(agent) => run_agent(agent, &arguments).await,
            None => run(&arguments).await,
        }
    });
    match judged {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("nexus-judge: {reason}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<ExitCode, String> {
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

/// Judges an agent.
async fn run_agent(name: &str, arguments: &Arguments) -> Result<ExitCode, String> {
    let program = arguments.program.as_deref().ok_or("name the program")?;
    let executable =
        std::path::absolute(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let list = nexus_backends::acp::agents(&BuildContext::in_home(home.path()));
    let agent = list.agents.into_iter().find(|agent| agent.name == name);
    let agent = agent.ok_or_else(|| format!("there is no agent {name}"))?;
    let tested = AgentUnderTest { agent, executable, home: home.path().to_owned() };
    let began = Instant::now();
    let day = nexus_files::rfc3339::seconds(SystemTime::now()).chars().take(10).collect();
    let judgement = judge_agent(&tested, day, |finding| println!("  {finding}")).await?;
    let (passed, run) = judgement.score();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{name}: {passed} of {run} cases, attempts to escape: {} in {seconds:.0} s",
        escapes(&judgement)
    );
    if arguments.write {
        let mut table = JudgedAgents::read(&repository())?;
        table.insert(name, judgement.clone());
        table.write()?;
    }
    let recorded = match arguments.check {
        true => JudgedAgents::read(&repository())?.of(name).cloned(),
        false => None,
    };
    let is_as_expected = match recorded {
        Some(recorded) => {
            // A recorded failure that passes now does not fail the check.
            let new: Vec<_> =
                failed(&judgement).filter(|case| failed(&recorded).all(|known| known != *case)).collect();
            if !new.is_empty() {
                println!("  not recorded: {}", new.join(", "));
            }
            new.is_empty() && recorded.levels == judgement.levels
        }
        None => judgement.is_clean(),
    };
    Ok(if is_as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The cases that failed.
fn failed(judgement: &AgentJudgement) -> impl Iterator<Item = &str> {
    let is_failed = |(_, case): &(&String, &JudgedCase)| matches!(case, JudgedCase::Failed(_));
    judgement.cases.iter().filter(is_failed).map(|(name, _)| name.as_str())
}

fn escapes(judgement: &AgentJudgement) -> String {
    let of_level = |(name, level): (&String, &JudgedLevel)| match level.attempts {
        0 => format!("{name} none made"),
        attempts => format!("{name} {} of {attempts}", level.succeeded.len()),
    };
    judgement.levels.iter().map(of_level).collect::<Vec<_>>().join(", ")
}

/// The failed cases of a recorded row, in parentheses.
fn listed(failed: &[String]) -> String {
    match failed.is_empty() {
        true => String::new(),
        false => format!(" (failed: {})", failed.join(", ")),
    }
}
