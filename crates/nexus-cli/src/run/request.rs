//! The request that the command line of `nexus run` describes.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use nexus::{ConversationMode, Limits, OutputSchema, PromptBlock, TurnRequest};
use serde_json::Value;

use super::kept;
use crate::args::RunArgs;

/// Reads the prompt and the files that the command line names.
pub(super) fn request(args: &RunArgs, is_panel: bool) -> Result<TurnRequest, String> {
    if is_panel && args.resume.is_some() {
        return Err(format!("{} is a panel, whose seats are asked anew: leave `--resume` out", args.kind));
    }
    if is_panel && args.conversation.is_some() {
        return Err(format!(
            "{} is a panel, which holds no conversation: leave `--conversation` out",
            args.kind
        ));
    }
    let prompt = match args.prompt.as_deref() {
        Some("-") | None => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input: {error}"))?;
            text
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
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let schema: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
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
