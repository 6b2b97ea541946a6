//! A server over HTTP of the section `mcp_servers`.

use std::time::Duration;

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use nexus_auth::http::ClientPlan;
use nexus_core::BuildContext;
use nexus_mcp::client::{HeaderContent, HttpEndpoint, PreparedServer, ServerSource};

use super::entry::AddressSettings;
use crate::settings::value::SettingValue;

/// Longest time to open a connection. Source: our own choice.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);

/// A server over HTTP.
#[derive(Debug)]
pub(super) struct HttpServer {
    settings: AddressSettings,
    context: BuildContext,
}

impl HttpServer {
    pub(super) fn new(settings: AddressSettings, context: BuildContext) -> Self {
        Self { settings, context }
    }

    fn content(&self, value: &SettingValue) -> Result<HeaderContent, String> {
        Ok(match value {
            SettingValue::Text(text) => HeaderContent::Text(text.clone()),
            SettingValue::Variable { variable } => {
                let found = self.context.environment.get(variable);
                HeaderContent::Variable(
                    found.cloned().ok_or_else(|| format!("the variable {variable} is not set"))?,
                )
            }
            SettingValue::Credential { credential } => {
                let source = credential.token_source(&self.context).map_err(|error| error.to_string())?;
                HeaderContent::Credential { source, prefix: "" }
            }
        })
    }
}

#[async_trait]
impl ServerSource for HttpServer {
    async fn prepare(&self) -> Result<PreparedServer, String> {
        let AddressSettings { url, headers, credential, network } = &self.settings;
        let mut contents = Vec::new();
        if let Some(credential) = credential {
            let source = credential.token_source(&self.context).map_err(|error| error.to_string())?;
            contents.push((AUTHORIZATION, HeaderContent::Credential { source, prefix: "Bearer " }));
        }
        for (name, value) in headers {
            contents.push((name.clone(), self.content(value)?));
        }
        let plan = ClientPlan::new(network, &self.context, CONNECT_WITHIN);
        let plan = plan.map_err(|error| error.to_string())?;
        Ok(HttpEndpoint::new(url.clone(), contents, plan).into())
    }
}
