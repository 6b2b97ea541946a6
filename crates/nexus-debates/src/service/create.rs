//! Creating a debate.

use std::path::PathBuf;

use nexus_core::harness::try_blocking;
use nexus_router::WorkKind;
use nexus_work::{agent::AgentTypeRegistry, check_labels, check_text};

use super::{answer::DebateView, debates::Debates, request::DebateCreateRequest};
use crate::{
    data::{DebateData, RegisteredAgent},
    debate_error::{DebateError, DebateErrorKind},
    frame::PANELISTS,
    names::is_name,
    settings::DebateSettings,
    sources,
    stage::{ARBITER, FRAMER, PANELIST},
};

/// Limits of a request. Source: our own.
const MOST_QUESTION_BYTES: usize = 16 << 10;
const MOST_CONTEXT_BYTES: usize = 64 << 10;
const MOST_SOURCES: usize = 32;
const MOST_LABEL_BYTES: usize = 128;

impl Debates {
    /// Creates a debate, with sources below the configured roots. See [`Debates::create_below`].
    pub async fn create(&self, request: DebateCreateRequest) -> Result<DebateView, DebateError> {
        self.create_below(request, &[]).await
    }

    /// Creates a debate, with sources below the configured roots or those of the client, and copies its
    /// sources. No agent runs yet.
    pub async fn create_below(
        &self,
        request: DebateCreateRequest,
        client_roots: &[PathBuf],
    ) -> Result<DebateView, DebateError> {
        // Check the configuration first, because no stage can run without these work-kinds.
        self.check_configuration()?;
        let registry = AgentTypeRegistry::in_home(&self.0.home);
        let types = try_blocking(move || registry.read::<DebateErrorKind>()).await?;
        // The debate stores the agents, so that a later change of the registry does not affect it.
        let registered = types.custom_types().cloned().map(RegisteredAgent::from).collect();
        let data = self.data_of(&request, registered)?;
        let parent = request.parent_workspace_id.as_deref().map(|parent| {
            parent.parse().map_err(|error| {
                DebateError::invalid(format!("`parent_workspace_id`: {error}"), "name a task or a debate")
            })
        });
        let parent = parent.transpose()?;
        check_labels(&request.labels, MOST_LABEL_BYTES)?;
        sources::check_names(&request.sources)?;
        let mut roots = self.0.roots.clone();
        roots.extend_from_slice(client_roots);
        let store = self.0.store.clone();
        let debate = try_blocking(move || {
            let debate = store.create(&data, parent, request.labels)?;
            // `sources` stays empty until all are copied. A debate without it counts as incomplete.
            let copied = sources::copy(&request.sources, &roots, &debate.sources_folder());
            let made = copied.and_then(|copied| {
                debate.update(|_, data| {
                    data.sources = Some(copied);
                    Ok(())
                })
            });
            match made {
                Ok(()) => Ok(debate),
                Err(error) => {
                    store.discard(&debate);
                    Err(error)
                }
            }
        })
        .await?;
        self.view(&debate).await
    }

    fn data_of(
        &self,
        request: &DebateCreateRequest,
        registered: Vec<RegisteredAgent>,
    ) -> Result<DebateData, DebateError> {
        check_text("question", &request.question, MOST_QUESTION_BYTES)?;
        if let Some(context) = &request.context {
            check_text("context", context, MOST_CONTEXT_BYTES)?;
        }
        if request.sources.len() > MOST_SOURCES {
            let message = format!("there are {} sources, more than {MOST_SOURCES}", request.sources.len());
            return Err(DebateError::invalid(message, "name fewer; a folder counts as one"));
        }
        let mut settings: DebateSettings = self.0.settings.clone();
        settings.panelists = request.panelists.unwrap_or(settings.panelists);
        settings.max_rounds = request.max_rounds.unwrap_or(settings.max_rounds);
        settings.min_rounds = match request.min_rounds {
            Some(rounds) => rounds,
            // If the caller's maximum is below the configured minimum, the caller's maximum counts.
            None => settings.min_rounds.min(settings.max_rounds.max(1)),
        };
        settings.budget = request.budget.unwrap_or(settings.budget);
        if let Some((field, reason)) = settings.fault() {
            return Err(DebateError::invalid(format!("`{field}` {reason}"), "name another number"));
        }
        check_pins(&request.pins, &registered, settings.panelists)?;
        Ok(DebateData {
            version: DebateData::VERSION,
            question: request.question.clone(),
            context: request.context.clone(),
            settings,
            pins: request.pins.clone(),
            registered,
            sources: None,
            settled: Vec::new(),
            stop: false,
        })
    }

    /// Checks that the configuration binds a backend to each part of the work.
    fn check_configuration(&self) -> Result<(), DebateError> {
        for kind in [FRAMER, PANELIST, ARBITER] {
            self.0.router.explain(WorkKind::from(kind)).map_err(|error| {
                let message = format!("no backend runs the work-kind {kind:?}: {error}");
                let instead = format!(
                    "bind it in nexus.yaml: `types: {{ {kind}: … }}`; nexus.yaml.example shows all \
                        work-kinds"
                );
                DebateError::new(DebateErrorKind::NotConfigured, message, instead)
            })?;
        }
        Ok(())
    }
}

/// Checks that a frame has room for the pins.
fn check_pins(pins: &[String], registered: &[RegisteredAgent], panelists: usize) -> Result<(), DebateError> {
    let is_registered = |pin: &String| registered.iter().any(|agent| agent.name == *pin);
    for (at, pin) in pins.iter().enumerate() {
        if pins[..at].contains(pin) || !(is_registered(pin) || is_name(pin)) {
            let message = format!("the pin {pin:?} occurs twice, or is not a name");
            return Err(DebateError::invalid(
                message,
                "name registered agents (agent_list has them), or panelists by letters, digits, `-` and `_`",
            ));
        }
    }
    // Registered agents need at least one outsider beside them.
    let room = if pins.iter().all(is_registered) { panelists - 1 } else { panelists };
    if pins.len() > room {
        let (least, most) = PANELISTS.into_inner();
        let message = format!("{} pins do not fit a panel of {panelists}", pins.len());
        return Err(DebateError::invalid(
            message,
            format!(
                "pin fewer, or set more `panelists` ({least} to {most}); at least one seat is for an outsider"
            ),
        ));
    }
    Ok(())
}
