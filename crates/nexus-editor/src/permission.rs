//! Asks the user through the client to allow a call. A missing answer counts as a refusal.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionUpdate, ToolCall, ToolCallId, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use nexus_core::{Approval, ApprovalRequest, Approver};
use serde_json::Value;

use crate::{
    calls::OpenCalls,
    client_text::title,
    diff::Files,
    outgoing::lock,
    question::EditorQuestions,
    session_client::SessionClient,
    tool_calls::{call_title, kind_of_action, paths},
    updates::{locations, output_text},
};

/// Ids of the options. "Always" is missing, because nothing would store that choice.
const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// Number of waits for the event of the call, and length of each. The event goes through a queue, but the permission request
/// does not.
const LOOKS: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Inputs for the permission requests of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) client: SessionClient,
    pub(crate) cwd: PathBuf,
    pub(crate) calls: Arc<Mutex<OpenCalls>>,
    pub(crate) files: Arc<Files>,
    pub(crate) questions: EditorQuestions,
}

impl Asking {
    /// Returns the approver for the calls of a turn. It waits for each answer up to `within`.
    pub(crate) fn approver(self, within: Duration) -> Approver {
        let questions = self.questions.clone();
        let approver = Approver::new(move |request| {
            let asking = self.clone();
            async move { asking.ask(request).await }
        });
        let approver = match questions.are_shown() {
            true => approver.with_questions(move |question| {
                let questions = questions.clone();
                async move { questions.ask(question).await }
            }),
            false => approver,
        };
        approver.with_time_limit(within)
    }

    async fn ask(&self, request: ApprovalRequest) -> Approval {
        let mut files = request.paths.iter().map(|path| self.cwd.join(path)).collect::<Vec<_>>();
        if files.is_empty() {
            files = paths(&self.cwd, &request.arguments);
        }
        let shown = match &request.title {
            Some(text) => title(text),
            None => call_title(&request.tool, Some(&request.arguments)),
        };
        let mut fields = ToolCallUpdateFields::new()
            .title(shown.clone())
            .kind(kind_of_action(&request.tool, request.action))
            .status(ToolCallStatus::Pending)
            .locations(locations(&files))
            .raw_input(request.arguments.clone());
        let diff = self.files.proposed(&files, &request.arguments);
        // The title shows only one line, but the person must see the whole command.
        let command = request.arguments.get("command").and_then(Value::as_str);
        let whole = command.or(request.title.as_deref()).filter(|text| title(text) != text.trim());
        let content: Vec<_> = diff.into_iter().chain(whole.and_then(output_text)).collect();
        if !content.is_empty() {
            fields = fields.content(content);
        }
        let id = self.id_of(&request, shown, &fields).await;
        let options = vec![
            PermissionOption::new(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
            PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
        ];
        let question = RequestPermissionRequest::new(
            self.client.session.clone(),
            ToolCallUpdate::new(id, fields),
            options,
        );
        let answer =
            self.client.out.ask::<RequestPermissionResponse>("session/request_permission", &question);
        let refused = |reason: &str| Approval::Refused { reason: Some(reason.to_owned()) };
        match answer.await {
            Ok(RequestPermissionResponse {
                outcome: RequestPermissionOutcome::Selected(selected), ..
            }) if &*selected.option_id.0 == ALLOW => Approval::Granted,
            Ok(RequestPermissionResponse { outcome: RequestPermissionOutcome::Cancelled, .. }) => {
                refused("the person cancelled")
            }
            // Includes unknown options and outcomes: only `ALLOW` grants the call.
            Ok(_) => refused("the person said no"),
            Err(error) => {
                tracing::warn!(code = i32::from(error.code), "the client could not ask for a permission");
                refused("the client could not ask the person")
            }
        }
    }

    /// Returns the client's id of the call. Reports the call to the client first if necessary.
    async fn id_of(
        &self,
        request: &ApprovalRequest,
        shown: String,
        fields: &ToolCallUpdateFields,
    ) -> ToolCallId {
        for _ in 0..LOOKS {
            if let Some(id) = lock(&self.calls).asked(&request.tool, &request.arguments) {
                return id;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        // The client needs a call to show the request, so report the call before its event.
        let id = lock(&self.calls).ahead(&request.tool);
        let call = ToolCall::new(id.clone(), shown)
            .kind(fields.kind.unwrap_or_default())
            .status(ToolCallStatus::Pending)
            .raw_input(request.arguments.clone());
        self.client.update(SessionUpdate::ToolCall(call));
        id
    }
}
