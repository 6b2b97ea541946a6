//! The eleven tools, for any server of [`nexus_mcp`].

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use nexus_mcp::{
    CallAnswer, CallContext, JsonObject, OnFirstCall, ServedTool, ServiceInfo, ToolDescription, ToolService,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    ArtifactWriteRequest, ArtifactWritten, ContextRequest, ContextView, HistoryPage, HistorySearchRequest,
    PlanDecideRequest, PlanDecided, PlanStartRequest, PlanStarted, PlanStatusRequest, PlanUpdateRequest,
    PlanUpdated, PlanView, TaskAddRequest, TaskAdded, TaskCloseRequest, TaskUpdateRequest, TaskUpdated,
    TasksClosed, TasksRequest, TasksView,
    descriptions::{self as described, INSTRUCTIONS},
};
use crate::{
    error::{ProjectError, ProjectErrorKind},
    folder::ProjectFolder,
};

/// Prefix of the tools' names in the server's registration: empty, or up to 32 letters, digits, `-` and `_`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolPrefix(String);

impl FromStr for ToolPrefix {
    type Err = ProjectError;

    fn from_str(text: &str) -> Result<Self, ProjectError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.len() > 32 || !text.bytes().all(fits) {
            let message = format!("{text:?} cannot be the prefix of a tool name");
            return Err(ProjectError::invalid(message, "use up to 32 letters, digits, - and _"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ToolPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The eleven tools of a project.
///
/// The first call creates `.nexus/`. The list of tools does not depend on any file.
#[derive(Debug)]
pub struct ProjectTools {
    project: OnFirstCall<ProjectFolder>,
    prefix: ToolPrefix,
}

impl ProjectTools {
    /// Creates the tools of this project.
    pub fn new(project: ProjectFolder, prefix: ToolPrefix) -> Self {
        let open = move || project.init().map(|_| project.clone());
        Self { project: OnFirstCall::new(open), prefix }
    }

    fn served<Q, A>(&self, description: &ToolDescription) -> ServedTool
    where
        Q: JsonSchema + DeserializeOwned,
        A: JsonSchema + Serialize,
    {
        let mut tool = description.served::<Q, A>();
        tool.name = format!("{}{}", self.prefix, tool.name);
        tool
    }

    async fn answer<Q, A>(
        &self,
        name: &str,
        arguments: JsonObject,
        call: impl FnOnce(&ProjectFolder, Q) -> Result<A, ProjectError> + Send + 'static,
    ) -> CallAnswer
    where
        Q: JsonSchema + DeserializeOwned + Send + 'static,
        A: Serialize + Send + 'static,
    {
        let call = |project: ProjectFolder, request| async move {
            tokio::task::spawn_blocking(move || call(&project, request)).await.unwrap_or_else(|error| {
                let message = format!("the call panicked: {error}");
                Err(ProjectError::new(
                    ProjectErrorKind::Failed,
                    message,
                    "make the same call again, and report this",
                ))
            })
        };
        self.project.answer(name, arguments, call).await
    }
}

#[async_trait]
impl ToolService for ProjectTools {
    fn info(&self) -> ServiceInfo {
        ServiceInfo::new("nexus-project", env!("CARGO_PKG_VERSION"), INSTRUCTIONS)
    }

    fn tools(&self) -> Vec<ServedTool> {
        vec![
            self.served::<PlanStartRequest, PlanStarted>(&described::PLAN_START),
            self.served::<PlanStatusRequest, PlanView>(&described::PLAN_STATUS),
            self.served::<PlanUpdateRequest, PlanUpdated>(&described::PLAN_UPDATE),
            self.served::<PlanDecideRequest, PlanDecided>(&described::PLAN_DECIDE),
            self.served::<TaskAddRequest, TaskAdded>(&described::TASK_ADD),
            self.served::<TasksRequest, TasksView>(&described::TASK_LIST),
            self.served::<TaskUpdateRequest, TaskUpdated>(&described::TASK_UPDATE),
            self.served::<TaskCloseRequest, TasksClosed>(&described::TASK_CLOSE),
            self.served::<HistorySearchRequest, HistoryPage>(&described::HISTORY_SEARCH),
            self.served::<ContextRequest, ContextView>(&described::CONTEXT),
            self.served::<ArtifactWriteRequest, ArtifactWritten>(&described::ARTIFACT_WRITE),
        ]
    }

    async fn call(&self, name: &str, arguments: JsonObject, _context: CallContext) -> CallAnswer {
        let tool = name.strip_prefix(&*self.prefix.0).unwrap_or(name);
        match tool {
            "plan_start" => self.answer(name, arguments, ProjectFolder::plan_start).await,
            "plan_status" => {
                self.answer(name, arguments, |project, request| project.plan_status(&request)).await
            }
            "plan_update" => {
                self.answer(name, arguments, |project, request| project.plan_update(&request)).await
            }
            "plan_decide" => self.answer(name, arguments, ProjectFolder::plan_decide).await,
            "task_add" => self.answer(name, arguments, ProjectFolder::task_add).await,
            "task_list" => self.answer(name, arguments, |project, request| project.task_list(&request)).await,
            "task_update" => self.answer(name, arguments, ProjectFolder::task_update).await,
            "task_close" => {
                self.answer(name, arguments, |project, request| project.task_close(&request)).await
            }
            "history_search" => {
                self.answer(name, arguments, |project, request| project.history_search(&request)).await
            }
            "context" => self.answer(name, arguments, |project, ContextRequest {}| project.context()).await,
            "artifact_write" => {
                self.answer(name, arguments, |project, request| project.artifact_write(&request)).await
            }
            other => CallAnswer::error(format!("unknown tool {other}: list the tools again")),
        }
    }

    async fn stop(&self) {
        self.project.stop();
    }
}
