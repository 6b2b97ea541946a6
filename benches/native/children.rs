//! Jobs in processes of their own, alone or under Valgrind.

use std::process::{Command, Stdio};

use super::contender::Entry;
use super::job::{Figures, JOB};
use super::script::Scenario;
use super::server::Server;

/// Starts jobs against one server.
pub(crate) struct Children {
    server: Server,
    has_valgrind: bool,
}

/// What a job allocated, from its start to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap {
    /// How many times memory was asked for, growth of what was there included.
    pub(crate) allocations: f64,
    /// Bytes that were in use at the end.
    pub(crate) bytes: f64,
}

impl Children {
    pub(crate) fn new(server: Server) -> Self {
        let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
        Self { server, has_valgrind: valgrind.is_ok_and(|status| status.success()) }
    }

    /// Whether instructions and allocations can be counted here.
    pub(crate) fn has_valgrind(&self) -> bool {
        self.has_valgrind
    }

    /// What a job found.
    pub(crate) fn figures(&self, job: &str, client: Entry, scenario: Scenario, count: usize) -> Figures {
        let (stdout, _) = self.run(&[], job, client, scenario, count);
        serde_json::from_str(stdout.trim()).expect("figures")
    }

    /// Instructions of a job, from the start of its process to its end.
    pub(crate) fn instructions(&self, job: &str, client: Entry, scenario: Scenario, count: usize) -> f64 {
        let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
        let (_, report) = self.run(&tool, job, client, scenario, count);
        number_after(&report, "Collected :")
    }

    /// What a job allocated.
    pub(crate) fn heap(&self, job: &str, client: Entry, scenario: Scenario, count: usize) -> Heap {
        let tool = ["--tool=dhat", "--dhat-out-file=/dev/null"];
        let (_, report) = self.run(&tool, job, client, scenario, count);
        let total = report.lines().find(|line| line.contains("Total:")).unwrap_or_default();
        Heap { allocations: number_after(total, "bytes in "), bytes: number_after(&report, "At t-end:") }
    }

    /// Standard output and standard error of a job.
    fn run(
        &self,
        valgrind: &[&str],
        job: &str,
        client: Entry,
        scenario: Scenario,
        count: usize,
    ) -> (String, String) {
        let own = std::env::current_exe().expect("the path of this program");
        let mut command = if valgrind.is_empty() { Command::new(own) } else { under(valgrind, &own) };
        command.args([
            JOB,
            job,
            client.name,
            self.server.address(),
            &scenario.to_string(),
            &count.to_string(),
        ]);
        let output = command.stdin(Stdio::null()).output().expect("a job");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{} {job} {scenario} {count}: {stderr}", client.name);
        (stdout, stderr)
    }
}

fn under(valgrind: &[&str], program: &std::path::Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(valgrind).arg(program);
    command
}

/// The first number behind `name`. Valgrind writes `1,234,567`.
fn number_after(report: &str, name: &str) -> f64 {
    let (_, rest) = report.split_once(name).expect("a report of Valgrind's");
    let digits: String =
        rest.trim_start().chars().take_while(|char| char.is_ascii_digit() || *char == ',').collect();
    digits.replace(',', "").parse().expect("a number")
}
