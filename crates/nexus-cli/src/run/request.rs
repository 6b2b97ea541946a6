//! The request that the command line of `nexus run` describes.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use nexus::{ConversationMode, Limits, OutputSchema, PromptBlock, TurnRequest};
use nexus_files::{read_text, without_byte_order_mark};
use serde_json::Value;

use super::{kept, purpose::Purpose};
use crate::{args::RunArgs, input};

/// Reads the prompt and the files that the command line names.
pub(super) fn request(args: &RunArgs, purpose: &Purpose, is_panel: bool) -> Result<TurnRequest, String> {
    if is_panel && args.resume.is_some() {
        return Err(format!(
            "{} is a panel, whose seats always start new conversations: leave `--resume` out",
            purpose.kind
        ));
    }
    if is_panel && args.conversation.is_some() {
        return Err(format!(
            "{} is a panel, which has no conversation: leave `--conversation` out",
            purpose.kind
        ));
    }
    let prompt = match purpose.prompt.as_deref() {
        Some("-") | None => {
            input::ask_for_input("the prompt");
            read_text(io::stdin(), u64::MAX).map_err(|error| format!("standard input: {error}"))?
        }
        Some(prompt) => prompt.to_owned(),
    };
    let mut request = TurnRequest::new(prompt).with_tool_access(args.access.into());
    request.working_directory.clone_from(&args.directory);
    request.system.clone_from(&args.system);
    request.model = args.model.as_deref().map(Into::into);
    request.effort = args.effort;
    if let Some(deadline) = args.deadline {
        request = request.with_limits(Limits::new().with_deadline(deadline));
    }
    if let Some(path) = &args.schema {
        let read = File::open(path).and_then(|file| read_text(file, u64::MAX));
        let text = read.map_err(|error| format!("{}: {error}", path.display()))?;
        let schema: Value = serde_json::from_str(without_byte_order_mark(&text))
            .map_err(|error| format!("{}: a schema is JSON, and this is not: {error}", path.display()))?;
        let schema = OutputSchema::new(schema).map_err(|error| format!("{}: {error}", path.display()))?;
        request = request.with_output(schema);
    }
    for path in &args.images {
        request = request.with_block(image(path)?);
    }
    if let Some(path) = &args.resume {
        request = request.with_conversation(ConversationMode::resume(kept::handle_in(path)?));
    } else if args.keep.is_some() && !is_panel {
        request = request.with_conversation(ConversationMode::Keep);
    }
    Ok(request)
}

fn image(path: &Path) -> Result<PromptBlock, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    PromptBlock::image(&bytes)
        .ok_or_else(|| format!("{}: not a PNG, JPEG, GIF or WebP picture", path.display()))
}
