//! Conversion of a client's prompt to a turn.

use std::fmt::Write as _;

use agent_client_protocol_schema::v1::{
    AvailableCommand, AvailableCommandInput, ContentBlock, EmbeddedResourceResource, Error,
    UnstructuredCommandInput,
};
use base64::Engine as _;
use nexus_core::{PromptBlock, visible::Visible};

use crate::incoming::with_reason;

/// Maximum total size of a prompt's texts, in bytes. Source: our own bound, above the limit of every model.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// Command that explains which backend would run a prompt.
const EXPLAIN: &str = "/explain";

/// Command that starts the MCP servers again.
const SERVERS: &str = "/servers";

/// Returns the commands with which a prompt may begin.
pub(crate) fn commands() -> Vec<AvailableCommand> {
    let input = UnstructuredCommandInput::new("a type of nexus.yaml; default: the type of the session");
    vec![
        AvailableCommand::new(
            "explain",
            "Show the backend that would run a prompt, and the reason, without \
            starting anything",
        )
        .input(AvailableCommandInput::Unstructured(input)),
        AvailableCommand::new(
            "servers",
            "Restart the MCP servers that did not start, and list the running ones",
        ),
    ]
}

/// Action that a prompt asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Asked {
    /// Explain which backend would run a prompt of this type. `None`: the type of the session.
    Explain(Option<String>),
    /// Start the MCP servers again.
    Servers,
    /// Run a turn.
    Turn(Vec<PromptBlock>),
}

impl Asked {
    /// Reads a prompt. Texts and resources become one text in their order, because a person's words refer to
    /// the resources beside them.
    ///
    /// # Errors
    ///
    /// A malformed picture, content that was not announced, too much text, or no content.
    pub(crate) fn read(content: Vec<ContentBlock>) -> Result<Self, Error> {
        // Only a prompt of one text can be a command: one with attachments is for the model.
        if let [ContentBlock::Text(text)] = content.as_slice()
            && let Some(kind) = text.text.trim().strip_prefix(EXPLAIN)
            && (kind.is_empty() || kind.starts_with(char::is_whitespace))
        {
            let kind = kind.trim();
            return Ok(Self::Explain((!kind.is_empty()).then(|| kind.to_owned())));
        }
        if let [ContentBlock::Text(text)] = content.as_slice()
            && text.text.trim() == SERVERS
        {
            return Ok(Self::Servers);
        }
        let mut reading = BlockReader::default();
        content.into_iter().try_for_each(|block| reading.block(block))?;
        reading.end_text();
        if reading.blocks.is_empty() {
            return Err(unfit("the prompt has neither text nor a picture"));
        }
        Ok(Self::Turn(reading.blocks))
    }
}

/// Reader of a prompt's blocks.
#[derive(Default)]
struct BlockReader {
    blocks: Vec<PromptBlock>,
    text: String,
    bytes: usize,
}

impl BlockReader {
    fn block(&mut self, block: ContentBlock) -> Result<(), Error> {
        match block {
            ContentBlock::Text(text) => self.push(&text.text),
            ContentBlock::Image(image) => self.image(&image.data),
            ContentBlock::ResourceLink(link) => {
                let name = link.title.as_deref().unwrap_or(&link.name);
                self.push(&format!("[{}]({})", Visible(name), Visible(&link.uri)))
            }
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(resource) => {
                    let mut text = String::new();
                    let uri = Visible(&resource.uri);
                    // Writing into a string does not fail.
                    let _ = write!(text, "\n<resource uri=\"{uri}\">\n{}\n</resource>\n", resource.text);
                    self.push(&text)
                }
                EmbeddedResourceResource::BlobResourceContents(resource) => {
                    match resource.mime_type.as_deref().is_some_and(|kind| kind.starts_with("image/")) {
                        true => self.image(&resource.blob),
                        false => {
                            Err(unfit(format!("{}: only texts and pictures can be shown", resource.uri)))
                        }
                    }
                }
                _ => Err(unfit("a resource is a text or bytes")),
            },
            _ => Err(unfit("a prompt consists of text, pictures and resources; audio is not supported")),
        }
    }

    fn push(&mut self, text: &str) -> Result<(), Error> {
        self.bytes += text.len();
        if self.bytes > MAX_TEXT_BYTES {
            return Err(unfit(format!("the texts of a prompt have at most {MAX_TEXT_BYTES} bytes")));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn image(&mut self, data: &str) -> Result<(), Error> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(data);
        let image = bytes.ok().and_then(|bytes| PromptBlock::image(&bytes));
        let image = image.ok_or_else(|| unfit("a picture is base64 of a PNG, JPEG, GIF or WebP file"))?;
        // The picture must stay between the texts around it.
        self.end_text();
        self.blocks.push(image);
        Ok(())
    }

    fn end_text(&mut self) {
        if !self.text.trim().is_empty() {
            self.blocks.push(PromptBlock::text(std::mem::take(&mut self.text)));
        }
        self.text.clear();
    }
}

fn unfit(reason: impl Into<String>) -> Error {
    with_reason(Error::invalid_params(), reason)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(content: &[Value]) -> Result<Asked, Error> {
        Asked::read(content.iter().map(|block| serde_json::from_value(block.clone()).unwrap()).collect())
    }

    #[test]
    fn a_prompt_keeps_its_order_and_shows_what_it_mentions() {
        let asked = read(&[
            json!({ "type": "text", "text": "See " }),
            json!({ "type": "resource_link", "name": "a.rs", "uri": "file:///x/a.rs" }),
            json!({ "type": "resource", "resource": { "uri": "file:///b\n", "text": "fn b() {}" } }),
            json!({ "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=" }),
            json!({ "type": "text", "text": "and this" }),
        ]);
        let Ok(Asked::Turn(blocks)) = asked else { panic!("{asked:?}") };
        let [
            PromptBlock::Text { text },
            PromptBlock::Image { media_type, .. },
            PromptBlock::Text { text: last },
        ] = &blocks[..]
        else {
            panic!("{blocks:?}")
        };
        assert_eq!(
            text,
            "See [a.rs](file:///x/a.rs)\n<resource uri=\"file:///b\\u{a}\">\nfn b() {}\n</resource>\n"
        );
        assert_eq!((media_type.as_str(), last.as_str()), ("image/png", "and this"));
    }

    #[test]
    fn what_cannot_be_shown_is_refused() {
        let large = "x".repeat(MAX_TEXT_BYTES + 1);
        for block in [
            json!({ "type": "image", "mimeType": "image/png", "data": "not base64" }),
            json!({ "type": "image", "mimeType": "image/png", "data": "PHN2Zy8+" }),
            json!({ "type": "audio", "mimeType": "audio/wav", "data": "" }),
            json!({ "type": "resource", "resource": { "uri": "file:///b", "blob": "AA==" } }),
            json!({ "type": "text", "text": large }),
        ] {
            assert_eq!(i32::from(read(&[block]).unwrap_err().code), -32602);
        }
    }

    #[test]
    fn a_command_is_one_alone() {
        let asked = |text: &str| read(&[json!({ "type": "text", "text": text })]).unwrap();
        assert_eq!(asked(" /explain\n"), Asked::Explain(None));
        assert_eq!(asked("/explain writer"), Asked::Explain(Some("writer".into())));
        assert!(matches!(asked("/explainer"), Asked::Turn(_)));
        assert!(matches!(asked("what does /explain do?"), Asked::Turn(_)));
    }
}
