//! One measurement of one client, in a process of its own, so that no client finds what another left behind.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::future::join_all;

use super::contender::{Contender, Entry};
use super::measure::{forget_peak, monotonic_ns, processor_ns, resident};
use super::script::{Scenario, text_bytes};

/// The argument that makes this program carry out one job.
pub(crate) const JOB: &str = "--job";

/// What a job found, by name; nanoseconds or bytes.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Carries out `job NAME CLIENT ADDRESS SCENARIO COUNT` and prints the figures as one line of JSON.
pub(crate) fn run(entries: &[Entry], arguments: &[String]) -> ExitCode {
    let [name, client, address, scenario, count] = arguments else {
        eprintln!("a job has a name, a client, an address, a scenario and a count");
        return ExitCode::from(2);
    };
    let entry = entries.iter().find(|entry| entry.name == client).expect("a client of this name");
    let job = Job {
        entry: *entry,
        address: address.clone(),
        scenario: scenario.parse().expect("a scenario"),
        count: count.parse().expect("a count"),
    };
    let name = name.clone();
    // Every client here was built with TLS and without a provider for it. None of them needs one.
    rustls::crypto::ring::default_provider().install_default().expect("the first provider");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // A task, as turns are in a program that has more to do than one. The future that a runtime blocks on would look
    // for changes of its sockets and timers between any two events, which is more than the reading of an event takes.
    let task = runtime.spawn(async move {
        match name.as_str() {
            "read" => job.read().await,
            "stream" => job.stream().await,
            "latency" => job.latency().await,
            "tool-loop" => job.tool_loop().await,
            "held" => job.held().await,
            "flood" => job.flood().await,
            _ => panic!("there is no job {name:?}"),
        }
    });
    let figures = runtime.block_on(task).expect("figures");
    let fields: Vec<String> = figures.iter().map(|(name, figure)| format!("{name:?}:{figure}")).collect();
    println!("{{{}}}", fields.join(","));
    // Without unwinding what the job holds: what is alive now is what was measured.
    std::process::exit(0)
}

struct Job {
    entry: Entry,
    address: String,
    scenario: Scenario,
    /// How often, or how many at once.
    count: usize,
}

impl Job {
    fn client(&self, scenario: Scenario) -> Box<dyn Contender> {
        (self.entry.make)(&format!("http://{}/{scenario}/v1", self.address))
    }

    /// One stream, or `count` loops, and nothing else, for a program that watches this one. Reads no clock: Valgrind does not
    /// bear that of `rustix`.
    async fn read(&self) -> Figures {
        match self.scenario {
            Scenario::Stream { deltas, .. } => read_stream(&*self.client(self.scenario), deltas).await,
            _ => {
                let client = self.client(self.scenario);
                for _ in 0..self.count {
                    client.tool_loop(&mut 0).await;
                }
            }
        }
        Figures::new()
    }

    /// Processor time of one stream, after `count` short ones.
    async fn stream(&self) -> Figures {
        let Scenario::Stream { deltas, framing, fields } = self.scenario else {
            panic!("a stream is asked for")
        };
        for _ in 0..self.count {
            read_stream(&*self.client(Scenario::Stream { deltas: 100, framing, fields }), 100).await;
        }
        let client = self.client(self.scenario);
        let (wall, processor) = (monotonic_ns(), processor_ns());
        read_stream(&*client, deltas).await;
        figures([
            ("processor", (processor_ns() - processor) as f64),
            ("wall", (monotonic_ns() - wall) as f64),
        ])
    }

    /// From the moment at which the server sent a delta to that at which the client shows it.
    async fn latency(&self) -> Figures {
        let client = self.client(self.scenario);
        let mut delays = Vec::new();
        client
            .stream(&mut |text| {
                let now = monotonic_ns();
                if let Ok(sent) = text.parse::<u64>() {
                    delays.push(now.saturating_sub(sent));
                }
            })
            .await;
        let Scenario::Paced { deltas, .. } = self.scenario else { panic!("a paced stream is asked for") };
        assert_eq!(delays.len(), deltas, "{}: each delta is shown by itself", self.entry.name);
        // The first ones find cold caches.
        let mut delays = delays.split_off(deltas / 10);
        delays.sort_unstable();
        let at = |share: usize| delays[(delays.len() * share / 100).min(delays.len() - 1)] as f64;
        figures([("p50", at(50)), ("p99", at(99))])
    }

    /// Time of one tool round: the median over `count` loops, after one.
    async fn tool_loop(&self) -> Figures {
        let (Scenario::ToolRounds { rounds } | Scenario::Recorded { rounds }) = self.scenario else {
            panic!("tool rounds are asked for")
        };
        let client = self.client(self.scenario);
        let (mut walls, mut processors) = (Vec::new(), Vec::new());
        for _ in 0..=self.count {
            let (wall, processor, mut calls) = (Instant::now(), processor_ns(), 0);
            client.tool_loop(&mut calls).await;
            assert_eq!(calls, rounds, "{}: every call is answered", self.entry.name);
            walls.push(wall.elapsed().as_nanos() as u64 / (rounds as u64 + 1));
            processors.push((processor_ns() - processor) / (rounds as u64 + 1));
        }
        let median = |times: Vec<u64>| {
            // The first loop opens the connection.
            let mut times = times.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&times).to_vec();
            times.sort_unstable();
            times[times.len() / 2] as f64
        };
        figures([("wall", median(walls)), ("processor", median(processors))])
    }

    /// Memory of `count` streams that are open at once and have shown eight pieces each.
    async fn held(&self) -> Figures {
        let warm = Scenario::ToolRounds { rounds: 0 };
        self.client(warm).stream(&mut |_| {}).await;
        let client = self.client(Scenario::Held);
        let (shown, done) = (AtomicUsize::new(0), tokio::sync::Notify::new());
        let before = resident().0;
        let mut streams = Box::pin(join_all((0..self.count).map(|_| async {
            let mut on_delta = |_: &str| {
                if shown.fetch_add(1, Ordering::Relaxed) + 1 == self.count * 8 {
                    done.notify_one();
                }
            };
            client.stream(&mut on_delta).await;
        })));
        tokio::select! {
            _ = &mut streams => panic!("a held stream does not end"),
            () = done.notified() => {}
        }
        let figures = per_stream("resident", resident().0, before, self.count);
        // They are open until the process ends: what looks at its heap from outside sees them.
        std::mem::forget(streams);
        figures
    }

    /// Peak of memory, and processor time of each, while `count` streams are read at once, as fast as they come.
    async fn flood(&self) -> Figures {
        let Scenario::Stream { deltas, framing, fields } = self.scenario else {
            panic!("a stream is asked for")
        };
        read_stream(&*self.client(Scenario::Stream { deltas: 100, framing, fields }), 100).await;
        let client: Arc<dyn Contender> = self.client(self.scenario).into();
        forget_peak();
        let (before, processor) = (resident().0, processor_ns());
        // A task each, as turns are that know nothing of one another.
        let read = |client: Arc<dyn Contender>| async move { read_stream(&*client, deltas).await };
        let tasks: Vec<_> = (0..self.count).map(|_| tokio::spawn(read(client.clone()))).collect();
        for task in tasks {
            task.await.expect("the whole stream");
        }
        let processor = (processor_ns() - processor) as f64 / self.count as f64;
        let mut figures = per_stream("peak", resident().1, before, self.count);
        figures.insert("processor".to_owned(), processor);
        figures
    }
}

/// Reads one stream and checks that nothing of it was left out.
async fn read_stream(client: &dyn Contender, deltas: usize) {
    let mut bytes = 0;
    client.stream(&mut |text| bytes += text.len()).await;
    assert_eq!(bytes, text_bytes(deltas), "the whole text is shown");
}

fn per_stream(name: &str, after: u64, before: u64, count: usize) -> Figures {
    figures([(name, after.saturating_sub(before) as f64 / count as f64)])
}

fn figures<const N: usize>(figures: [(&str, f64); N]) -> Figures {
    figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
}
