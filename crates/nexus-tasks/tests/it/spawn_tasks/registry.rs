//! Tiers and types of agents, kept in the home.

use nexus_tasks::{
    AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, TaskErrorKind, TierListRequest,
    TierRegisterRequest,
};
use nexus_work::agent::Surface;

use super::kit::{World, honest};

fn surveyor() -> AgentRegisterRequest {
    AgentRegisterRequest {
        name: "surveyor".to_owned(),
        tier: "research".to_owned(),
        phase: "survey".to_owned(),
        description: "Says what there is.".to_owned(),
        topics: vec!["layout".to_owned()],
        prompt: Some("Look first.".to_owned()),
        surface: Surface::only(["read_file".parse().unwrap(), "write_file".parse().unwrap()]),
    }
}

fn research() -> TierRegisterRequest {
    TierRegisterRequest {
        name: "research".to_owned(),
        like: "operations".to_owned(),
        surface: Surface::all(),
    }
}

#[tokio::test]
async fn what_is_registered_is_there_for_every_server_of_the_home() {
    let Some(world) = World::new(honest) else { return };
    let tier = world.tasks.tier_register(research()).await.unwrap();
    assert_eq!((tier.like.as_str(), tier.is_built_in), ("operations", false));
    let agent = world.tasks.agent_register(surveyor()).await.unwrap();
    assert_eq!(agent.tools, ["read_file", "submit_handoff"], "a surface takes away, and adds nothing");
    let other = world.another();
    let mut changed = surveyor();
    changed.surface = Surface::all();
    other.agent_register(changed).await.unwrap();
    let list = world.tasks.agent_list(AgentListRequest::default()).await.unwrap();
    assert_eq!(list.agents.len(), 5);
    assert!(list.agents[4].tools.len() > 2 && list.agents[4].has_prompt);
    assert_eq!(other.tier_list(TierListRequest::default()).await.unwrap().tiers.len(), 3);
    let remove = AgentRemoveRequest { name: "surveyor".to_owned() };
    assert_eq!(other.agent_remove(remove.clone()).await.unwrap().agents.len(), 4);
    assert_eq!(world.tasks.agent_remove(remove).await.unwrap_err().kind, TaskErrorKind::InvalidArgument);
}

#[tokio::test]
async fn names_that_are_taken_or_reserved_are_refused() {
    let Some(world) = World::new(honest) else { return };
    world.tasks.tier_register(research()).await.unwrap();
    for name in ["reviewer", "Reviewer", "cartographer", "advisory", "field"] {
        let request = AgentRegisterRequest { name: name.to_owned(), ..surveyor() };
        let error = world.tasks.agent_register(request).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::NameTaken, "{name}: {error}");
    }
    for (name, kind) in [("../x", TaskErrorKind::InvalidArgument), ("execution", TaskErrorKind::NameTaken)] {
        let error =
            world.tasks.tier_register(TierRegisterRequest { name: name.to_owned(), ..research() }).await;
        assert_eq!(error.unwrap_err().kind, kind);
    }
    let remove = AgentRemoveRequest { name: "executor".to_owned() };
    assert_eq!(world.tasks.agent_remove(remove).await.unwrap_err().kind, TaskErrorKind::NameTaken);
}

#[tokio::test]
async fn servers_that_register_at_once_lose_nothing() {
    let Some(world) = World::new(honest) else { return };
    world.tasks.tier_register(research()).await.unwrap();
    let mut registering = Vec::new();
    for number in 0..20 {
        let tasks = if number % 2 == 0 { world.tasks.clone() } else { world.another() };
        let name = format!(
            "kind{}",
            [
                "a", "b", "c", "d", "e", "f", "g", "h", "k", "m", "n", "p", "q", "r", "t", "u", "v", "w",
                "x", "y"
            ][number]
        );
        let request = AgentRegisterRequest { name, ..surveyor() };
        registering.push(tokio::spawn(async move { tasks.agent_register(request).await }));
    }
    for registered in registering {
        registered.await.unwrap().unwrap();
    }
    let (mut offset, mut count) = (0, 0);
    loop {
        let page = world.tasks.agent_list(AgentListRequest { offset }).await.unwrap();
        assert!(serde_json::to_vec(&page).unwrap().len() <= 9_000);
        count += page.agents.len();
        match page.next_offset {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(count, 24);
}

#[tokio::test]
async fn a_file_that_was_edited_is_named() {
    let Some(world) = World::new(honest) else { return };
    std::fs::create_dir_all(world.root.join("home")).unwrap();
    std::fs::write(world.root.join("home/agent-types.json"), "{").unwrap();
    let error = world.tasks.agent_list(AgentListRequest::default()).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::Damaged);
    assert!(error.message.contains("agent-types.json"), "{error}");
    assert!(world.tasks.agent_register(surveyor()).await.is_err());
    assert_eq!(std::fs::read_to_string(world.root.join("home/agent-types.json")).unwrap(), "{");
}
