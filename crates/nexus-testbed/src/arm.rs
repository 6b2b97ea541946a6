//! An arm: one configuration whose reviewers are measured.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::{BuildContext, Registry};
use nexus_router::{ConfigError, KindError, Panel, Router, RouterBuilder, spending::SpendingBook};
use nexus_tasks::{TaskConfiguration, TaskSettings, TasksSection};
use sha2::{Digest as _, Sha256};

use crate::{
    error::TestbedError,
    script::{Script, ScriptedKind},
    trap::Trap,
};

/// Configuration of an arm of scripts: two vendors, each with its own lens.
const SCRIPTED: &str = "\
groups: { first: [first-model], second: [second-model] }
backends:
  first-model: { kind: scripted, script: SCRIPT, vendor: first }
  second-model: { kind: scripted, script: SCRIPT, vendor: second }
types:
  orchestrator: { tier: operations, phase: orchestrate, group: first }
  executor: { tier: execution, phase: implement, group: first }
  reviewer: { tier: operations, phase: review, panel: review }
panels:
  review:
    - { group: first, lens: boundary-inputs }
    - { group: second, lens: hidden-contracts }
lenses:
  boundary-inputs: Probe negatives, zero, empty and capped inputs.
  hidden-contracts: Find behaviour that the criteria do not name.
";
/// Maximum length of an arm's name, in bytes.
const MOST_NAME_BYTES: usize = 64;
/// Maximum size of a configuration, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// One configuration of `nexus.yaml`, whose reviewers are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    name: String,
    yaml: String,
    /// File of the configuration, for errors. `None` for a configuration without a file.
    file: Option<PathBuf>,
}

/// Inputs for building the backends of an arm.
#[derive(Clone, Debug)]
pub struct ArmContext {
    /// Kinds of backend that a configuration may name, in addition to `scripted`.
    pub registry: Registry,
    /// Context for building the backends.
    pub build: BuildContext,
    /// Record of the spending of arms that are real. Scripts cost nothing.
    pub spending: Option<Arc<dyn SpendingBook>>,
}

impl Arm {
    /// Creates an arm with this name and the text of a `nexus.yaml`.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Arm`] for a name that is empty, too long or not printable.
    pub fn new(name: impl Into<String>, yaml: impl Into<String>) -> Result<Self, TestbedError> {
        let (name, yaml) = (name.into(), yaml.into());
        let is_word = |character: char| character.is_alphanumeric() || "-_.+ ".contains(character);
        if name.trim().is_empty() || name.len() > MOST_NAME_BYTES || !name.chars().all(is_word) {
            let problem = format!(
                "a name has 1 to {MOST_NAME_BYTES} bytes: letters, digits, `-`, `_`, `.`, `+` and blanks"
            );
            return Err(TestbedError::Arm { arm: name, problem });
        }
        Ok(Self { name, yaml, file: None })
    }

    /// Creates an arm with this name and the configuration in a file. It blocks.
    ///
    /// # Errors
    ///
    /// As [`Arm::new`]; and [`TestbedError::Arm`] for a file that cannot be read, or is too large.
    pub fn load(name: impl Into<String>, file: &Path) -> Result<Self, TestbedError> {
        // Check the name first, so that an invalid name is reported before any other error.
        let mut arm = Self { file: Some(file.to_owned()), ..Self::new(name, String::new())? };
        // Check the size before the file is read into memory.
        if fs::metadata(file).map_err(|error| arm.fault(&error))?.len() > MOST_BYTES {
            return Err(arm.fault(&"it is too large for a configuration"));
        }
        arm.yaml = fs::read_to_string(file).map_err(|error| arm.fault(&error))?;
        Ok(arm)
    }

    /// Creates an arm whose agents are a script. It calls no model.
    pub fn scripted(script: Script) -> Self {
        let yaml = SCRIPTED.replace("SCRIPT", script.as_str());
        Self { name: script.as_str().to_owned(), yaml, file: None }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the SHA-256 of the configuration, in hexadecimal digits. It identifies the arm in an experiment.
    pub fn fingerprint(&self) -> String {
        nexus_files::hex(Sha256::digest(self.yaml.as_bytes()))
    }

    /// Builds the router that runs the arm's turns. Scripts of the arm get `trap`.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Arm`] if the configuration cannot be used, or binds no backend to `reviewer`.
    pub fn router(&self, trap: &Arc<Trap>, context: &ArmContext) -> Result<Router, TestbedError> {
        let registry = context.registry.clone();
        // Scripts report no cost, so the spending book gets no entry from them.
        let book = context.spending.clone().filter(|_| self.is_real(trap, context));
        let router = self.build(trap, registry, context, book).map_err(|error| self.fault(&error))?;
        self.reviewers(&router)?;
        Ok(router)
    }

    /// Returns true if the arm names a backend that is not a script. Runs of such an arm cost money.
    pub fn is_real(&self, trap: &Arc<Trap>, context: &ArmContext) -> bool {
        // The registry knows only scripts here, so every other kind fails. A faulty configuration counts as real, which
        // is the safe side.
        self.build(trap, Registry::new(), context, None).is_err()
    }

    /// Returns the settings of tasks, from the section `tasks` of the configuration. Without `min_vendors`, an advance needs
    /// votes of as many vendors as the reviewers can have, at most as many as the panel requires. So an arm of one vendor
    /// measures that vendor.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Arm`] if the section cannot be used.
    pub fn settings(&self, router: &Router) -> Result<TaskSettings, TestbedError> {
        let mut settings = TaskConfiguration::of(router).map_err(|error| self.fault(&error))?.defaults;
        if settings.min_vendors.is_none() {
            let panel = self.reviewers(router)?;
            let backends = panel.seats.iter().flat_map(|seat| &seat.binding.chain);
            let vendors: BTreeSet<String> = backends
                .filter_map(|id| router.vendor(id))
                .map(|vendor| vendor.as_str().to_owned())
                .collect();
            // With a limit above the number of available vendors, no review could ever advance.
            settings.min_vendors = Some(panel.min_vendors.min(vendors.len()).max(1));
        }
        Ok(settings)
    }

    /// Returns the panel of reviewers. A reviewer that is bound to a group becomes a panel of one seat.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Arm`] if no reviewer is bound.
    pub(crate) fn reviewers(&self, router: &Router) -> Result<Panel, TestbedError> {
        let panel = match router.panel("reviewer") {
            Err(KindError::IsNoPanel { .. }) => {
                router.seat(0, "reviewer").map(|seat| Panel::new("reviewer", [seat]))
            }
            panel => panel,
        };
        panel.map_err(|error| self.fault(&error))
    }

    fn build(
        &self,
        trap: &Arc<Trap>,
        registry: Registry,
        context: &ArmContext,
        book: Option<Arc<dyn SpendingBook>>,
    ) -> Result<Router, ConfigError> {
        let registry = registry.with(Arc::new(ScriptedKind::new(trap))).with_section(Arc::new(TasksSection));
        let builder = Router::builder(registry, context.build.clone());
        let builder = book.into_iter().fold(builder, RouterBuilder::spending_book);
        builder.from_str(&self.yaml)
    }

    fn fault(&self, error: &dyn std::fmt::Display) -> TestbedError {
        let problem = match &self.file {
            Some(file) => format!("{}: {error}", file.display()),
            None => error.to_string(),
        };
        TestbedError::Arm { arm: self.name.clone(), problem }
    }
}
