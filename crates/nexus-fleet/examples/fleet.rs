//! A turn that moves to other machines by one line: a NATS server, two workers and a caller, all on this one.
//!
//!     cargo run -p nexus-turn-fleet --example fleet
//!
//! It starts `nats-server`, from `NEXUS_REAL_NATS` or the search path; `real/servers/install` prints where one is. No login is needed:
//! the model is simulated.

use std::{
    error::Error,
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use nexus::{
    BuildContext, CancelToken, Fleet, FleetPools, FleetSettings, Router, TurnRequest, Worker, WorkerSettings,
    registry,
};
use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};

const ABOUT: &str = "Runs one turn here and, with one more line of configuration, in a pool of two workers.\n\n\
     cargo run -p nexus-turn-fleet --example fleet\n\n\
     It needs nats-server 2.11 or newer, in NEXUS_REAL_NATS or on the search path.";

/// Ended when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some() {
        println!("{ABOUT}");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (_server, url) = start_server(folder.path())?;
    println!("No login needed: the model is simulated, and the NATS server is at {url}.\n");
    let model = Sim::start(
        Dialect::Responses,
        Scenario::new([Reply::text("Dust scatters blue best.")]).per_conversation(),
    )?;
    let yaml = |pool: &str| {
        format!(
            "fleet: {{ servers: [{url:?}] }}\n\
             groups: {{ local: [model] }}\n\
             backends:\n  model: {{ kind: responses, base_url: {:?}, model: simulated{pool} }}\n\
             types: {{ talker: {{ tier: execution, phase: talk, group: local }} }}\n",
            model.base_url()
        )
    };

    // Two workers read the same configuration. `FleetPools::of_worker` runs the backends of their pool on this machine.
    let drain = CancelToken::new();
    let mut workers = Vec::new();
    for name in ["left", "right"] {
        let context = BuildContext::in_home(folder.path().join(name));
        let router = Router::from_str(
            &yaml(", pool: builders"),
            registry().with_pools(Arc::new(FleetPools::of_worker())),
            context,
        )?;
        let settings = FleetSettings {
            servers: vec![url.clone()],
            worker: WorkerSettings { name: Some(name.to_owned()), ..WorkerSettings::default() },
            ..FleetSettings::default()
        };
        let worker = Worker::connect(settings, "builders", router).await?;
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        workers.push(tokio::spawn(worker.run(drain.clone(), |_| ready.send(()).unwrap_or_default())));
        is_ready.await?;
    }

    for pool in ["", ", pool: builders"] {
        let yaml = yaml(pool);
        println!("--- {}", yaml.lines().find(|line| line.contains("kind:")).unwrap_or_default().trim());
        let context = BuildContext::in_home(folder.path().join("caller"));
        let router = Router::from_str(&yaml, registry().with_pools(Arc::new(FleetPools::new())), context)?;
        let result = router.run_text("talker", TurnRequest::new("Why is the sky blue?")).await?;
        println!("{}\n", result.text);
    }

    let settings = FleetSettings { servers: vec![url], ..FleetSettings::default() };
    // A worker announces itself every two seconds.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    for (name, worker) in &Fleet::new(settings)?.status().await?.pools["builders"].workers {
        let ran = if worker.mean_turn_milliseconds > 0 { "ran the second turn" } else { "ran none" };
        println!("the worker {name} {ran}");
    }
    drain.cancel();
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

fn start_server(folder: &std::path::Path) -> Result<(Server, String), Box<dyn Error>> {
    let program = std::env::var_os("NEXUS_REAL_NATS").unwrap_or_else(|| "nats-server".into());
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let started = Command::new(&program)
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(folder.join("store"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = match started {
        Ok(child) => Server(child),
        Err(error) => return Err(format!("{}: {error}\n\n{ABOUT}", program.display()).into()),
    };
    for _ in 0..200 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok((server, format!("nats://127.0.0.1:{port}")));
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    Err("the server does not answer".into())
}
