//! A model behind any server that speaks the Responses API, by its URL: Ollama, vLLM, LM Studio, llama.cpp, or
//! one of your own.
//!
//!     cargo run --example local_model
//!     cargo run --example local_model -- http://127.0.0.1:11434/v1 qwen3
//!
//! The second form asks the server at that URL for that model; a key is read from `RESPONSES_API_KEY`, if it is
//! set.

mod stage;

use std::time::Duration;

use nexus::{BuildContext, Limits, Router, TurnHost, TurnRequest, registry};
use nexus_testkit::sim::{Dialect, Reply, Scenario};
use stage::{AnyError, Stage, show_turn_with};

const ABOUT: &str = "Asks a model behind any Responses server.\n\n\
     cargo run --example local_model [-- URL MODEL]\n\n\
     URL    such as http://127.0.0.1:11434/v1; without it, the embedded simulator answers\n\
     MODEL  the server's name for the model";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [url, model] if !url.starts_with('-') => ask(&BuildContext::from_process(), url, model).await,
        [] => {
            let stage = Stage::open_native(ABOUT, Dialect::Responses, part())?;
            ask(stage.context(), &stage.model_url(), "simulated").await
        }
        [flag] if flag == "--help" || flag == "-h" => {
            println!("{ABOUT}");
            Ok(())
        }
        _ => Err(format!("two arguments are needed, or none\n\n{ABOUT}").into()),
    }
}

async fn ask(context: &BuildContext, url: &str, model: &str) -> Result<(), AnyError> {
    let has_key = context.environment.contains_key("RESPONSES_API_KEY");
    let credential = if has_key { ", credential: { env: RESPONSES_API_KEY }" } else { "" };
    let yaml = format!(
        "groups: {{ local: [server] }}\n\
         backends: {{ server: {{ kind: responses, base_url: {url:?}{credential} }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: local, model: {{ exact: {model:?} }} }} }}\n"
    );
    println!("{yaml}");
    let router = Router::builder(registry(), context.clone()).from_str(&yaml)?;
    let request = TurnRequest::new("In three short sentences: why is the sky blue at noon and red at dusk?")
        .with_limits(Limits::new().with_deadline(Duration::from_secs(300)));
    show_turn_with(&router, "talker", request, TurnHost::new()).await?;
    Ok(())
}

/// What the simulated model says.
fn part() -> Scenario {
    let answer = "Air scatters short waves of light more than long ones. At noon the light's way through the air \
                  is short, and the blue that is scattered out of it comes to us from everywhere. At dusk the \
                  way is long: the blue is gone before it arrives, and the red is left.";
    Scenario::new([Reply::thinking("Rayleigh scattering, in plain words.")
        .and_text(answer)
        .paced(5, Duration::from_millis(30))])
}
