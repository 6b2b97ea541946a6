//! A chat: its settings, its conversation, and its turns.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use nexus::{
    CancelToken, ConversationName, ConversationOptions, ConversationSummary, Effort, ErrorKind, PromptBlock,
    Router, Steering, ToolAccess, TurnError, TurnHost, TurnRequest, TurnResult, Usage, Usd,
};
use nexus_files::{counted, rfc3339};

use super::mention;
use crate::{
    approval::{self, AlwaysAllowed},
    args::ChatArgs,
    attendance::{LeftInput, TypedWords, attend},
    command_error::CommandError,
    conversation::store,
    interrupt::{self, Interrupts},
    output::{AnswerWriter, broken, complain, complain_line, printable, printable_lines},
    printer::usage_parts,
    run::{ShownTurn, held, printer, purpose::DEFAULT_TYPE},
    turn_servers::TurnServers,
    undo::TurnSnapshots,
    works::blocking,
};

/// A chat of a person, or of a pipe, with one conversation after another.
#[derive(Debug)]
pub(super) struct Chat {
    pub(super) out: AnswerWriter,
    pub(super) router: Router,
    /// Type of the next turn.
    pub(super) kind: String,
    /// Model that the person asked for.
    pub(super) model: Option<String>,
    pub(super) access: ToolAccess,
    pub(super) folder: PathBuf,
    pub(super) conversation: ConversationName,
    effort: Option<Effort>,
    system: Option<String>,
    always: AlwaysAllowed,
    /// Servers of `mcp_servers`.
    servers: TurnServers,
    pub(super) spent: ChatSpending,
    /// Name of a conversation that has stored turns of this chat.
    stored: Option<ConversationName>,
    /// Last printed reason why the turns cannot be undone.
    noted_undo: Option<String>,
    /// Last printed access level that is lower than the wanted one, and its type.
    noted_level: Option<(String, ToolAccess)>,
}

/// Tokens and cost of a chat.
#[derive(Debug, Default)]
pub(super) struct ChatSpending {
    turns: u64,
    usage: Usage,
    cost: Option<Usd>,
    /// Turns whose cost is not known.
    without_cost: u64,
}

/// End of a turn in a chat.
#[derive(Debug)]
pub(super) struct ChatTurnEnd {
    pub(super) is_success: bool,
    pub(super) is_cancelled: bool,
    /// True if the chat ends too: by a signal, or with its terminal.
    pub(super) is_leaving: bool,
    pub(super) left: LeftInput,
}

impl Chat {
    /// Creates a chat.
    ///
    /// # Errors
    ///
    /// The type cannot have a chat, or the folder does not exist.
    pub(super) fn new(out: AnswerWriter, router: Router, args: &ChatArgs) -> Result<Self, CommandError> {
        let kind = match &args.kind {
            Some(kind) => kind.clone(),
            None => default_type(&router)?,
        };
        let folder = args.directory.clone().unwrap_or_else(|| ".".into());
        let folder = folder.canonicalize().map_err(|error| {
            CommandError::usage(format_args!("{}: {error}", folder.display()))
                .with_advice("name a folder with --cd")
        })?;
        let chat = Self {
            out,
            router,
            kind,
            model: args.model.clone(),
            access: args.access.into(),
            folder,
            conversation: match &args.conversation {
                Some(name) => name.clone(),
                None => new_name()?,
            },
            effort: args.effort,
            system: args.system.clone(),
            always: AlwaysAllowed::new("until the chat ends"),
            servers: TurnServers::of_chat(),
            spent: ChatSpending::default(),
            stored: None,
            noted_undo: None,
            noted_level: None,
        };
        chat.check_type(&chat.kind)?;
        Ok(chat)
    }

    /// Checks that a type can have a chat.
    ///
    /// # Errors
    ///
    /// It does not exist, or is a panel.
    pub(super) fn check_type(&self, kind: &str) -> Result<(), CommandError> {
        let types = chat_types(&self.router).join(", ");
        self.router.binding(kind).map(drop).map_err(|error| {
            CommandError::usage(format_args!("{error}")).with_advice(format_args!("a chat can have: {types}"))
        })
    }

    /// Ends the servers of the chat.
    pub(super) async fn stop_servers(&self) {
        self.servers.stop().await;
    }

    /// Begins a new conversation.
    pub(super) fn begin_conversation(&mut self) -> Result<(), CommandError> {
        self.conversation = new_name()?;
        Ok(())
    }

    /// Runs a prompt as a turn of the conversation. A person answers questions, and steers the turn by typed lines.
    ///
    /// # Errors
    ///
    /// The prompt names a file that cannot be included, or the conversation cannot be used. No turn ran.
    pub(super) async fn turn(
        &mut self,
        prompt: &str,
        interrupts: &mut Interrupts,
        has_person: bool,
    ) -> Result<ChatTurnEnd, CommandError> {
        let mentioned = mention::read(prompt, &self.folder).map_err(CommandError::usage)?;
        mentioned.notes.iter().for_each(|note| complain_line(format_args!("~ {}", printable(note))));
        let request = self.request(mentioned.blocks);
        let cancel = CancelToken::new();
        let steering = Steering::new();
        let (approver, questions) = approval::approver();
        let mut host = TurnHost::new().with_cancel(cancel.clone());
        if has_person {
            host = host.with_approver(approver).with_steering(steering.clone());
        }
        // `work` borrows the whole chat during the turn, so the earlier decisions move out of it.
        let mut always = std::mem::replace(&mut self.always, AlwaysAllowed::new(""));
        let mut is_leaving = false;
        let work = self.work(request, host);
        let ended = {
            let attended = async {
                if has_person {
                    let (done, left) =
                        attend(work, questions, &mut always, TypedWords::Steer(steering)).await;
                    return (done, left);
                }
                (work.await, LeftInput::default())
            };
            let mut attended = std::pin::pin!(attended);
            loop {
                tokio::select! {
                    ended = &mut attended => break Some(ended),
                    () = broken(), if !cancel.is_cancelled() => {
                        is_leaving = true;
                        cancel.cancel();
                    }
                    signal = interrupts.next() => {
                        is_leaving |= signal.is_err() || !interrupt::was_ctrl_c();
                        // The turn is already being cancelled, so this further signal does not wait for its end.
                        if cancel.is_cancelled() {
                            break None;
                        }
                        if !is_leaving {
                            complain("stopping the turn; press Ctrl-C again to stop it immediately");
                        }
                        cancel.cancel();
                    }
                }
            }
        };
        self.always = always;
        let is_cancelled = cancel.is_cancelled();
        let Some((done, left)) = ended else {
            complain("the turn was stopped; its end is not stored");
            let left = LeftInput::default();
            return Ok(ChatTurnEnd { is_success: false, is_cancelled, is_leaving, left });
        };
        let Some(outcome) = done? else {
            return Ok(ChatTurnEnd { is_success: false, is_cancelled, is_leaving, left });
        };
        self.spent.add(&outcome);
        // The turn may have ended by itself before the cancellation reached it.
        let is_cancelled = matches!(&outcome, Err(error) if error.kind() == ErrorKind::Cancelled);
        Ok(ChatTurnEnd { is_success: outcome.is_ok(), is_cancelled, is_leaving, left })
    }

    /// Runs the turn between its snapshots. `None` if it was cancelled before it began.
    async fn work(
        &mut self,
        request: TurnRequest,
        host: TurnHost,
    ) -> Result<Option<Result<TurnResult, TurnError>>, CommandError> {
        let cancel = host.cancel.clone();
        let Some(mut held) = held::take(&self.conversation, Duration::ZERO, &cancel).await? else {
            return Ok(None);
        };
        // A model that knows nothing of the earlier turns would answer as if it did.
        if held.is_new() && self.stored.as_ref() == Some(held.name()) {
            let message = format!("the conversation {} was removed by another command", held.name());
            return Err(CommandError::failed(message).with_advice("begin another one by /new"));
        }
        let Some((host, warnings)) = self.servers.offer(&self.router, &request, host).await? else {
            return Ok(None);
        };
        let host = host.with_warnings(warnings);
        let label = format!("{} · {}", self.kind, self.conversation);
        let folder = Some(self.folder.clone());
        let snapshots = match TurnSnapshots::begin(folder, self.access, label, cancel.clone()).await {
            Ok(snapshots) => snapshots,
            Err(error) => {
                let reason = error.to_string();
                // Report each reason once, not at every turn.
                if self.noted_undo.as_ref() != Some(&reason) && !cancel.is_cancelled() {
                    complain(printable(&format!("/undo cannot undo this turn: {reason}")));
                    self.noted_undo = Some(reason);
                }
                None
            }
        };
        let options = ConversationOptions::new();
        let turn = ShownTurn {
            out: self.out,
            router: &self.router,
            kind: &self.kind,
            conversation: Some((&mut held, options)),
            recording: None,
        };
        let ran = turn.run(request, host, &mut printer()).await;
        if let Some(snapshots) = snapshots {
            snapshots.end().await;
        }
        let (outcome, rest) = ran?;
        if let Some(rest) = rest
            && let Err(error) = rest.end(&self.router, held.name()).await
        {
            complain(printable_lines(&error.to_string()));
        }
        let name = held.name().clone();
        self.stored = blocking(move || store().summary(&name)).await.ok().map(|stored| stored.name);
        Ok(Some(outcome))
    }

    /// Builds the request. Lowers the access to a level that the backend can enforce, and says so once.
    fn request(&mut self, blocks: Vec<PromptBlock>) -> TurnRequest {
        let access = self.router.enforceable_access(self.kind.as_str(), self.access);
        let lowered = (access != self.access).then(|| (self.kind.clone(), access));
        if lowered.is_some() && lowered != self.noted_level {
            complain(format_args!(
                "the backend of {} does not support the access level {}: its turns have {}",
                self.kind,
                self.access.as_str(),
                access.as_str()
            ));
        }
        self.noted_level = lowered;
        let mut request = TurnRequest::default().in_directory(self.folder.clone()).with_tool_access(access);
        request.prompt = blocks;
        request.model = self.model.as_deref().map(Into::into);
        request.effort = self.effort;
        request.system.clone_from(&self.system);
        request
    }
}

impl ChatSpending {
    fn add(&mut self, outcome: &Result<TurnResult, TurnError>) {
        let (usage, cost) = match outcome {
            Ok(result) => (&result.usage, result.cost),
            Err(error) => (&error.partial().usage, error.partial().cost),
        };
        self.turns += 1;
        self.usage = self.usage.plus(usage);
        match cost {
            Some(cost) => self.cost = Some(Usd(self.cost.unwrap_or_default().0 + cost.usd.0)),
            None => self.without_cost += 1,
        }
    }
}

impl std::fmt::Display for ChatSpending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = vec![counted(self.turns, "turn")];
        parts.extend(usage_parts(&self.usage));
        if let Some(cost) = self.cost {
            parts.push(cost.to_string());
        }
        if self.without_cost > 0 {
            parts.push(format!("{} without a known cost", counted(self.without_cost, "turn")));
        }
        f.write_str(&parts.join(" · "))
    }
}

/// Returns the types that can have a chat: those without a panel.
pub(super) fn chat_types(router: &Router) -> Vec<String> {
    router.kinds().into_iter().filter(|kind| router.binding(kind.as_str()).is_ok()).collect()
}

/// Returns the conversations, the newest first.
pub(super) async fn conversations() -> Result<Vec<ConversationSummary>, CommandError> {
    let mut found = blocking(|| store().list()).await?.conversations;
    found.sort_by_key(|summary| std::cmp::Reverse(summary.updated_at_ms));
    Ok(found)
}

fn default_type(router: &Router) -> Result<String, CommandError> {
    let types = chat_types(router);
    let default = types.iter().find(|kind| *kind == DEFAULT_TYPE).or(types.first()).cloned();
    default.ok_or_else(|| CommandError::usage("the configuration has no type for a chat: each is a panel"))
}

/// Returns a name for a new conversation: the time, in UTC.
fn new_name() -> Result<ConversationName, CommandError> {
    // Milliseconds distinguish chats that begin in the same second.
    let time = rfc3339::millis(SystemTime::now());
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let (day, moment) = digits.split_at(digits.len().min(8));
    format!("chat-{day}-{moment}").parse().map_err(CommandError::from)
}
