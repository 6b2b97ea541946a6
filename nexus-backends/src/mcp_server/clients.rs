//! The MCP sessions of the programs that use one server, and the calls that each of them waits for.

use std::collections::{HashMap, VecDeque};

use futures::future::AbortHandle;
use rmcp::model::RequestId;
use uuid::Uuid;

/// Most MCP sessions at once; of more, the oldest ends. Source: our own bound; a program has one or two.
const MAX_CLIENTS: usize = 64;

/// The MCP sessions of a server.
#[derive(Debug, Default)]
pub(super) struct Clients(VecDeque<Client>);

#[derive(Debug)]
struct Client {
    id: Uuid,
    calls: HashMap<RequestId, AbortHandle>,
}

impl Client {
    fn end(self) {
        self.calls.into_values().for_each(|call| call.abort());
    }
}

impl Clients {
    /// Begins a session.
    pub(super) fn begin(&mut self) -> Uuid {
        if self.0.len() >= MAX_CLIENTS
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.end();
        }
        let id = Uuid::new_v4();
        self.0.push_back(Client { id, calls: HashMap::new() });
        id
    }

    /// The session that goes by this name.
    pub(super) fn find(&self, name: &str) -> Option<Uuid> {
        self.0.iter().map(|client| client.id).find(|id| id.to_string() == name)
    }

    /// Ends a session, and the calls that it waits for.
    pub(super) fn end(&mut self, id: Uuid) {
        if let Some(at) = self.0.iter().position(|client| client.id == id)
            && let Some(client) = self.0.remove(at)
        {
            client.end();
        }
    }

    /// A call begins. `false` if the request's name is in use.
    pub(super) fn call_begins(&mut self, id: Uuid, request: &RequestId, call: AbortHandle) -> bool {
        let Some(client) = self.client(id).filter(|client| !client.calls.contains_key(request)) else {
            return false;
        };
        client.calls.insert(request.clone(), call);
        true
    }

    /// A call is over.
    pub(super) fn call_ends(&mut self, id: Uuid, request: &RequestId) {
        if let Some(client) = self.client(id) {
            client.calls.remove(request);
        }
    }

    /// A call is not wanted any more.
    pub(super) fn cancel(&mut self, id: Uuid, request: &RequestId) {
        if let Some(call) = self.client(id).and_then(|client| client.calls.get(request)) {
            call.abort();
        }
    }

    fn client(&mut self, id: Uuid) -> Option<&mut Client> {
        self.0.iter_mut().find(|client| client.id == id)
    }
}
