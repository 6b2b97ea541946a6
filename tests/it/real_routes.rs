//! One line of YAML moves a work-kind from one vendor's real program to another's, over loopback model servers.
//!
//! `.ci/deep` runs these where there is no network but loopback; `real/clis/install` names the programs.

use std::{collections::BTreeMap, time::Duration};

use nexus::{BuildContext, EventEnvelope, Limits, Router, ToolAccess, TurnEvent, TurnHost, TurnRequest};
use nexus_testkit::{
    real,
    sim::{Dialect, Reply, Scenario, Sim, ToolCall},
};

struct Vendors {
    anthropic: Sim,
    openai: Sim,
    xai: Sim,
    folder: tempfile::TempDir,
}

impl Vendors {
    fn open() -> Self {
        let part = |name: &str| {
            Scenario::new([
                Reply::call(ToolCall::write_file("name.txt", format!("{name}\n"))),
                Reply::text(format!("{name} has written it.")),
            ])
        };
        Self {
            anthropic: Sim::start(Dialect::Anthropic, part("first")).unwrap(),
            openai: Sim::start(Dialect::Responses, part("second")).unwrap(),
            xai: Sim::start(Dialect::Xai, part("third")).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The whole configuration; `line` is the one that differs.
    fn routes(&self, line: &str) -> String {
        let [claude, codex, grok] =
            ["NEXUS_REAL_CLAUDE", "NEXUS_REAL_CODEX", "NEXUS_REAL_GROK"].map(real::last);
        format!(
            "groups: {{ anthropic: [claude-cli], openai: [codex-cli], xai: [grok-cli] }}
backends:
  claude-cli: {{ executable: {claude:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
  codex-cli:  {{ executable: {codex:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
  grok-cli:   {{ executable: {grok:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
models: {{ strong: {{ anthropic: claude-sonnet-5, openai: gpt-5.5, xai: grok-4.6 }} }}
types:
  executor: {{ tier: execution, phase: implement, {line}, model: strong, effort: high }}
",
            self.anthropic.root_url(),
            self.openai.base_url(),
            self.xai.base_url(),
        )
    }

    fn router(&self, line: &str) -> Router {
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), self.folder.path().display().to_string()),
            ("TOKEN".to_owned(), "sk-simulated".to_owned()),
        ]);
        let context = BuildContext::in_home(self.folder.path().join("nexus")).with_environment(environment);
        Router::from_str(&self.routes(line), nexus::registry(), context).unwrap()
    }

    fn main_calls(&self) -> [usize; 3] {
        [&self.anthropic, &self.openai, &self.xai].map(|sim| sim.main_calls().len())
    }
}

#[tokio::test]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn one_line_moves_a_work_kind_between_the_real_programs() {
    let vendors = Vendors::open();
    let rounds = [
        ("group: anthropic", "claude-cli", "first", 0),
        ("group: openai", "codex-cli", "second", 1),
        ("group: xai", "grok-cli", "third", 2),
    ];
    for (line, backend, name, place) in rounds {
        let router = vendors.router(line);
        let before = vendors.main_calls();
        let explained = router.explain("executor").unwrap().to_string();
        assert!(explained.contains(backend), "{explained}");
        assert_eq!(vendors.main_calls(), before, "explaining asked a model");

        let workspace = vendors.folder.path().join(name);
        std::fs::create_dir(&workspace).unwrap();
        let request = TurnRequest::new("Write your name into name.txt.")
            .with_tool_access(ToolAccess::Unrestricted)
            .in_directory(&workspace)
            .with_limits(Limits::new().with_deadline(Duration::from_secs(120)));
        let mut events = Vec::new();
        let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
        let result = router.run_turn("executor", request, TurnHost::new(), &mut sink).await;
        let result = result.unwrap_or_else(|error| panic!("{backend}: {error:#?}"));

        assert_eq!(result.provenance.backend.as_str(), backend);
        assert_eq!(result.text.trim(), format!("{name} has written it."));
        assert_eq!(std::fs::read_to_string(workspace.join("name.txt")).unwrap().trim(), name);
        assert!(events.iter().any(|event| matches!(event, TurnEvent::ToolCallFinished(_))), "{events:#?}");
        let mut expected = before;
        expected[place] += 2;
        assert_eq!(vendors.main_calls(), expected, "another vendor was asked");
    }
}
