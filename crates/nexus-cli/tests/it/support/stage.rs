//! The `nexus` command against a simulated model.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Output},
};

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};

use super::Folder;

/// Exit code of a program whose reader went away, as a shell shows one that SIGPIPE ended.
pub(crate) const CLOSED_PIPE: i32 = 141;

/// A folder with a configuration, a home of its own, and a simulated model.
pub(crate) struct Stage {
    pub(crate) folder: Folder,
    pub(crate) model: Sim,
}

impl Stage {
    pub(crate) fn new(reply: Reply) -> Self {
        let (folder, model) = (Folder::empty(), simulated(reply.clone()));
        Self { folder, model }.answering(reply)
    }

    /// A folder before a model that plays a scenario.
    pub(crate) fn playing(scenario: Scenario) -> Self {
        let model = Sim::start(Dialect::Responses, scenario.models(["simulated"])).unwrap();
        let other = simulated(Reply::text("Here."));
        Self { folder: Folder::empty(), model: other }.before(model)
    }

    /// The same folder before another model.
    pub(crate) fn answering(self, reply: Reply) -> Self {
        self.before(simulated(reply))
    }

    fn before(self, model: Sim) -> Self {
        let config = format!(
            "groups: {{ main: [local], other: [second] }}\n\
             models: {{ simulated: {{ main: simulated, other: simulated }} }}\n\
             backends:\n  local: {{ kind: responses, base_url: {url:?}, vendor: one }}\n  \
             second: {{ kind: responses, base_url: {url:?}, vendor: two }}\n\
             panels: {{ jury: [{{ group: main, model: simulated, lens: edges }}, {{ group: other, model: simulated }}] }}\n\
             lenses: {{ edges: Look at the edges. }}\n\
             types:\n  talker: {{ tier: execution, phase: talk, group: main, model: simulated }}\n  \
             judges: {{ tier: advisory, phase: review, panel: jury }}\n  \
             orchestrator: {{ tier: operations, phase: orchestrate, group: main, model: simulated }}\n  \
             executor: {{ tier: execution, phase: implement, group: main, model: simulated }}\n  \
             reviewer: {{ tier: operations, phase: review, panel: jury }}\n  \
             framer: {{ group: main, model: simulated }}\n  \
             panelist: {{ panel: jury }}\n  \
             arbiter: {{ group: main, model: simulated }}\n\
             broker: {{ agents: {{ clerk: {{ type: talker }} }} }}\n\
             tasks: {{ defaults: {{ sandbox: {{ kind: none }} }} }}\n",
            url = model.base_url()
        );
        fs::write(self.path().join("nexus.yaml"), config).unwrap();
        Self { model, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.folder.command(arguments)
    }

    pub(crate) fn nexus(&self, arguments: &[&str]) -> Output {
        self.folder.nexus(arguments)
    }
}

fn simulated(reply: Reply) -> Sim {
    Sim::start(Dialect::Responses, Scenario::new(vec![reply; 64]).models(["simulated"])).unwrap()
}

/// Output that takes nothing.
pub(crate) fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}
