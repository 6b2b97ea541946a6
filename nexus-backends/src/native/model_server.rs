//! One server: its dialect, transport, credential and limits.

use std::sync::Arc;

use nexus_core::{BackendId, BuildContext, ModelId};

use super::dialect::Dialect;
use super::own_tools::ToolSurroundings;
use super::retry::RetryPolicy;
use super::settings::NativeSettings;
use super::tools::wire_tool::ToolCache;
use super::transport::Transport;
use crate::auth::CredentialSource;
use crate::prices::Prices;

/// One server.
#[derive(Debug)]
pub(crate) struct ModelServer {
    pub(crate) id: BackendId,
    pub(crate) dialect: Arc<dyn Dialect>,
    pub(crate) transport: Transport,
    pub(crate) credential: Option<Arc<dyn CredentialSource>>,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_event_bytes: usize,
    pub(crate) parallel_tools: usize,
    pub(crate) repeated_calls: u32,
    /// Configured size of the model's context in tokens.
    pub(crate) context_window: Option<u64>,
    /// Model that summarizes the dropped part of a conversation, if one is configured.
    pub(crate) summary_model: Option<ModelId>,
    /// Prices of models, for the cost of a reply whose server reports none.
    pub(crate) prices: Prices,
    /// Prepared tools of earlier turns.
    pub(super) tool_cache: ToolCache,
    /// Host of the loop's own tools.
    pub(super) surroundings: ToolSurroundings,
}

impl ModelServer {
    /// Creates the server to which `transport` leads.
    pub(crate) fn new(
        id: BackendId,
        dialect: Arc<dyn Dialect>,
        transport: Transport,
        credential: Option<Arc<dyn CredentialSource>>,
        settings: &NativeSettings,
        context: &BuildContext,
    ) -> Self {
        Self {
            id,
            dialect,
            transport,
            credential,
            retry: settings.retry_policy(),
            max_event_bytes: settings.max_event_bytes,
            parallel_tools: settings.parallel_tools,
            repeated_calls: settings.repeated_calls,
            prices: settings.prices.clone(),
            context_window: settings.context_window,
            summary_model: settings.summary_model.as_deref().map(ModelId::from),
            tool_cache: ToolCache::default(),
            surroundings: ToolSurroundings::new(context, settings.project_text, &settings.command_hosts),
        }
    }
}
