//! The MCP client of the `rmcp` crate.

use std::sync::Arc;

use nexus_backends::delegated::tools_door::ToolsDoor;
use rmcp::model::CallToolRequestParams;
use serde_json::json;

use super::party::{Deeds, beside, client, session};

#[tokio::test]
async fn lists_and_calls() {
    let deeds = Arc::new(Deeds::default());
    let session = session(&deeds);
    let mut door = ToolsDoor::open(Arc::clone(&session)).await.unwrap();
    let url = door.url();
    let work = async {
        let client = client(&url, session.token().expose()).await.unwrap();
        println!("{:?}", client.peer_info());
        let tools = client.list_all_tools().await.unwrap();
        println!("{}", serde_json::to_string_pretty(&tools).unwrap());
        let arguments = json!({ "a": 1, "b": 2 }).as_object().cloned().unwrap();
        let answer =
            client.call_tool(CallToolRequestParams::new("add").with_arguments(arguments)).await.unwrap();
        println!("{answer:?}");
        client.cancel().await.unwrap();
    };
    beside(&mut door, work).await;
    assert_eq!(deeds.called(), 1);
}
