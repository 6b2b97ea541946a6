//! One client, used from several runtimes.

use std::sync::Arc;

use nexus_auth::http::ServerClient;
use tokio::runtime::{Builder, Runtime};

use super::stage::{Server, asked};

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn ask(client: &Arc<ServerClient>, server: &Server, runtime: &Runtime) {
    let answer = runtime.block_on(asked(client, &server.uri())).unwrap();
    assert_eq!(answer, (200, b"ok".to_vec()));
}

#[test]
fn a_runtime_that_is_gone_leaves_nothing_behind_that_harms() {
    let server = Server::keeping(ANSWER);
    let client = Arc::new(server.client());
    for _ in 0..3 {
        let runtime = runtime();
        ask(&client, &server, &runtime);
        ask(&client, &server, &runtime);
    }
}

#[test]
fn a_runtime_that_rests_holds_up_no_other() {
    let server = Server::keeping(ANSWER);
    let client = Arc::new(server.client());
    let (first, second) = (runtime(), runtime());
    for _ in 0..2 {
        ask(&client, &server, &first);
        ask(&client, &server, &second);
    }
    // Each has kept a connection of its own.
    assert_eq!(server.connections(), 2);
}
