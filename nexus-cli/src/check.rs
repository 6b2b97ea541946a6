//! `nexus check`: what the configuration says, and whether the backends could start.

use std::process::ExitCode;

use nexus::Availability;
use serde_json::json;

use crate::{EXIT_FAILED, args::ConfigArgs, config};

pub(crate) async fn check(args: &ConfigArgs, probe: bool, as_json: bool) -> Result<ExitCode, String> {
    let router = config::load(args)?;
    let kinds = router.kinds();
    let mut backends = Vec::new();
    for (id, backend) in router.backends() {
        let availability = if probe { Some(backend.probe().await) } else { None };
        backends.push((id, availability));
    }
    if as_json {
        let backends =
            backends.iter().map(|(id, availability)| json!({ "id": id, "availability": availability }));
        let report = json!({ "kinds": kinds, "backends": backends.collect::<Vec<_>>() });
        println!("{report:#}");
    } else {
        println!("work-kinds  {}", kinds.join(", "));
        for (id, availability) in &backends {
            println!("backend     {id}{}", availability.as_ref().map(words).unwrap_or_default());
        }
    }
    let is_stuck =
        probe && !backends.iter().any(|(_, found)| found.as_ref().is_some_and(Availability::is_ready));
    Ok(if is_stuck { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn words(availability: &Availability) -> String {
    match availability {
        Availability::Ready { version, notes } => {
            let version = version.as_deref().unwrap_or("version not told");
            let notes: String = notes.iter().map(|note| format!("\n            {note}")).collect();
            format!("  ready ({version}){notes}")
        }
        Availability::NotInstalled { looked_in, remedy } => {
            let places = looked_in.iter().map(|place| place.display().to_string()).collect::<Vec<_>>();
            format!("  not installed: {remedy}\n            looked in {}", places.join(", "))
        }
        Availability::Unauthenticated { remedy } => format!("  not logged in: {remedy}"),
        Availability::Unusable { reason } => format!("  cannot be used: {reason}"),
        other => format!("  {other:?}"),
    }
}
