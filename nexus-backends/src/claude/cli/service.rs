//! Service that the CLI calls in place of its vendor's: Amazon Bedrock, Vertex AI, or a gateway.
//!
//! The process gets exactly the variables of the service and a fresh credential. The host's own switches and keys never
//! reach it. Observed with claude 2.1.332: the CLI sends the key of `AWS_BEARER_TOKEN_BEDROCK` and the token of
//! `ANTHROPIC_AUTH_TOKEN` as bearer tokens, at Vertex AI with `CLAUDE_CODE_SKIP_VERTEX_AUTH`. On Bedrock it asks for the
//! list of inference profiles, and calls up to six models with a limit of one token, to find out which the account has.

use nexus_core::{BuildContext, Credential, CredentialSource, ErrorKind, SettingsError, harness::Failure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

use crate::cli::settings::{Billing, Settings};
use crate::settings::part;

/// Longest name of a region or a project, in bytes. Source: the limit of a label in a host name.
const MAX_NAME_BYTES: usize = 63;

/// Prefix of keys of the CLI's own vendor.
const VENDOR_KEY_PREFIX: &str = "sk-ant-";

/// Settings of the service that the CLI calls.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ServiceSettings {
    /// Service that the CLI calls with the credential: bedrock, vertex, or a gateway at base_url that takes a bearer token.
    /// Default: the vendor's own API.
    pub(super) service: Option<Service>,
    /// Region of the service, such as us-east-1.
    region: Option<String>,
    /// Id of the Google Cloud project, for vertex.
    project: Option<String>,
}

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Service {
    Bedrock,
    Vertex,
    Gateway,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
            Self::Gateway => "gateway",
        }
    }

    /// Returns advice for a missing credential.
    fn credential_advice(self) -> &'static str {
        match self {
            Self::Bedrock => "`credential: { env: AWS_BEARER_TOKEN_BEDROCK }`, or `credential: { aws: {} }`",
            Self::Vertex => "`credential: { command: [gcloud, auth, print-access-token], ttl: 50m }`",
            Self::Gateway => "`credential: { env: NAME }`",
        }
    }

    /// Returns true if the host's variable `name` would change how the CLI reaches the service.
    pub(super) fn is_steered_by(self, name: &str) -> bool {
        let prefixes: &[&str] = match self {
            Self::Bedrock => &["AWS_"],
            Self::Vertex => &["CLOUD_ML_", "GCLOUD_", "GCE_", "GOOGLE_", "VERTEX_"],
            Self::Gateway => &[],
        };
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

impl ServiceSettings {
    /// Separates these settings from those of every CLI.
    pub(super) fn part(settings: &Map<String, Value>) -> Result<(Self, Map<String, Value>), SettingsError> {
        part(settings)
    }

    /// Checks the settings, and returns the source of the credential. Turns at a service are metered.
    pub(super) fn credential_source(
        &self,
        settings: &mut Settings,
        context: &BuildContext,
    ) -> Result<Option<Arc<dyn CredentialSource>>, SettingsError> {
        let wrong = |key: &str, reason: String| Err(SettingsError::new(key, reason));
        let own = [("region", &self.region), ("project", &self.project)];
        let Some(service) = self.service else {
            if let Some((key, _)) = own.iter().find(|(_, value)| value.is_some()) {
                return wrong(
                    key,
                    "belongs to `service: bedrock` or `service: vertex`: add that, or remove it".into(),
                );
            }
            return settings.credential_source(context);
        };
        let name = service.name();
        let needed: &[&str] = match service {
            Service::Bedrock => &["region"],
            Service::Vertex => &["project", "region"],
            Service::Gateway => &[],
        };
        for (key, value) in own {
            // The values become parts of host names and paths.
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
            match value {
                None if needed.contains(&key) => {
                    let example = if key == "region" { "us-east-1" } else { "my-project" };
                    return wrong(
                        key,
                        format!("`service: {name}` needs it: write `{key}:`, such as {example}"),
                    );
                }
                Some(_) if !needed.contains(&key) => {
                    return wrong(key, format!("`service: {name}` does not have it: remove it"));
                }
                Some(text) if text.is_empty() || text.len() > MAX_NAME_BYTES || !text.chars().all(fits) => {
                    return wrong(
                        key,
                        "must consist of at most 63 ASCII letters, digits, `-`, `_`, `.` and `:`".into(),
                    );
                }
                _ => {}
            }
        }
        if service == Service::Gateway && settings.base_url.is_none() {
            return wrong("base_url", "`service: gateway` needs it: name the address of the gateway".into());
        }
        if settings.billing == Some(Billing::Plan) {
            return wrong("billing", format!("`service: {name}` has no plan: remove it, or write metered"));
        }
        settings.billing = Some(Billing::Metered);
        let Some(setting) = &settings.credential else {
            let advice = service.credential_advice();
            return wrong("credential", format!("`service: {name}` needs it: write {advice}"));
        };
        let source = match service {
            // Only Bedrock takes signing keys; the others need a plain token.
            Service::Bedrock => setting.source(context),
            Service::Vertex | Service::Gateway => setting.token_source(context),
        };
        source.map(Some)
    }

    /// Returns the hosts that the CLI calls. With the user's own login it also calls the one that renews the login. A gateway is at
    /// `base_url`.
    ///
    /// Source: claude 2.1.197 and 2.1.332 resolve the first host alone with a credential; both contain the second as `TOKEN_URL`;
    /// the documentation of Amazon Bedrock and Vertex AI names those of the services.
    pub(super) fn hosts(&self, has_own_login: bool) -> Vec<String> {
        let region = self.region.as_deref().unwrap_or_default();
        match self.service {
            None if has_own_login => vec!["api.anthropic.com".to_owned(), "platform.claude.com".to_owned()],
            None => vec!["api.anthropic.com".to_owned()],
            Some(Service::Bedrock) => {
                ["bedrock-runtime", "bedrock"].map(|name| format!("{name}.{region}.amazonaws.com")).into()
            }
            Some(Service::Vertex) if region == "global" => vec!["aiplatform.googleapis.com".to_owned()],
            Some(Service::Vertex) => vec![format!("{region}-aiplatform.googleapis.com")],
            Some(Service::Gateway) => Vec::new(),
        }
    }

    /// Returns the variables with which the CLI calls the service, if the settings name one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unauthenticated`] for a credential of another service.
    pub(super) fn variables(
        &self,
        base_url: Option<&str>,
        credential: &Credential,
    ) -> Result<Option<Vec<(&'static str, String)>>, Failure> {
        let Some(service) = self.service else { return Ok(None) };
        let token = credential.token.expose();
        // The cloud would reject the key, but only after it has received it.
        if service != Service::Gateway && token.starts_with(VENDOR_KEY_PREFIX) {
            let reason = format!(
                "the credential is a key of Anthropic, but `service: {}` needs one of the cloud: write {}",
                service.name(),
                service.credential_advice()
            );
            return Err(Failure::new(ErrorKind::Unauthenticated, reason));
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let token = token.to_owned();
        let mut variables = match (service, &credential.signing) {
            (Service::Bedrock, Some(key)) => {
                let mut keys = vec![("AWS_ACCESS_KEY_ID", key.id.clone()), ("AWS_SECRET_ACCESS_KEY", token)];
                keys.extend(
                    key.session.as_ref().map(|session| ("AWS_SESSION_TOKEN", session.expose().to_owned())),
                );
                keys
            }
            (Service::Bedrock, None) => vec![("AWS_BEARER_TOKEN_BEDROCK", token)],
            (Service::Vertex | Service::Gateway, _) => vec![("ANTHROPIC_AUTH_TOKEN", token)],
        };
        let address = match service {
            Service::Bedrock => {
                variables.push(("CLAUDE_CODE_USE_BEDROCK", "1".to_owned()));
                variables.push(("AWS_REGION", text(&self.region)));
                // Otherwise the program asks an address of the machine's network for keys.
                variables.push(("AWS_EC2_METADATA_DISABLED", "true".to_owned()));
                "ANTHROPIC_BEDROCK_BASE_URL"
            }
            Service::Vertex => {
                variables.push(("CLAUDE_CODE_USE_VERTEX", "1".to_owned()));
                variables.push(("CLOUD_ML_REGION", text(&self.region)));
                variables.push(("ANTHROPIC_VERTEX_PROJECT_ID", text(&self.project)));
                // The token is in the header that this switch leaves to the caller.
                variables.push(("CLAUDE_CODE_SKIP_VERTEX_AUTH", "1".to_owned()));
                "ANTHROPIC_VERTEX_BASE_URL"
            }
            Service::Gateway => "ANTHROPIC_BASE_URL",
        };
        variables.extend(base_url.map(|url| (address, url.to_owned())));
        Ok(Some(variables))
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::{Secret, SigningKey};
    use serde_json::json;

    use super::*;

    fn settings(value: &Value) -> Result<(ServiceSettings, Settings), SettingsError> {
        let context = BuildContext::in_home("/nowhere");
        let (service, shared) = ServiceSettings::part(value.as_object().unwrap())?;
        let mut settings = Settings::read(&shared, &context)?;
        service.credential_source(&mut settings, &context)?;
        Ok((service, settings))
    }

    #[test]
    fn a_service_has_what_it_needs_or_the_key_is_named() {
        let key = json!({ "env": "K" });
        for (value, path) in [
            (json!({ "service": "foundry" }), vec!["service"]),
            (json!({ "region": "us-east-1" }), vec!["region"]),
            (json!({ "project": "p" }), vec!["project"]),
            (json!({ "service": "bedrock", "credential": key }), vec!["region"]),
            (json!({ "service": "bedrock", "region": "a b", "credential": key }), vec!["region"]),
            (
                json!({ "service": "bedrock", "region": "r", "project": "p", "credential": key }),
                vec!["project"],
            ),
            (json!({ "service": "bedrock", "region": "r" }), vec!["credential"]),
            (json!({ "service": "vertex", "region": "r", "credential": key }), vec!["project"]),
            (
                json!({ "service": "vertex", "region": "r", "project": "p", "credential": { "aws": {} } }),
                vec!["credential", "aws"],
            ),
            (json!({ "credential": { "aws": {} } }), vec!["credential", "aws"]),
            (json!({ "service": "gateway", "credential": key }), vec!["base_url"]),
            (
                json!({ "service": "bedrock", "region": "r", "billing": "plan", "credential": key }),
                vec!["billing"],
            ),
        ] {
            assert_eq!(settings(&value).unwrap_err().path, path, "{value}");
        }
        let (_, read) = settings(&json!({ "service": "bedrock", "region": "r", "credential": key })).unwrap();
        assert_eq!(read.billing, Some(Billing::Metered));
    }

    #[test]
    fn each_service_has_its_hosts() {
        let key = json!({ "env": "K" });
        for (value, expected) in [
            (json!({}), "api.anthropic.com"),
            (
                json!({ "service": "bedrock", "region": "us-east-1", "credential": key }),
                "bedrock-runtime.us-east-1.amazonaws.com bedrock.us-east-1.amazonaws.com",
            ),
            (
                json!({ "service": "vertex", "region": "europe-west1", "project": "p", "credential": key }),
                "europe-west1-aiplatform.googleapis.com",
            ),
            (
                json!({ "service": "vertex", "region": "global", "project": "p", "credential": key }),
                "aiplatform.googleapis.com",
            ),
            (json!({ "service": "gateway", "base_url": "http://g", "credential": key }), ""),
        ] {
            assert_eq!(settings(&value).unwrap().0.hosts(false).join(" "), expected);
        }
        assert_eq!(ServiceSettings::default().hosts(true).join(" "), "api.anthropic.com platform.claude.com");
    }

    #[test]
    fn a_process_gets_exactly_the_variables_of_its_service() {
        let token = Credential::new(Secret::new("canary"));
        let signing = token.clone().with_signing(SigningKey::new("AKIA1", Some(Secret::new("session"))));
        let key = json!({ "env": "K" });
        for (value, credential, expected) in [
            (
                json!({ "service": "bedrock", "region": "us-east-1", "credential": key }),
                &token,
                vec![
                    ("AWS_BEARER_TOKEN_BEDROCK", "canary"),
                    ("CLAUDE_CODE_USE_BEDROCK", "1"),
                    ("AWS_REGION", "us-east-1"),
                    ("AWS_EC2_METADATA_DISABLED", "true"),
                ],
            ),
            (
                json!({ "service": "bedrock", "region": "us-east-1", "credential": key, "base_url": "http://b" }),
                &signing,
                vec![
                    ("AWS_ACCESS_KEY_ID", "AKIA1"),
                    ("AWS_SECRET_ACCESS_KEY", "canary"),
                    ("AWS_SESSION_TOKEN", "session"),
                    ("CLAUDE_CODE_USE_BEDROCK", "1"),
                    ("AWS_REGION", "us-east-1"),
                    ("AWS_EC2_METADATA_DISABLED", "true"),
                    ("ANTHROPIC_BEDROCK_BASE_URL", "http://b"),
                ],
            ),
            (
                json!({ "service": "vertex", "region": "global", "project": "p", "credential": key }),
                &token,
                vec![
                    ("ANTHROPIC_AUTH_TOKEN", "canary"),
                    ("CLAUDE_CODE_USE_VERTEX", "1"),
                    ("CLOUD_ML_REGION", "global"),
                    ("ANTHROPIC_VERTEX_PROJECT_ID", "p"),
                    ("CLAUDE_CODE_SKIP_VERTEX_AUTH", "1"),
                ],
            ),
            (
                json!({ "service": "gateway", "credential": key, "base_url": "http://g" }),
                &token,
                vec![("ANTHROPIC_AUTH_TOKEN", "canary"), ("ANTHROPIC_BASE_URL", "http://g")],
            ),
        ] {
            let (service, read) = settings(&value).unwrap();
            let variables = service.variables(read.base_url.as_deref(), credential).unwrap().unwrap();
            let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(variables, expected);
        }
        let foreign = Credential::new(Secret::new("sk-ant-api03-canary"));
        let (service, _) =
            settings(&json!({ "service": "bedrock", "region": "r", "credential": key })).unwrap();
        let words = service.variables(None, &foreign).unwrap_err().message.unwrap();
        assert!(words.contains("AWS_BEARER_TOKEN_BEDROCK") && !words.contains("canary"), "{words}");
        assert_eq!(ServiceSettings::default().variables(None, &token).unwrap(), None);
    }
}
