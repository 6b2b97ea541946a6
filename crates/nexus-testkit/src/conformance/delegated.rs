//! Runs the suite on a vendor's CLI: the real program with a simulated model, or a fake program.

use std::{path::PathBuf, sync::Arc};

use nexus_core::BackendKind;

use super::{
    kind_subject::{Builder, Counterpart, KindSubject, Weather},
    subject::{Stage, StageError, ToolList},
};
use crate::{
    fake_cli::{Act, FakeCli, FakeScript, Misbehaviour, Vendor},
    model_call::Line,
    sim::{Dialect, ToolCall},
};

/// A delegated backend under test. Its settings must include `executable`, `base_url` and `credential`. The scripted model
/// calls the caller's tools as those of the MCP server `nexus`.
///
/// ```
/// # use std::sync::Arc;
/// # use nexus_core::BackendKind;
/// # use nexus_testkit::conformance::DelegatedSubject;
/// # use nexus_testkit::fake_cli::Vendor;
/// # fn subject(kind: Arc<dyn BackendKind>) -> DelegatedSubject {
/// DelegatedSubject::fake("codex-cli with a fake program", kind, Vendor::Codex).with_model("gpt-5.5")
/// # }
/// ```
pub type DelegatedSubject = KindSubject<Program>;

/// The program under test, and its model.
#[derive(Clone, Debug)]
pub struct Program(Which);

#[derive(Clone, Debug)]
enum Which {
    Real { executable: PathBuf, dialect: Dialect },
    Fake { vendor: Vendor, program: Option<PathBuf> },
}

impl DelegatedSubject {
    /// The real program `executable`, against a simulator that speaks `dialect`.
    pub fn real(
        name: impl Into<String>,
        kind: Arc<dyn BackendKind>,
        executable: impl Into<PathBuf>,
        dialect: Dialect,
    ) -> Self {
        Self::delegated(name.into(), kind, Which::Real { executable: executable.into(), dialect })
    }

    /// A fake of `vendor`'s program, which is this very program: its `main` begins with
    /// [`fake_cli::run_if_invoked`](crate::fake_cli::run_if_invoked).
    pub fn fake(name: impl Into<String>, kind: Arc<dyn BackendKind>, vendor: Vendor) -> Self {
        Self::delegated(name.into(), kind, Which::Fake { vendor, program: None })
    }

    fn delegated(name: String, kind: Arc<dyn BackendKind>, which: Which) -> Self {
        Self::before(name, kind, Program(which), |name, arguments| ToolCall::mcp("nexus", name, arguments))
    }

    /// Uses `program` as the vendor's fake in place of this program, such as `nexus-fake-cli`.
    #[must_use]
    pub fn with_fake_program(mut self, path: impl Into<PathBuf>) -> Self {
        if let Which::Fake { program, .. } = &mut self.counterpart.0 {
            *program = Some(path.into());
        }
        self
    }
}

impl Counterpart for Program {
    fn stage(&self, weather: Weather, mut builder: Builder<'_>) -> Result<Stage, StageError> {
        match &self.0 {
            Which::Fake { vendor, program } => {
                let Weather { script, line, mcp_server, tool_list } = weather;
                let mut script = FakeScript::new(Act::Imitate { scenario: Box::new(script), line });
                if mcp_server == Line::Refused {
                    script = script.with(Misbehaviour::ReachesNoServer);
                }
                script = match tool_list {
                    ToolList::Whole => script,
                    ToolList::Missing => script.with(Misbehaviour::NamesNoTools),
                    ToolList::WithAnother => script.with(Misbehaviour::NamesAnotherTool),
                };
                let fake = Arc::new(match program {
                    Some(program) => FakeCli::install_program(program, *vendor, &script)?,
                    None => FakeCli::install(*vendor, &script)?,
                });
                builder.set("executable", fake.executable().to_string_lossy());
                let folder = fake.folder().to_owned();
                Ok(Stage::new(builder.build()?, fake).with_own_folder(folder))
            }
            Which::Real { executable, dialect } => {
                builder.set("executable", executable.to_string_lossy());
                builder.before_sim(*dialect, weather)
            }
        }
    }

    fn cannot_stage(&self, case: &str) -> Option<String> {
        let Which::Real { .. } = self.0 else { return None };
        let because = match case {
            "tools_that_the_program_does_not_reach_are_missed" => "it reaches every server that is there",
            "a_level_that_is_a_list_of_tools_is_not_kept_unseen" => "it says which tools its model has",
            "what_is_not_understood_may_have_changed_anything" => {
                "it sends no unknown messages to the \
                backend"
            }
            _ => return None,
        };
        Some(format!("this is the real program: {because}"))
    }
}
