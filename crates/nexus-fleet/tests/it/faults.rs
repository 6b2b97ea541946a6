//! Faults of workers, callers, servers and links, before real servers. Workers are processes of their own. Needs `NEXUS_REAL_NATS`.

mod place;
mod process;
mod turns;
mod work;

use std::time::Duration;

use nexus_testkit::nats::{NatsCluster, NatsServer};
use tokio::time::{Instant, sleep};

use self::{
    place::{Place, rounds, wait_until},
    turns::{Outcomes, begun, over},
    work::Job,
};
use crate::support::{
    proxy::{Direction, Proxy},
    relay::{Faults, Relay},
};

const SECOND: Duration = Duration::from_secs(1);
/// How long it may take until a caller knows that its worker is gone.
const KNOWN_WITHIN: Duration = Duration::from_secs(45);

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The processes that the tests below start. Without its variable it ends at once.
#[test]
fn role() {
    process::play();
}

/// Workers are killed at random moments, among them those between the delivery of a turn and its started key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn turns_of_killed_workers_are_run_by_others_unless_they_were_started() {
    let server = NatsServer::start().await;
    // A slow link makes the moments long that are to be hit.
    let proxy = Proxy::in_front_of(server.address()).await;
    let place = Place::new([server.url()]);
    let slow = place.at([proxy.url()]).with_files_of(&place);
    let mut workers = slow.workers(8, 4).await;
    proxy.delay(Direction::Both, milliseconds(30));
    let job = Job { events: 5, every: milliseconds(40), wait: milliseconds(200), calls: 0 };
    let turns = place.caller(job, 100 * SECOND).turns(rounds());
    let mut kills = 0;
    let mut waits = (0..).map(|index: u64| milliseconds(150 + index * 7_919 % 250));
    while begun(place.folder()) < rounds() * 9 / 10 && kills < 24 {
        sleep(waits.next().expect("without end")).await;
        let index = kills * 5 % workers.len();
        workers[index].kill();
        workers[index] = slow.worker(&format!("w{}", 8 + kills), 4);
        kills += 1;
    }
    let outcomes = Outcomes::of(&turns.join_all().await, place.folder());
    outcomes.print(&format!("{kills} workers killed among those that start turns"));
    outcomes.check();
    assert_eq!(outcomes.well + outcomes.failed("Crashed"), outcomes.turns, "{outcomes:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn turns_of_a_worker_that_is_killed_after_their_start_are_crashed_and_never_run_again() {
    let server = NatsServer::start().await;
    let place = Place::new([server.url()]);
    let mut workers = place.workers(8, rounds().div_ceil(8) + 1).await;
    let job = Job { events: 20, every: milliseconds(100), wait: 4 * SECOND, calls: 0 };
    let turns = place.caller(job, 90 * SECOND).turns(rounds());
    wait_until("all turns run", || begun(place.folder()) == rounds()).await;
    sleep(SECOND).await;
    let killed = Instant::now();
    workers.drain(..4).for_each(drop);
    workers.extend([place.worker("later", 16)]);
    let ran = turns.join_all().await;
    assert!(killed.elapsed() < KNOWN_WITHIN, "it took {:?}", killed.elapsed());
    let outcomes = Outcomes::of(&ran, place.folder());
    outcomes.print("killed after the start");
    outcomes.check();
    assert!(outcomes.failed("Crashed") > 0 && outcomes.well > 0, "{outcomes:#?}");
    assert_eq!(outcomes.well + outcomes.failed("Crashed"), outcomes.turns, "{outcomes:#?}");
}

/// A turn whose worker is gone reaches its deadline, or is dropped: neither keeps other turns waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn turns_of_a_killed_worker_end_with_their_deadlines_and_their_futures() {
    let server = NatsServer::start().await;
    let place = Place::new([server.url()]);
    let workers = place.workers(1, 16).await;
    let job = Job { events: 0, every: Duration::ZERO, wait: 100 * SECOND, calls: 0 };
    let turns = place.caller(job, 5 * SECOND).turns(12);
    wait_until("all turns run", || begun(place.folder()) == 12).await;
    drop(workers);
    let outcomes = Outcomes::of(&turns.join_all().await, place.folder());
    outcomes.print("killed, with a deadline of 5 s");

    let dropped = place.at([server.url()]);
    let _workers = dropped.workers(1, 16).await;
    let turns = dropped.caller(job, 100 * SECOND).turns(12);
    wait_until("all turns run", || begun(dropped.folder()) == 12).await;
    drop(_workers);
    let began = std::time::Instant::now();
    drop(turns);
    // Whoever drops a turn may wait for it; others may not.
    for _ in 0..20 {
        sleep(milliseconds(50)).await;
    }
    let took = began.elapsed();
    eprintln!(
        "12 turns of a killed worker dropped: the runtime was away for {:.1} s",
        took.as_secs_f64() - 1.0
    );
    outcomes.check();
    // 10 s for the worker, and on a busy machine as long for the turns that have not heard yet which worker has them.
    // One after the other they would take two minutes.
    assert!(took < 60 * SECOND, "{took:?}");
}

/// What is stored is delivered, though nothing that a worker says arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn stored_ends_are_delivered_though_their_workers_were_killed() {
    let server = NatsServer::start().await;
    let relay = Relay::in_front_of(server.address(), "nexus.event.").await;
    relay.set_faults(Faults { drop_every: 1, ..Faults::default() });
    let place = Place::new([server.url()]);
    let mut workers = place.workers(8, rounds().div_ceil(8) + 1).await;
    let job = Job { events: 5, every: milliseconds(100), wait: SECOND, calls: 0 };
    let turns = place.at([relay.url()]).with_files_of(&place).caller(job, 90 * SECOND).turns(rounds());
    wait_until("all turns are over", || over(place.folder()) == rounds()).await;
    sleep(2 * SECOND).await;
    let killed = Instant::now();
    workers.drain(..4).for_each(drop);
    workers.extend([place.worker("later", 16)]);
    let ran = turns.join_all().await;
    assert!(killed.elapsed() < KNOWN_WITHIN, "it took {:?}", killed.elapsed());
    let outcomes = Outcomes::of(&ran, place.folder());
    outcomes.print(&format!("killed after the end ({:?})", relay.counts()));
    outcomes.check();
    assert_eq!((outcomes.well, outcomes.without_events), (outcomes.turns, outcomes.turns), "{outcomes:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn turns_of_a_killed_caller_are_stopped_and_none_of_them_begins_later() {
    let server = NatsServer::start().await;
    let place = Place::new([server.url()]);
    // Places for half of them: the others wait.
    let places = rounds().div_ceil(16);
    let _workers = place.workers(8, places).await;
    let mut caller = place.calling_process(rounds());
    wait_until("all places are taken", || begun(place.folder()) == 8 * places).await;
    sleep(2 * SECOND).await;
    caller.kill();
    let killed = Instant::now();
    wait_until("the turns are stopped", || over(place.folder()) >= 8 * places).await;
    let took = killed.elapsed();
    sleep(3 * SECOND).await;
    let later = begun(place.folder()) - 8 * places;
    eprintln!(
        "caller killed: {} turns stopped within {:.1} s, {later} that waited began after it",
        8 * places,
        took.as_secs_f64()
    );
    assert!(took < KNOWN_WITHIN, "{took:?}");
    assert_eq!(later, 0, "turns that nobody waits for were begun");
}

/// The server is restarted in the middle of turns that run, that begin, and that are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_restarted_server_costs_no_turn() {
    for down in [milliseconds(300), 4 * SECOND, 12 * SECOND] {
        restart(down, true).await;
    }
}

/// As above, for longer than a worker's entry is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn workers_go_on_after_a_server_was_down_for_long() {
    restart(40 * SECOND, false).await;
}

async fn restart(down: Duration, costs_nothing: bool) {
    let server = NatsServer::start().await;
    let place = Place::new([server.url()]);
    let workers = place.workers(8, 4).await;
    let job = Job { events: 20, every: milliseconds(50), wait: milliseconds(500), calls: 1 };
    let caller = place.caller(job, 90 * SECOND);
    let turns = tokio::spawn(place::paced(caller.clone(), rounds(), milliseconds(40)));
    sleep(2 * SECOND).await;
    server.kill();
    sleep(down).await;
    server.restart().await;
    let outcomes = Outcomes::of(&turns.await.expect("no panic"), place.folder());
    outcomes.print(&format!("server down for {down:?}"));
    // What matters most: whether the workers still take turns.
    let after = tokio::spawn(place::named(caller, "after".to_owned(), 16)).await.expect("no panic");
    let after = Outcomes::of(&after, place.folder());
    after.print("    and afterwards");
    for worker in &workers {
        if let Some(ended) = worker.ended() {
            eprintln!("    {} returned by itself: {ended}", worker.name());
        }
    }
    place.keep_logs(&outcomes);
    outcomes.check();
    after.check();
    let ended: Vec<_> =
        workers.iter().filter(|worker| worker.ended().is_some()).map(|worker| worker.said()).collect();
    assert!(ended.is_empty(), "{} workers returned by themselves: {}", ended.len(), ended[0]);
    assert_eq!(after.well, after.turns, "{after:#?}");
    assert!(!costs_nothing || outcomes.well == outcomes.turns, "{outcomes:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_killed_leader_costs_no_turn() {
    let cluster = NatsCluster::start().await;
    let place = Place::new(cluster.urls()).with_replicas(3);
    let workers = place.workers(8, 4).await;
    let job = Job { events: 20, every: milliseconds(50), wait: milliseconds(500), calls: 1 };
    let caller = place.caller(job, 90 * SECOND);
    let turns = tokio::spawn(place::paced(caller.clone(), rounds(), milliseconds(80)));
    sleep(2 * SECOND).await;
    let leader = cluster.elected_leader_of(&format!("NEXUS_QUEUE_{}", place.pool())).await;
    cluster.kill(leader);
    sleep(10 * SECOND).await;
    cluster.restart(leader).await;
    let outcomes = Outcomes::of(&turns.await.expect("no panic"), place.folder());
    outcomes.print("leader of the queue killed");
    let after = tokio::spawn(place::named(caller, "after".to_owned(), 16)).await.expect("no panic");
    let after = Outcomes::of(&after, place.folder());
    after.print("    and afterwards");
    place.keep_logs(&outcomes);
    outcomes.check();
    after.check();
    let ended: Vec<_> =
        workers.iter().filter(|worker| worker.ended().is_some()).map(|worker| worker.said()).collect();
    assert!(ended.is_empty(), "{} workers returned by themselves: {}", ended.len(), ended[0]);
    assert_eq!((outcomes.well, after.well), (outcomes.turns, after.turns), "{outcomes:#?}");
}

/// Messages are lost, doubled and reordered on both ways, between callers and workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn lost_doubled_and_reordered_messages_are_repaired() {
    let server = NatsServer::start().await;
    let events = Relay::in_front_of(server.address(), "nexus.event.").await;
    let control = Relay::in_front_of(server.address(), "nexus.control.").await;
    let place = Place::new([server.url()]);
    let _workers = place.at([control.url()]).with_files_of(&place).workers(4, 8).await;
    let job = Job { events: 30, every: milliseconds(10), wait: milliseconds(100), calls: 2 };
    let faults = [
        ("each third lost", Faults { drop_every: 3, ..Faults::default() }),
        ("each second doubled", Faults { duplicate_every: 2, ..Faults::default() }),
        ("each third reordered", Faults { swap_every: 3, ..Faults::default() }),
        ("all three", Faults { drop_every: 5, duplicate_every: 3, swap_every: 4 }),
    ];
    let caller = place.at([events.url()]).with_files_of(&place).caller(job, 60 * SECOND);
    for (what, faults) in faults {
        events.set_faults(faults);
        control.set_faults(faults);
        let ran = tokio::spawn(place::named(caller.clone(), what.replace(' ', "-"), rounds()))
            .await
            .expect("no panic");
        let outcomes = Outcomes::of(&ran, place.folder());
        outcomes.print(&format!("messages, {what}"));
        outcomes.check();
        assert_eq!((outcomes.well, outcomes.without_events), (outcomes.turns, 0), "{outcomes:#?}");
    }
}

/// Links are slow, and cut again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn slow_links_and_cut_links_cost_no_turn() {
    let server = NatsServer::start().await;
    let (near, far) =
        (Proxy::in_front_of(server.address()).await, Proxy::in_front_of(server.address()).await);
    let place = Place::new([server.url()]);
    let workers = place.at([far.url()]).with_files_of(&place).workers(4, 8).await;
    near.delay(Direction::Both, milliseconds(20));
    far.delay(Direction::Both, milliseconds(20));
    let job = Job { events: 30, every: milliseconds(50), wait: milliseconds(100), calls: 2 };
    let caller = place.at([near.url()]).with_files_of(&place).caller(job, 80 * SECOND);
    let turns = tokio::spawn(place::paced(caller, rounds(), milliseconds(60)));
    for round in 0..6 {
        sleep(milliseconds(1_300)).await;
        if round % 2 == 0 { near.cut().await } else { far.cut().await }
    }
    let outcomes = Outcomes::of(&turns.await.expect("no panic"), place.folder());
    outcomes.print("links of 20 ms that are cut six times");
    place.keep_logs(&outcomes);
    outcomes.check();
    for worker in &workers {
        assert_eq!(worker.ended(), None, "{}", worker.said());
    }
    assert_eq!((outcomes.well, outcomes.without_events), (outcomes.turns, 0), "{outcomes:#?}");
}

/// Workers are paused for longer than their turns wait for them, and go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_worker_that_was_paused_runs_no_turn_twice_and_takes_turns_again() {
    let server = NatsServer::start().await;
    let proxy = Proxy::in_front_of(server.address()).await;
    let place = Place::new([server.url()]);
    let slow = place.at([proxy.url()]).with_files_of(&place);
    let paused = slow.workers(4, 8).await;
    proxy.delay(Direction::Both, milliseconds(60));
    let job = Job { events: 10, every: milliseconds(50), wait: milliseconds(300), calls: 0 };
    let caller = place.caller(job, 80 * SECOND);
    let turns = caller.turns(rounds());
    // Some turns run then, and some are on their way.
    wait_until("some turns run", || begun(place.folder()) >= rounds() / 8).await;
    paused.iter().for_each(|worker| worker.pause());
    let since = Instant::now();
    let others: Vec<_> = (0..4).map(|index| place.worker(&format!("other{index}"), 8)).collect();
    sleep(36 * SECOND).await;
    paused.iter().for_each(|worker| worker.resume());
    let ran = turns.join_all().await;
    sleep(2 * SECOND).await;
    let outcomes = Outcomes::of(&ran, place.folder());
    outcomes.print(&format!("workers paused ({:.0} s)", since.elapsed().as_secs_f64()));
    // The others leave: those that were paused take the turns.
    drop(others);
    let after = tokio::spawn(place::named(caller, "after".to_owned(), 16)).await.expect("no panic");
    let after = Outcomes::of(&after, place.folder());
    after.print("    and afterwards");
    place.keep_logs(&outcomes);
    outcomes.check();
    after.check();
    assert_eq!(outcomes.well + outcomes.failed("Crashed"), outcomes.turns, "{outcomes:#?}");
    let ended: Vec<_> =
        paused.iter().filter(|worker| worker.ended().is_some()).map(|worker| worker.said()).collect();
    assert!(ended.is_empty(), "{} workers returned by themselves: {}", ended.len(), ended[0]);
    assert_eq!(after.well, after.turns, "{after:#?}");
}

/// Effects are stored before they are told: calls do not wait for more than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real nats-server"]
async fn a_tool_call_takes_no_longer_than_its_way() {
    let server = NatsServer::start().await;
    let place = Place::new([server.url()]);
    let _workers = place.workers(1, 8).await;
    let job = Job { events: 1, every: milliseconds(0), wait: Duration::ZERO, calls: 40 };
    let ran = place.caller(job, 60 * SECOND).turns(8).join_all().await;
    let outcomes = Outcomes::of(&ran, place.folder());
    outcomes.print("forty calls each");
    place.keep_logs(&outcomes);
    outcomes.check();
    let longest = ran.iter().map(|ran| ran.took).max().unwrap_or_default();
    // A second each would be noticed.
    assert!(longest < 30 * SECOND, "{longest:?}");
}
