//! Replays a conversation to a client that loads it.

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, ImageContent, MessageId, SessionUpdate, ToolCall, ToolCallContent,
    ToolCallStatus,
};
use nexus_conversations::{Conversation, ConversationMessage};
use nexus_core::{PromptBlock, turn::ToolCallStatus as Ended};

use crate::{
    client_text::harmless,
    outgoing::TURN_WAITS_BYTES,
    session_client::SessionClient,
    tool_calls::{call_title, kind},
    updates::{output_text, raw_input},
};

/// Sends all messages of a conversation to the client, in order. Waits while the client does not read.
pub(crate) async fn replay(client: &SessionClient, conversation: &Conversation) {
    for (number, message) in conversation.messages().enumerate() {
        for update in updates(number + 1, message) {
            client.out.below(TURN_WAITS_BYTES).await;
            client.update(update);
        }
    }
}

fn updates(number: usize, message: &ConversationMessage) -> Vec<SessionUpdate> {
    let id = format!("earlier-{number}");
    let chunk = |content| ContentChunk::new(content).message_id(MessageId::new(id.clone()));
    match message {
        ConversationMessage::User { content } => {
            let chunks = content.iter().filter_map(block).map(chunk);
            chunks.map(SessionUpdate::UserMessageChunk).collect()
        }
        ConversationMessage::Assistant { text, .. } => {
            vec![SessionUpdate::AgentMessageChunk(chunk(ContentBlock::from(harmless(text))))]
        }
        ConversationMessage::ToolCall { tool, arguments, status, output, .. } => {
            let input = arguments.as_deref().map(raw_input);
            let content = output.iter().filter_map(|block| match block {
                PromptBlock::Text { text } => output_text(text),
                other => self::block(other).map(ToolCallContent::from),
            });
            let status = match status {
                Ended::Succeeded => ToolCallStatus::Completed,
                // The protocol has no status for a denied or unfinished call.
                _ => ToolCallStatus::Failed,
            };
            let call = ToolCall::new(id, call_title(tool, input.as_ref()))
                .kind(kind(tool, None))
                .status(status)
                .content(content.collect::<Vec<_>>())
                .raw_input(input);
            vec![SessionUpdate::ToolCall(call)]
        }
        _ => Vec::new(),
    }
}

fn block(block: &PromptBlock) -> Option<ContentBlock> {
    match block {
        PromptBlock::Text { text } => Some(ContentBlock::from(harmless(text))),
        PromptBlock::Image { media_type, data } => {
            Some(ContentBlock::Image(ImageContent::new(data.clone(), media_type.clone())))
        }
        _ => None,
    }
}
