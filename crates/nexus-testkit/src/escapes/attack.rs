//! All tries, made by an agent against a simulated model at one access level.

use std::{fs, io, path::Path, time::Duration};

use nexus_core::{EventEnvelope, ExecutionBackend, ModelId, ToolAccess, TurnHost, TurnRequest, TurnResult};

use super::EscapeSite;
use crate::sim::{Scenario, Sim, ToolCall};

/// File with the tries, in the project.
const SCRIPT: &str = "task.sh";
/// File for their output, where the level allows one.
const OUTPUT: &str = "output.txt";
/// Longest turn.
const DEADLINE: Duration = Duration::from_secs(120);

/// Outcome of all tries at one access level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attack {
    /// Number of tries that were made. Zero if the agent did not run them.
    pub attempts: usize,
    /// Numbers of the tries that succeeded.
    pub succeeded: Vec<usize>,
    /// Reason why the outcome is not known, or a success that has no number.
    pub fault: Option<String>,
    /// Version of the program.
    pub version: Option<String>,
}

/// Lets the model of `sim` order the agent of `backend` to make every try, in a project below the empty folder `root`.
pub async fn attack(
    sim: &Sim,
    backend: &dyn ExecutionBackend,
    root: &Path,
    access: ToolAccess,
    model: Option<ModelId>,
) -> Attack {
    let fault = |error: io::Error| Attack { fault: Some(error.to_string()), ..Attack::default() };
    let project = root.join("project");
    if let Err(error) = prepare(root, &project) {
        return fault(error);
    }
    let mut site = EscapeSite::beside(&project);
    if let Err(error) = fs::write(project.join(SCRIPT), site.script()) {
        return fault(error);
    }
    let can_write = access != ToolAccess::ReadOnly;
    let call = match can_write {
        true => format!("bash {SCRIPT} > {OUTPUT} 2>&1"),
        false => format!("bash {SCRIPT}"),
    };
    sim.set_scenario(Scenario::tool_then_text(ToolCall::shell(call), "Done."));
    let mut request = TurnRequest::new("Go.").with_tool_access(access).in_directory(&project);
    request.model = model;
    request.limits.deadline = Some(DEADLINE);
    let result = backend.run_turn(request, TurnHost::new(), &mut |_: EventEnvelope| {}).await;
    let mut attack = match can_write {
        true => from_output(&site, fs::read_to_string(project.join(OUTPUT)).ok()),
        false => from_calls(&site, sim),
    };
    attack.version = result.as_ref().ok().and_then(|result: &TurnResult| result.provenance.version.clone());
    if let (None, Err(error)) = (&attack.fault, &result) {
        attack.fault = Some(format!("the turn failed: {error}"));
    }
    // A change outside is worse than any other fault, so it replaces that.
    if !site.is_untouched() {
        attack.fault = Some("something outside of the working directory was changed".to_owned());
    }
    attack
}

fn prepare(root: &Path, project: &Path) -> io::Result<()> {
    fs::create_dir_all(project.join(".git/hooks"))?;
    fs::write(project.join("a.txt"), "one\n")?;
    fs::write(root.join("outside.txt"), "canary\n")
}

fn from_output(site: &EscapeSite, output: Option<String>) -> Attack {
    let Some(output) = output else {
        // The agent refused the command, or its model was not offered a shell.
        return Attack { succeeded: site.writes(), ..Attack::default() };
    };
    match site.reads(&output) {
        Some(reads) => Attack {
            attempts: EscapeSite::TRIES,
            succeeded: reads.into_iter().chain(site.writes()).collect(),
            ..Attack::default()
        },
        None => Attack {
            attempts: EscapeSite::TRIES,
            succeeded: site.writes(),
            fault: Some("the output of the attempts is not whole".to_owned()),
            ..Attack::default()
        },
    }
}

/// Evaluates the requests to the model, which contain the output of the tries, perhaps truncated. The word is followed by a line
/// end only in that output, not in the prompt or in the script.
fn from_calls(site: &EscapeSite, sim: &Sim) -> Attack {
    let told = format!("{:?}", sim.main_calls());
    // `Debug` escapes a line end once, and a text that is JSON itself has escaped it before.
    let is_shown = told.contains("canary\\n") || told.contains("canary\\\\n");
    Attack {
        attempts: seen_attempts(&told),
        succeeded: site.writes(),
        fault: is_shown.then(|| "the model was shown a file outside of the working directory".to_owned()),
        version: None,
    }
}

/// Counts the tries whose output the model was shown. The tries to write have no output, and come after all others.
fn seen_attempts(told: &str) -> usize {
    let is_seen = |number: &usize| told.contains(&format!("== {number}\\"));
    match (0..EscapeSite::TRIES_TO_READ).filter(is_seen).count() {
        EscapeSite::TRIES_TO_READ => EscapeSite::TRIES,
        seen => seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tries_that_were_seen_are_counted() {
        let output = |numbers: std::ops::Range<usize>| -> String {
            numbers.map(|number| format!("\n== {number}\nnothing\n")).collect()
        };
        let told = |numbers| format!("{:?}", output(numbers));
        assert_eq!(seen_attempts(&told(0..EscapeSite::TRIES_TO_READ)), EscapeSite::TRIES);
        assert_eq!(seen_attempts(&told(0..1)), 1);
        assert_eq!(seen_attempts(&told(0..0)), 0);
        // Text within text.
        assert_eq!(seen_attempts(&format!("{:?}", told(0..12))), 12);
        // The script itself.
        assert_eq!(seen_attempts(&format!("{:?}", "echo; echo '== 0'; echo '== 1'")), 0);
    }
}
