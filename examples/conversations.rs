//! A conversation with a name. It begins on one vendor, is forked, and continues on another vendor, which gets the same
//! messages.

mod stage;

use nexus::{ConversationOptions, Conversations, EventEnvelope, TurnEvent, TurnHost, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario};
use stage::{AnyError, Cast, Stage};

const ROUTES: &str = "
groups: { anthropic: [claude-cli], openai: [codex-cli] }
backends:
  claude-cli: {}
  codex-cli: { billing: metered, credential: { env: OPENAI_TOKEN } }
types: { writer: { group: anthropic }, reviewer: { group: openai } }
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let cast = Cast {
        claude: Scenario::text("Titan, Rhea and Iapetus."),
        codex: Scenario::new([Reply::text("Yes: by diameter, these are the three.")]),
        grok: Scenario::text("Yes."),
    };
    let stage = Stage::open("A conversation over two vendors.", cast)?;
    let router = stage.router(ROUTES)?;
    let conversations = Conversations::in_home(stage.workspace("conversations")?);

    let turns = [
        ("moons", "writer", "Name the three largest moons of Saturn."),
        ("moons-checked", "reviewer", "Is that right?"),
    ];
    for (name, kind, prompt) in turns {
        if name == "moons-checked" {
            conversations.fork(&"moons".parse()?, &name.parse()?, None)?;
        }
        let mut events = |envelope: EventEnvelope| {
            if let TurnEvent::Warning(warning) = envelope.event {
                println!("! {}", warning.text);
            }
        };
        let mut held = conversations.hold(&name.parse()?)?;
        let (request, options) = (TurnRequest::new(prompt), ConversationOptions::new());
        let turn = held.run_turn(&router, kind, request, TurnHost::new(), options, &mut events).await?;
        println!("{name} · {kind} < {prompt}\n{name} · {kind} > {}", turn.outcome?.text);
        turn.stored?;
    }
    for found in conversations.list()?.conversations {
        println!("{}: {} messages", found.name, found.messages);
    }
    Ok(())
}
