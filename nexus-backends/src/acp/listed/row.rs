//! One row of the table of agents.

use std::collections::BTreeMap;
use std::ffi::OsString;

use nexus_core::SettingsError;
use serde::Deserialize;
use serde_json::Value;

use super::template::{MODEL, TemplateValues, fill, fill_text, names_model};
use crate::acp::agent::{Furnishing, UsageReport};
use crate::acp::evidence::AgentFactsEvidence;

/// Stands for the key of a server that needs none.
const NO_KEY: &str = "none";

/// An agent, as data.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ListedAgent {
    /// Name of the row.
    #[serde(skip)]
    pub(crate) name: String,
    /// Name of the product.
    pub(crate) title: String,
    /// The vendor, as the spread of a panel counts it. Default: the name of the row.
    pub(super) vendor: Option<String>,
    /// Program, to look for on the `PATH`.
    pub(crate) program: String,
    /// Arguments that select the protocol.
    pub(crate) arguments: Vec<String>,
    /// Advice on how to install it.
    pub(crate) install: String,
    /// Hosts that it needs with its own login or key.
    pub(crate) hosts: Vec<String>,
    /// Folders below the user's home with its own login.
    pub(crate) login_folders: Vec<String>,
    /// Wire that the server at `base_url` must speak.
    pub(crate) wire: Option<String>,
    /// Parts of every process.
    pub(super) always: ProcessPart,
    /// Parts of a process with `base_url`.
    pub(super) with_server: Option<ProcessPart>,
    /// Parts of a process with a lent key and without `base_url`.
    pub(super) with_key: Option<ProcessPart>,
    /// Parts of a process with a model and without `base_url`.
    pub(super) with_model: ProcessPart,
    /// Parts that turn the agent's own tools off, but not those of the caller.
    pub(super) without_tools: Option<ProcessPart>,
    /// Prefixes of methods that the agent adds to the protocol without its prefix for extensions. They have no effect on the turn.
    pub(crate) extensions: Vec<String>,
    /// True if it resumes its conversations in another process.
    pub(crate) resumes: bool,
    /// True if it cannot use the caller's tools, because it takes no MCP server over HTTP.
    pub(crate) lacks_caller_tools: bool,
    /// True if it offers the caller's tools through a search, and its model calls them as `mcp__nexus__NAME`.
    pub(crate) hides_caller_tools: bool,
    /// True if it accepts images.
    pub(crate) has_images: bool,
    /// Form in which it reports usage.
    pub(crate) usage: ListedUsage,
    /// Promises of the conformance suite that it cannot fulfil by its nature, with the reasons.
    pub(crate) cannot: BTreeMap<String, String>,
    /// Evidence for the row.
    pub(crate) checked: AgentFactsEvidence,
    /// Version that was checked.
    pub(crate) version: Option<String>,
    /// Page that describes it.
    pub(crate) source: String,
}

/// Arguments, variables and files of a process. `{base_url}`, `{key}` and `{model}` stand for their values.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProcessPart {
    pub(super) arguments: Vec<String>,
    /// Values of variables. One that is not a text is written as JSON.
    pub(super) variables: BTreeMap<String, Value>,
    /// Contents of files, with their paths below the home. One that is not a text is written as JSON.
    pub(super) files: BTreeMap<String, Value>,
    /// Method of `authenticate` before the session.
    pub(super) authenticate: Option<String>,
    /// Name of the model in the session.
    pub(super) session_model: Option<String>,
}

impl ProcessPart {
    /// Returns true if a part names the model.
    fn names_model(&self) -> bool {
        let mut texts = self.arguments.iter().chain(&self.session_model);
        texts.any(|text| text.contains(MODEL))
            || self.variables.values().chain(self.files.values()).any(names_model)
    }
}

/// Form in which an agent reports usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ListedUsage {
    /// In `usage` of the response to the prompt, without cached tokens.
    #[default]
    Answer,
    /// In `usage` of that response, with cached tokens.
    AnswerWithCached,
    /// In `_meta.usage` of that response, with cached tokens.
    MetaWithCached,
    /// Not at all.
    None,
}

impl From<ListedUsage> for UsageReport {
    fn from(usage: ListedUsage) -> Self {
        match usage {
            ListedUsage::Answer => Self::Answer,
            ListedUsage::AnswerWithCached => Self::AnswerWithCached,
            ListedUsage::MetaWithCached => Self::MetaWithCached,
            ListedUsage::None => Self::None,
        }
    }
}

/// Inputs for the set-up of one process.
#[derive(Clone, Copy, Debug)]
pub(in crate::acp) struct ListedInputs<'a> {
    pub(in crate::acp) base_url: Option<&'a str>,
    pub(in crate::acp) key: Option<&'a str>,
    pub(in crate::acp) model: Option<&'a str>,
    /// True if the agent may use tools of its own.
    pub(in crate::acp) has_tools: bool,
}

impl ListedAgent {
    /// Sets the name. A row without a title has its name as the title.
    pub(in crate::acp) fn named(mut self, name: String) -> Self {
        if self.title.is_empty() {
            self.title.clone_from(&name);
        }
        if self.install.is_empty() {
            "install it as its documentation says, or name it as `executable`".clone_into(&mut self.install);
        }
        self.name = name;
        self
    }

    /// Returns the parts of a process, each with its key.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &ProcessPart)> {
        let always = [("always", Some(&self.always)), ("with_model", Some(&self.with_model))];
        let some = [
            ("with_server", self.with_server.as_ref()),
            ("with_key", self.with_key.as_ref()),
            ("without_tools", self.without_tools.as_ref()),
        ];
        always.into_iter().chain(some).filter_map(|(key, part)| Some((key, part?)))
    }

    /// Returns the vendor's name.
    pub(crate) fn vendor(&self) -> &str {
        self.vendor.as_deref().unwrap_or(&self.name)
    }

    /// Returns true if a key can be lent to it.
    pub(crate) fn takes_credential(&self) -> bool {
        self.with_server.is_some() || self.with_key.is_some()
    }

    /// Returns true if the agent's own tools can be turned off.
    pub(crate) fn has_off_switch(&self) -> bool {
        self.without_tools.is_some()
    }

    /// Checks that the agent can use these settings. An error names the key and the fix.
    pub(in crate::acp) fn check(&self, has_server: bool, has_key: bool) -> Result<(), SettingsError> {
        if has_server && self.with_server.is_none() {
            let reason = format!("{} takes no other server: remove the setting", self.title);
            return Err(SettingsError::new("base_url", reason));
        }
        if !has_server && has_key && self.with_key.is_none() {
            let reason = match self.with_server {
                Some(_) => format!("{} takes a key only for the server of `base_url`: add that", self.title),
                None => format!(
                    "{} uses its own login: remove the setting, or lend a key in `environment: {{ NAME: {{ credential: … }} }}`",
                    self.title
                ),
            };
            return Err(SettingsError::new("credential", reason));
        }
        Ok(())
    }

    /// Returns the arguments, variables and files of one process. [`check`](Self::check) has accepted the settings.
    ///
    /// # Errors
    ///
    /// The reason and the advice, if the row cannot use the inputs.
    pub(in crate::acp) fn set_up(&self, inputs: &ListedInputs<'_>) -> Result<Furnishing, String> {
        let mut parts = vec![&self.always];
        parts.extend(match (inputs.base_url, inputs.key) {
            (Some(_), _) => self.with_server.as_ref(),
            (None, Some(_)) => self.with_key.as_ref(),
            (None, None) => None,
        });
        if inputs.model.is_some() && inputs.base_url.is_none() {
            parts.push(&self.with_model);
        }
        if let (false, Some(part)) = (inputs.has_tools, &self.without_tools) {
            parts.push(part);
        }
        // A program would take it for an option.
        if inputs.model.is_some_and(|model| model.starts_with('-') || model.contains('\0')) {
            return Err("the name of the model begins with `-`, or contains a NUL character".to_owned());
        }
        let names_model = parts.iter().any(|part| part.names_model());
        if names_model && inputs.model.is_none() {
            return Err(format!("{} needs the name of a `model` with `base_url`", self.title));
        }
        let values = TemplateValues {
            base_url: inputs.base_url.unwrap_or_default(),
            key: inputs.key.unwrap_or(NO_KEY),
            model: inputs.model.unwrap_or_default(),
        };
        let (mut variables, mut files) = (BTreeMap::new(), BTreeMap::new());
        let mut furnishing = Furnishing { sets_model: names_model, ..Furnishing::default() };
        for part in parts {
            furnishing
                .arguments
                .extend(part.arguments.iter().map(|text| OsString::from(fill_text(text, &values))));
            // Later parts are more specific, so they take precedence.
            furnishing.authentication = part.authenticate.clone().or(furnishing.authentication);
            if let Some(model) = &part.session_model {
                furnishing.session_model = Some(fill_text(model, &values));
            }
            // Several parts may contribute to one file, so their objects are merged.
            for (all, more) in [(&mut variables, &part.variables), (&mut files, &part.files)] {
                for (name, value) in more {
                    merge(all.entry(name.clone()).or_insert(Value::Null), fill(value, &values));
                }
            }
        }
        let text = |value: Value| match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        furnishing.variables =
            variables.into_iter().map(|(name, value)| (name, text(value).into())).collect();
        furnishing.files = files.into_iter().map(|(path, value)| (path, text(value))).collect();
        Ok(furnishing)
    }
}

/// Adds the members of an object. Any other value replaces the earlier one.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
