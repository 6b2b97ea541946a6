//! A server that is a process: JSON lines on its standard input and output.

use std::{borrow::Cow, io, sync::Arc};

use memchr::memmem;
use nexus_core::lenient_json;
use nexus_process::spawn::Process;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::json;

/// Parses a line of a server. An unreadable answer becomes an error, so that its request does not wait for ever. Other
/// unreadable lines are skipped, because some servers write a greeting first.
fn message(line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    let error = match lenient_json::from_slice(line) {
        Ok((message, repairs)) => {
            if let Some(repairs) = repairs {
                tracing::debug!(%repairs, "a server's message was repaired");
            }
            return Some(message);
        }
        Err(error) => error,
    };
    tracing::debug!(%error, "a server wrote a line that is not a message");
    // A request of the server has an id too, but no request of ours waits for that id.
    let id = lenient_json::request_id(line).filter(|_| memmem::find(line, b"\"method\"").is_none())?;
    let problem = json!({ "code": -32603, "message": format!("its answer cannot be read: {error}") });
    serde_json::from_value(json!({ "jsonrpc": "2.0", "id": id, "error": problem })).ok()
}

/// Transport of JSON lines to a process and from it.
pub(super) struct ProcessTransport {
    pub(super) process: Arc<Process>,
}

impl Transport<RoleClient> for ProcessTransport {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "process".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let stdin = self.process.stdin();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            stdin.write(line).await.map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = self.process.next_line().await?;
            if let Some(message) = message(&line.bytes) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // By the specification, a server exits at the end of its input.
        self.process.stdin().close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ServerJsonRpcMessage;

    use super::*;

    #[test]
    fn an_answer_of_a_server_is_read_or_is_an_error_under_its_id() {
        let result = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"cut \ud83d"}],"_meta":{"cost":NaN}}}"#;
        let read = message(result.as_bytes());
        assert!(matches!(&read, Some(ServerJsonRpcMessage::Response(_))), "{read:?}");
        for broken in
            [r#"{"jsonrpc":"2.0","id":3,"result":{"content":}}"#, r#"{"jsonrpc":"2.0","id":3,"result":7,"#]
        {
            let read = message(broken.as_bytes());
            assert!(matches!(&read, Some(ServerJsonRpcMessage::Error(_))), "{broken}: {read:?}");
        }
        for other in ["Listening on stdio", "", r#"{"jsonrpc":"2.0","id":3,"method":"x","params":"#] {
            assert!(message(other.as_bytes()).is_none(), "{other}");
        }
    }
}
