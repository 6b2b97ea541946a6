//! The conformance suite, run against the CLI of `examples/custom_cli`: a real child that plays the suite's script.

#[path = "../../examples/custom_cli/program.rs"]
mod program;
#[path = "../../examples/custom_cli/smalltalk.rs"]
mod smalltalk;

use std::sync::Arc;

use async_trait::async_trait;
use nexus::{ModelId, cli::CliBackend};
use nexus_testkit::{
    conformance::{Setting, Stage, StageError, Subject},
    fake_cli::{self, Act, FakeCli, FakeScript},
};
use smalltalk::Smalltalk;

/// Plays the program of the example, if this process was started under its name.
pub(crate) fn run_if_named() {
    fake_cli::run_if_named(program::NAME, || Box::new(program::Program::default()));
}

#[derive(Debug)]
pub(crate) struct SmalltalkSubject;

#[async_trait]
impl Subject for SmalltalkSubject {
    fn name(&self) -> &str {
        "the custom CLI of the example"
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        let act = Act::Imitate { scenario: Box::new(setting.script), line: setting.line };
        let fake = Arc::new(FakeCli::install_as(program::NAME, &FakeScript::new(act))?);
        let cli = Smalltalk { program: fake.executable().to_owned(), environment: setting.environment };
        let backend = CliBackend::new(program::NAME.into(), cli, setting.home);
        let folder = fake.folder().to_owned();
        Ok(Stage::new(Arc::new(backend), fake).with_own_folder(folder))
    }

    fn is_lent_credential(&self) -> bool {
        false
    }

    fn cannot_stage(&self, case: &str) -> Option<String> {
        (case == "a_level_that_is_a_list_of_tools_is_not_kept_unseen")
            .then(|| "the program has tools only if it is started with them, and lists none".to_owned())
    }

    fn model(&self) -> Option<ModelId> {
        Some("chatty".into())
    }
}
