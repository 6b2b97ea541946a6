//! `nexus models`: the models that the servers of the backends offer, and the table of providers. It calls no model.

use std::process::ExitCode;

use nexus::{BackendId, BuildContext, ModelListError, OfferedModel, ProviderCheck, ProviderSummary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, ModelsArgs},
    command_error::CommandError,
    config::{self, FoundConfig},
    output::{AnswerWriter, complain, printable},
};

/// A model that a backend's server offers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedBackendModel {
    /// The backend.
    #[schemars(with = "String")]
    backend: BackendId,
    /// Name of the model in requests.
    model: String,
    /// Size of its context window in tokens, if the server reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_tokens: Option<u64>,
}

/// A provider that a backend can name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedProvider {
    /// Name, for `provider:` of a backend.
    provider: String,
    /// Kind of backend that speaks the wire of its server.
    wire: String,
    /// Address of its server. Words in braces are settings of the backend.
    base_url: String,
    /// Settings that a backend needs for the address.
    parameters: Vec<String>,
    /// Environment variable that usually holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
    /// Evidence for the row.
    checked: ProviderCheck,
    /// True for a row of the configuration.
    is_of_the_configuration: bool,
    /// Page that describes the server's interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

pub(crate) async fn models(
    out: AnswerWriter,
    config: &ConfigArgs,
    args: &ModelsArgs,
) -> Result<ExitCode, CommandError> {
    if args.providers {
        return providers(out, config);
    }
    let router = config::load(config)?;
    let mut backends = router.backends();
    if let Some(name) = &args.backend {
        let id = BackendId::new(name.as_str());
        if !backends.contains_key(&id) {
            let names: Vec<_> = backends.keys().map(BackendId::as_str).collect();
            let message = format!("unknown backend {name:?}; valid: {}", names.join(", "));
            return Err(CommandError::usage(message));
        }
        backends.retain(|known, _| *known == id);
    }
    let asked = backends.iter().map(|(id, backend)| async move { (id, backend.models().await) });
    // Query all servers at once, so that a slow one does not delay the others.
    let answers = futures::future::join_all(asked).await;
    let mut has_list = false;
    for (id, answer) in answers {
        match answer {
            Ok(listing) => {
                has_list = true;
                if listing.models.is_empty() {
                    out.nothing(format!("{id}: its server has no model"));
                }
                let shown = listing.models.len();
                listing.models.iter().for_each(|model| show(out, id, model));
                if !listing.is_complete {
                    complain(format_args!("{id}: the list has {shown} models, and its server has more"));
                }
            }
            // Without a name, skip the backends that cannot list models: the others answer the question.
            Err(ModelListError::Unsupported { .. }) if args.backend.is_none() && backends.len() > 1 => {}
            Err(error) => complain(error),
        }
    }
    if !has_list && args.backend.is_none() && backends.len() > 1 {
        complain("no backend of the configuration gave a list of models");
    }
    Ok(if has_list { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

fn show(out: AnswerWriter, backend: &BackendId, model: &OfferedModel) {
    let model = ListedBackendModel {
        backend: backend.clone(),
        model: model.id.as_str().to_owned(),
        context_tokens: model.context_tokens,
    };
    let window = model.context_tokens.map(|tokens| format!("  {tokens} tokens")).unwrap_or_default();
    let text = format!("{backend}  {}{window}", model.model);
    out.line(&model, printable(&text));
}

/// Lists the rows of Nexus and, where a configuration can be read, those of its section `providers`.
fn providers(out: AnswerWriter, config: &ConfigArgs) -> Result<ExitCode, CommandError> {
    let registry = nexus::registry();
    let Some(providers) = registry.providers() else {
        return Err(CommandError::failed("this build has no providers"));
    };
    let context = BuildContext::from_process();
    let section = match config::find(config, &context)? {
        FoundConfig::Usable(source) => config::load_source(source, context)?.section(providers.name()),
        // The rows of a file that is not trusted do not count.
        FoundConfig::Untrusted(_) | FoundConfig::Missing(_) => None,
    };
    let rows = providers.list(section.as_ref());
    let width = |text: fn(&ProviderSummary) -> usize| rows.iter().map(text).max().unwrap_or_default();
    let name = width(|row| row.name.len());
    let wire = width(|row| row.wire.len());
    let variable = width(|row| row.variable.as_deref().unwrap_or(NO_VARIABLE).len());
    for row in &rows {
        let key = row.variable.as_deref().unwrap_or(NO_VARIABLE);
        let needs = match row.parameters.as_slice() {
            [] => String::new(),
            parameters => format!("  needs {}", parameters.join(", ")),
        };
        let text = format!(
            "{:name$}  {:wire$}  {key:variable$}  {}{needs}",
            row.name,
            row.wire,
            row.checked.as_str()
        );
        out.line(&ListedProvider::of(row), printable(&text));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shown for a provider without a variable.
const NO_VARIABLE: &str = "-";

impl ListedProvider {
    fn of(row: &ProviderSummary) -> Self {
        Self {
            provider: row.name.clone(),
            wire: row.wire.clone(),
            base_url: row.base_url.clone(),
            parameters: row.parameters.clone(),
            variable: row.variable.clone(),
            checked: row.checked,
            is_of_the_configuration: row.is_of_the_file,
            source: row.source.clone(),
        }
    }
}
