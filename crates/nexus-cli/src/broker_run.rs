//! Runs the turns of a broker's agents, with its triggers, webhooks, callbacks and views.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use nexus::{CancelToken, harness::run_blocking};
use nexus_broker::{
    Broker, MemoryIndex, Views, line,
    trigger::{Scheduler, SchedulerSettings, WebhookServer, WebhookSettings},
};
use nexus_files::counted;

use crate::{
    broker_home::{self, BrokerHome, StoreChanges},
    broker_state::{BrokerEvent, LOOK_AGAIN, PAGE},
    callback::Callbacks,
    command_error::CommandError,
    conversation,
    output::{complain, printable, printable_lines},
};

/// Longest time between two updates of the views by their writer.
const SHOW_ANYWAY: Duration = Duration::from_secs(60);
/// Minimum pause between two updates of the output.
const SHOW_PAUSE: Duration = Duration::from_millis(500);

/// A run of a broker.
pub(crate) struct BrokerRun {
    pub(crate) broker: Broker,
    /// Index of all messages.
    pub(crate) memory: MemoryIndex,
    pub(crate) views: Views,
    /// Address of the listener for signed requests.
    pub(crate) webhooks: Option<SocketAddr>,
    /// Cancelled if no further message may be taken.
    pub(crate) drain: CancelToken,
    /// Cancelled to stop the running turns.
    pub(crate) end: CancelToken,
}

impl BrokerRun {
    /// Runs turns until `drain` is cancelled and the running turns have ended. `show` gets each event with its text for people.
    pub(crate) async fn until_drained(
        self,
        home: &BrokerHome,
        mut show: impl FnMut(BrokerEvent, String),
    ) -> Result<(), CommandError> {
        let Self { broker, memory, mut views, webhooks, drain, end } = self;
        // Adds messages that are older than the index, and removes deleted ones.
        let captured = run_blocking(move || memory.capture_all(&conversation::store())).await;
        if let Ok(Err(error)) = captured {
            complain(printable_lines(&error.to_string()));
        }
        // Messages from before the start are not shown.
        let mut seen = last_number(&broker).await?;
        let (agents, messages) = (home.settings.agents.len(), home.place());
        let text = format!("{}; messages are in {messages}", counted(agents, "agent"));
        show(BrokerEvent::Started { agents, messages }, text);
        let callbacks = Callbacks::of(&home.settings)?;
        let triggers = home.triggers(&broker);
        let scheduler = Scheduler::new(triggers.clone(), SchedulerSettings::default());
        let mut hooks = None;
        if let Some(address) = webhooks {
            let mut settings = WebhookSettings::default();
            settings.address = address;
            let server = WebhookServer::bind(triggers, broker_home::secrets(), settings).await;
            let server = server.map_err(|error| CommandError::failed(format_args!("{address}: {error}")))?;
            let url = format!("http://{}", server.address());
            let text = format!("webhooks are received at {url}");
            show(BrokerEvent::Webhooks { url }, text);
            let drained = drain.clone();
            hooks = Some(server.serve(async move { drained.cancelled().await }));
        }
        let serving = async move {
            if let Some(hooks) = hooks {
                hooks.await;
            }
        };
        // Runs as a separate task, so that it continues while this function reads the log.
        let mut running = tokio::spawn({
            let broker = broker.clone();
            async move {
                tokio::join!(
                    broker.run(drain.clone(), end),
                    scheduler.run(&drain),
                    callbacks.run(&broker, &drain),
                    serving
                )
            }
        });
        let (mut failing, mut changes) = (BTreeSet::new(), StoreChanges::of(&broker));
        loop {
            tokio::select! {
                ended = &mut running => {
                    ended.map_err(|error| {
                        CommandError::failed(format_args!("the broker ended with a panic: {error}"))
                    })?;
                    break;
                }
                () = changes.next(SHOW_PAUSE, if views.is_writer() { SHOW_ANYWAY } else { LOOK_AGAIN }) => {
                    let shown = show_new(&broker, &mut seen, &mut show).await.map_err(|error| error.to_string());
                    let refreshed = views.refresh(&broker).await.map_err(|error| error.to_string());
                    let failing_now: BTreeSet<String> =
                        [shown.err(), refreshed.err()].into_iter().flatten().collect();
                    // A failure that persists is reported once.
                    for failure in failing_now.difference(&failing) {
                        complain(printable_lines(failure));
                    }
                    failing = failing_now;
                }
            }
        }
        show_new(&broker, &mut seen, &mut show).await?;
        views.refresh(&broker).await?;
        Ok(())
    }
}

async fn last_number(broker: &Broker) -> Result<u64, CommandError> {
    let mut last = 0;
    loop {
        let page = broker.store().log(last, PAGE).await?;
        let Some(found) = page.last() else { return Ok(last) };
        last = found.number;
    }
}

async fn show_new(
    broker: &Broker,
    seen: &mut u64,
    show: &mut impl FnMut(BrokerEvent, String),
) -> Result<(), CommandError> {
    loop {
        let page = broker.store().log(*seen, PAGE).await?;
        for logged in &page {
            *seen = logged.number;
            show(BrokerEvent::message(logged), printable(&line(logged)));
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}
