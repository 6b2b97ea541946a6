//! The `nexus` command against simulated models of two vendors, which answer as a function says.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use nexus_testkit::sim::{Conversation, Dialect, Reply, Scenario, Sim};
use serde_json::Value;

use super::{Folder, text};
use crate::task_model;

/// Types of a debate's agents.
const DEBATE_TYPES: &str = "\
types:
  framer: { group: north }
  panelist: { panel: debate }
  arbiter: { group: south }
panels: { debate: [{ group: north }, { group: south }] }
";

/// Types of a task's agents.
const TASK_TYPES: &str = "\
types:
  orchestrator: { tier: operations, phase: orchestrate, group: north }
  executor: { tier: execution, phase: implement, group: south }
  reviewer: { tier: operations, phase: review, panel: review }
panels: { review: [{ group: north }, { group: south }] }
tasks: { defaults: { sandbox: { kind: none } } }
";

/// A home with a configuration, and a simulated model.
pub(crate) struct TwoVendors {
    pub(crate) folder: Folder,
    pub(crate) model: Sim,
}

impl TwoVendors {
    /// `types` is the rest of the configuration, over the groups `north` and `south`.
    pub(crate) fn new(
        types: &str,
        reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let model = Sim::builder(Dialect::Responses, Scenario::text("")).answered_by(reply).start().unwrap();
        let url = model.base_url();
        let backends = ["north", "south"].map(|vendor| {
            format!("  {vendor}-model: {{ kind: responses, vendor: {vendor}, base_url: {url:?}, model: simulated }}\n")
        });
        let config = format!(
            "groups: {{ north: [north-model], south: [south-model] }}\nbackends:\n{}{types}",
            backends.concat()
        );
        let folder = Folder::empty();
        fs::create_dir(folder.nexus_home()).unwrap();
        fs::write(folder.nexus_home().join("nexus.yaml"), config).unwrap();
        Self { folder, model }
    }

    pub(crate) fn nexus(&self, arguments: &[&str]) -> Output {
        self.folder.nexus(arguments)
    }

    /// Output of a command that has to succeed.
    #[track_caller]
    pub(crate) fn said(&self, arguments: &[&str]) -> String {
        let output = self.nexus(arguments);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {said}{}", text(&output.stderr));
        said.to_owned()
    }

    /// The one value that a command prints.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.said(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// A new task, by its id.
    #[track_caller]
    pub(crate) fn new_task(&self, project: &str) -> String {
        let goal = "`sh sum.sh -1 -2` is to print -3";
        self.said(&["task", "new", goal, "--project", project, "--test", "sh test.sh"]).trim().to_owned()
    }
}

/// Begins a debate over the sources of [`debate_stage`].
pub(crate) const NEW_DEBATE: [&str; 7] = [
    "debate",
    "new",
    "Shall the cache be written through?",
    "--source",
    "crashes=crashes.md",
    "--source",
    "latency=latency.md",
];

/// The types of a debate, and two sources.
pub(crate) fn debate_stage(
    reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static,
) -> TwoVendors {
    let stage = TwoVendors::new(DEBATE_TYPES, reply);
    fs::write(stage.folder.path().join("crashes.md"), "Of 12 crashes, 9 lost writes.\n").unwrap();
    fs::write(stage.folder.path().join("latency.md"), "A write takes 0.2 ms.\n").unwrap();
    stage
}

/// The types of a task, and the project of the example. `None` where there is no git.
pub(crate) fn task_stage(
    reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static,
) -> Option<(TwoVendors, PathBuf)> {
    if Command::new("git").arg("--version").output().is_err() {
        assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
        println!("NOT TESTED: there is no git");
        return None;
    }
    let stage = TwoVendors::new(TASK_TYPES, reply);
    let project = stage.folder.path().canonicalize().unwrap().join("sums");
    fs::create_dir(&project).unwrap();
    task_model::begin(&project).unwrap();
    Some((stage, project))
}
