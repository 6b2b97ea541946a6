//! Servers of a client, and their tools in its turns.

use std::{collections::HashSet, fmt};

use futures::future::join_all;
use tokio::sync::Mutex;

use super::{client_server::ClientServer, offer::ToolOffer, slot::ServerSlot};

/// Problem of a server or of one of its tools.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFault {
    /// Name of the server.
    pub server: String,
    /// The problem, for a person.
    pub reason: String,
    /// True if the server does not run, so that all of its tools are missing.
    pub is_missing: bool,
    /// True if no turn may run without the server.
    pub is_required: bool,
}

impl fmt::Display for ServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.reason)
    }
}

/// Servers of one client. They start with the first turn, and run until they are stopped.
#[derive(Debug)]
pub struct ClientServers {
    servers: Vec<ClientServer>,
    /// Advice after a long start that failed.
    retry_advice: &'static str,
    state: Mutex<ServerSlots>,
}

/// Slots of the servers.
#[derive(Debug)]
struct ServerSlots {
    /// One slot for each server, in the same order.
    slots: Vec<ServerSlot>,
    /// Problems that were already reported. A server that does not start is listed by its number, because the reason may be
    /// worded differently each time.
    told: HashSet<String>,
}

impl ClientServers {
    /// Creates the servers. `retry_advice` says when a server starts again whose start took long and failed.
    pub fn new(servers: Vec<ClientServer>, retry_advice: &'static str) -> Self {
        let slots = servers.iter().map(|_| ServerSlot::Empty).collect();
        Self { servers, retry_advice, state: Mutex::new(ServerSlots { slots, told: HashSet::new() }) }
    }

    /// Starts the servers that do not run, adds their tools to an offer, and returns the problems that were not reported yet. If
    /// the future is dropped, the next call continues the starts.
    pub async fn offer(&self, offer: &mut ToolOffer) -> Vec<ServerFault> {
        // Locked during the starts: two turns at once must not start a server twice.
        let ServerSlots { slots, told } = &mut *self.state.lock().await;
        let starting = self.servers.iter().zip(slots.iter_mut());
        let starting = starting.map(|(server, slot)| slot.fill(&server.source, self.retry_advice));
        // All at once, because a server may take many seconds to start.
        let started = join_all(starting).await;
        let mut faults = Vec::new();
        let fault = |server: &ClientServer, reason, is_missing| ServerFault {
            server: server.name.clone(),
            reason,
            is_missing,
            is_required: server.is_required,
        };
        for (number, (server, started)) in self.servers.iter().zip(started).enumerate() {
            let key = server_key(number);
            match started {
                // The server runs. If it ends later and does not start again, report the problem again.
                Ok(()) => {
                    told.remove(&key);
                }
                Err(reason) if told.insert(key) || server.is_required => {
                    faults.push(fault(server, reason, true));
                }
                Err(_) => {}
            }
        }
        for (server, slot) in self.servers.iter().zip(slots.iter()) {
            let Some(running) = slot.running() else { continue };
            let mut reasons = server.list_faults(running);
            let offered = running.tools.iter().filter(|tool| server.offers(&tool.name));
            reasons.extend(offered.filter_map(|tool| offer.add(server, tool, running).err()));
            let new = reasons.into_iter().filter(|reason| told.insert(format!("{}: {reason}", server.name)));
            faults.extend(new.map(|reason| fault(server, reason, false)));
        }
        faults
    }

    /// Lets the next offer start suspended servers again, and report their problems again.
    pub async fn try_again(&self) {
        let ServerSlots { slots, told } = &mut *self.state.lock().await;
        told.clear();
        slots.iter_mut().for_each(ServerSlot::try_again);
    }

    /// Returns the number of servers, and the number of running ones.
    pub async fn count(&self) -> (usize, usize) {
        let slots = &self.state.lock().await.slots;
        let running = slots.iter().filter_map(ServerSlot::running).filter(|server| server.is_running());
        (self.servers.len(), running.count())
    }

    /// Returns the names of the running servers, each with the tools that it offers, by their names at the server.
    pub async fn listed(&self) -> Vec<(String, Vec<String>)> {
        let slots = &self.state.lock().await.slots;
        let listed = self.servers.iter().zip(slots).filter_map(|(server, slot)| {
            let tools = slot.running()?.tools.iter().filter(|tool| server.offers(&tool.name));
            Some((server.name.clone(), tools.map(|tool| tool.name.clone()).collect()))
        });
        listed.collect()
    }

    /// Ends the servers and all processes that they started.
    pub async fn stop(&self) {
        let slots = &mut self.state.lock().await.slots;
        join_all(slots.iter_mut().map(|slot| slot.stop())).await;
    }
}

/// Returns the key of a server in the set of known problems.
fn server_key(number: usize) -> String {
    format!("server {number}")
}
