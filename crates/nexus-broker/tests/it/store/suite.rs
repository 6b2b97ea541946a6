//! What holds of every store.

use std::{
    collections::BTreeSet,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use nexus_broker::{
    BrokerErrorKind, BrokerStore, DocumentKind, ExpectedRevision, LoggedEvent, MessagePriority, PutOutcome,
    QueueLimits,
};
use nexus_core::SystemClock;
use serde_json::json;
use tokio::task::JoinSet;

use super::kit::{
    Hands, LEASE, PATIENCE, Place, drain, id, kind, limits, message, take, warnings, with_priority,
};

/// A test of each function here, in a place that `$place` makes.
macro_rules! suite {
    ($place:expr $(, #[$attribute:meta])*) => {
        suite!(@ $place, [$(#[$attribute])*],
            highest_priority_first_and_in_order_within_one
            only_what_is_urgent_enough_is_given_out
            what_is_held_is_given_to_nobody_else
            a_lease_that_lapsed_is_given_out_again_and_cannot_finish
            a_lease_that_lapsed_is_its_holders_until_another_takes_the_message
            a_message_that_expired_while_it_was_held_is_its_holders_until_another_takes
            any_order_of_calls_has_one_holder_and_one_end
            a_lease_that_is_extended_is_kept
            a_clock_that_steps_back_neither_loses_nor_doubles
            what_is_handled_is_not_given_out_again
            finishing_twice_is_finishing_once
            what_came_of_a_message_is_put_with_its_end
            a_message_put_back_is_at_its_old_place
            an_id_is_known_for_as_long_as_it_is_to_be
            two_queues_know_one_id
            what_expired_is_passed_over_and_told_of
            a_full_queue_refuses
            what_expired_makes_room
            a_message_of_exactly_the_bound_is_taken
            names_and_ids_of_any_characters_stay_apart
            what_is_no_name_is_refused
            status_of_queues
            the_log_tells_all_in_order
            documents_are_written_by_compare_and_set
            eight_writers_lose_no_write
            eight_takers_never_hold_the_same
            waiting_ends_when_there_is_something
            waiting_ends_when_a_lease_lapses
            waiting_ends_in_time
            a_call_that_nobody_polls_keeps_up_no_other
            a_thousand_queues
            what_is_stored_is_there_when_it_is_opened_again
            a_message_that_cannot_be_read_is_set_aside_and_all_others_go_on
            a_message_that_expired_and_cannot_be_read_is_set_aside
            a_document_that_cannot_be_read_keeps_no_other_from_being_read
        );
    };
    (@ $place:expr, $attributes:tt, $($name:ident)*) => { $(suite!(@@ $place, $attributes, $name);)* };
    (@@ $place:expr, [$(#[$attribute:meta])*], $name:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$attribute])*
        async fn $name() {
            crate::store::suite::$name(&$place).await;
        }
    };
}
pub(crate) use suite;

async fn open(place: &dyn Place, clock: &Arc<Hands>) -> Arc<dyn BrokerStore> {
    place.open(QueueLimits::default(), clock.clone()).await
}

pub(crate) async fn highest_priority_first_and_in_order_within_one(place: &dyn Place) {
    use MessagePriority::{High, Low, Normal, Urgent};
    let clock = Hands::new();
    let store = open(place, &clock).await;
    for (index, priority) in [Normal, Low, Urgent, High, Normal, Urgent, Low, High].into_iter().enumerate() {
        let message = with_priority(&format!("m{index}"), priority, &*clock);
        assert_eq!(store.put("q", &message).await.unwrap(), PutOutcome::Stored);
    }
    let order = ["m2", "m5", "m3", "m7", "m0", "m4", "m1", "m6"];
    let waiting = store.waiting("q", 100).await.unwrap();
    assert_eq!(waiting.iter().map(id).collect::<Vec<_>>(), order);
    assert_eq!(store.waiting("q", 3).await.unwrap().len(), 3);
    assert_eq!(drain(&*store, "q").await, order);
    assert!(store.waiting("q", 100).await.unwrap().is_empty());
}

pub(crate) async fn only_what_is_urgent_enough_is_given_out(place: &dyn Place) {
    use MessagePriority::{High, Normal, Urgent};
    let clock = Hands::new();
    let store = open(place, &clock).await;
    store.put("q", &message("normal", &*clock)).await.unwrap();
    store.put("q", &with_priority("high", High, &*clock)).await.unwrap();
    assert!(store.take("q", Urgent, LEASE).await.unwrap().is_none());
    assert_eq!(id(&store.take("q", High, LEASE).await.unwrap().unwrap().envelope), "high");
    assert!(store.take("q", High, LEASE).await.unwrap().is_none());
    assert_eq!(id(&store.take("q", Normal, LEASE).await.unwrap().unwrap().envelope), "normal");
}

pub(crate) async fn what_is_held_is_given_to_nobody_else(place: &dyn Place) {
    let clock = Hands::new();
    let (one, other) = (open(place, &clock).await, open(place, &clock).await);
    one.put("q", &message("m", &*clock)).await.unwrap();
    let held = take(&*other, "q").await.unwrap();
    assert_eq!((held.deliveries, held.lease.queue.as_str()), (1, "q"));
    assert_eq!(held.envelope, message("m", &*clock));
    assert!(take(&*one, "q").await.is_none() && take(&*other, "q").await.is_none());
    assert!(take(&*one, "another").await.is_none());
    // Whoever has the lease finishes it, wherever.
    one.finish(&held.lease, &[]).await.unwrap();
    clock.turn(100 * 60_000);
    assert!(take(&*other, "q").await.is_none());
}

pub(crate) async fn a_lease_that_lapsed_is_given_out_again_and_cannot_finish(place: &dyn Place) {
    let clock = Hands::new();
    let (one, other) = (open(place, &clock).await, open(place, &clock).await);
    for name in ["first", "second"] {
        one.put("q", &message(name, &*clock)).await.unwrap();
    }
    let late = take(&*one, "q").await.unwrap();
    clock.turn(60_000);
    let answer = [("answers".to_owned(), message("late", &*clock))];
    let again = take(&*other, "q").await.unwrap();
    assert_eq!((id(&again.envelope).as_str(), again.deliveries), ("first", 2));
    assert_ne!(again.lease.receipt, late.lease.receipt);
    for store in [&one, &other] {
        assert_eq!(kind(store.finish(&late.lease, &answer).await), BrokerErrorKind::Conflict);
        assert_eq!(kind(store.put_back(&late.lease).await), BrokerErrorKind::Conflict);
        assert_eq!(kind(store.extend(&late.lease, LEASE).await), BrokerErrorKind::Conflict);
    }
    other.finish(&again.lease, &[]).await.unwrap();
    assert_eq!(kind(one.finish(&late.lease, &answer).await), BrokerErrorKind::Conflict);
    assert!(take(&*one, "answers").await.is_none());
    assert_eq!(drain(&*one, "q").await, ["second"]);
}

pub(crate) async fn a_lease_that_lapsed_is_its_holders_until_another_takes_the_message(place: &dyn Place) {
    // Forward as by a sleep, and back as by a clock that was wrong.
    for step in [5 * 60_000, 3 * 86_400_000, -86_400_000] {
        let clock = Hands::new();
        let (one, other) = (open(place, &clock).await, open(place, &clock).await);
        let queue = format!("q{step}");
        let names = ["extended", "finished", "back"].map(|name| format!("{name}{step}"));
        for name in &names {
            one.put(&queue, &message(name, &*clock)).await.unwrap();
        }
        let mut held = Vec::new();
        for _ in &names {
            held.push(take(&*one, &queue).await.unwrap());
        }
        clock.turn(step);
        // Looks at what waits show them, and change nothing.
        for store in [&one, &other] {
            assert_eq!(store.waiting(&queue, 10).await.unwrap().len(), 3, "{step}");
            let queues = store.queues().await.unwrap();
            let status = queues.iter().find(|status| status.queue == queue).unwrap();
            assert_eq!((status.waiting[1], status.taken), (3, 0), "{step}");
        }
        one.extend(&held[0].lease, LEASE).await.unwrap();
        let answer = [(format!("answers{step}"), message(&format!("answer{step}"), &*clock))];
        one.finish(&held[1].lease, &answer).await.unwrap();
        one.put_back(&held[2].lease).await.unwrap();
        assert_eq!(kind(one.extend(&held[2].lease, LEASE).await), BrokerErrorKind::Conflict);
        let again = take(&*other, &queue).await.unwrap();
        assert_eq!((id(&again.envelope), again.deliveries), (names[2].clone(), 2));
        assert!(take(&*other, &queue).await.is_none(), "{step}: what was extended is held");
        one.finish(&held[0].lease, &[]).await.unwrap();
        other.finish(&again.lease, &[]).await.unwrap();
        assert_eq!(drain(&*other, &format!("answers{step}")).await, [format!("answer{step}")]);
    }
}

pub(crate) async fn a_message_that_expired_while_it_was_held_is_its_holders_until_another_takes(
    place: &dyn Place,
) {
    let clock = Hands::new();
    let (one, other) = (open(place, &clock).await, open(place, &clock).await);
    for name in ["finished", "taken"] {
        let mut short = message(name, &*clock);
        short.expires_at = Some(clock.after(Duration::from_secs(30)));
        one.put("q", &short).await.unwrap();
    }
    let (finished, taken) = (take(&*one, "q").await.unwrap(), take(&*one, "q").await.unwrap());
    clock.turn(61_000);
    assert!(other.waiting("q", 10).await.unwrap().is_empty());
    let status = other.queues().await.unwrap();
    assert_eq!(
        status.iter().map(|status| status.waiting[1]).sum::<u64>(),
        2,
        "a broker is to take them: {status:?}"
    );
    one.finish(&finished.lease, &[]).await.unwrap();
    // It has expired for the next that takes.
    assert!(take(&*other, "q").await.is_none());
    assert_eq!(kind(one.finish(&taken.lease, &[]).await), BrokerErrorKind::Conflict);
    let log = other.log(0, 10).await.unwrap();
    let expired = log.iter().filter(|entry| entry.event == LoggedEvent::Expired);
    assert_eq!(expired.map(|entry| id(&entry.envelope)).collect::<Vec<_>>(), ["taken"]);
    assert!(other.queues().await.unwrap().is_empty());
}

/// Two holders, a clock that steps by minutes and days in both directions, and calls in an order of chance: only the last that took a message can
/// extend or finish it, whatever the time.
pub(crate) async fn any_order_of_calls_has_one_holder_and_one_end(place: &dyn Place) {
    let seed = nexus_testkit::effort::seed();
    let mut state = seed | 1;
    let mut chance = move |below: u64| {
        // Xorshift, so that a failure is repeated by its seed.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let clock = Hands::new();
    let stores = [open(place, &clock).await, open(place, &clock).await];
    for round in 0..20 {
        let (queue, name) = (format!("q{round}"), format!("m{round}"));
        stores[0].put(&queue, &message(&name, &*clock)).await.unwrap();
        let mut leases = Vec::new();
        // The lease that may act, as the contract has it.
        let (mut holder, mut is_ended) = (None, false);
        for step in 0..30 {
            let place = format!("seed {seed}, round {round}, step {step}");
            let store = &stores[usize::try_from(chance(2)).unwrap()];
            let which = (!leases.is_empty()).then(|| usize::try_from(chance(leases.len() as u64)).unwrap());
            match (chance(6), which) {
                (0, _) => {
                    if let Some(delivery) = take(&**store, &queue).await {
                        assert!(!is_ended, "{place}");
                        holder = Some(leases.len());
                        leases.push(delivery.lease);
                    }
                }
                (1, _) => {
                    let steps = [1_000, 61_000, 86_400_000, -86_400_000, -61_000];
                    clock.turn(steps[usize::try_from(chance(5)).unwrap()]);
                }
                (2, _) => drop(store.queues().await.unwrap()),
                (3, Some(which)) => {
                    let extended = store.extend(&leases[which], LEASE).await;
                    assert_eq!(extended.is_ok(), holder == Some(which) && !is_ended, "{place}: {extended:?}");
                }
                (4, Some(which)) if chance(3) == 0 => {
                    let finished = store.finish(&leases[which], &[]).await;
                    assert_eq!(finished.is_ok(), holder == Some(which), "{place}: {finished:?}");
                    is_ended |= finished.is_ok();
                }
                (5, Some(which)) if holder == Some(which) && !is_ended => {
                    store.put_back(&leases[which]).await.unwrap();
                    holder = None;
                }
                _ => {}
            }
        }
    }
}

pub(crate) async fn a_lease_that_is_extended_is_kept(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    let held = take(&*store, "q").await.unwrap();
    for _ in 0..3 {
        clock.turn(59_999);
        store.extend(&held.lease, LEASE).await.unwrap();
    }
    clock.turn(59_999);
    assert!(take(&*store, "q").await.is_none());
    store.finish(&held.lease, &[]).await.unwrap();
    assert_eq!(kind(store.extend(&held.lease, LEASE).await), BrokerErrorKind::Conflict);
    let month = Duration::from_secs(31 * 86_400);
    assert_eq!(kind(store.take("q", MessagePriority::Low, month).await), BrokerErrorKind::Invalid);
}

pub(crate) async fn a_clock_that_steps_back_neither_loses_nor_doubles(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    let held = take(&*store, "q").await.unwrap();
    // By less than the lease: it is held for somewhat longer.
    clock.turn(-50_000);
    assert!(take(&*store, "q").await.is_none());
    store.extend(&held.lease, LEASE).await.unwrap();
    // By a day: nobody waits for a day.
    clock.turn(-86_400_000);
    let again = take(&*store, "q").await.unwrap();
    assert_eq!(again.deliveries, 2);
    assert_eq!(kind(store.finish(&held.lease, &[]).await), BrokerErrorKind::Conflict);
    store.finish(&again.lease, &[]).await.unwrap();
    clock.turn(2 * 86_400_000);
    assert!(take(&*store, "q").await.is_none());
}

pub(crate) async fn what_is_handled_is_not_given_out_again(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    assert_eq!(drain(&*store, "q").await, ["m"]);
    assert_eq!(store.put("q", &message("m", &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    clock.turn(3_600_000);
    assert!(take(&*store, "q").await.is_none());
}

pub(crate) async fn finishing_twice_is_finishing_once(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    let held = take(&*store, "q").await.unwrap();
    let answer = [("answers".to_owned(), message("answer", &*clock))];
    store.finish(&held.lease, &answer).await.unwrap();
    // The answer to the first call was lost, say.
    store.finish(&held.lease, &answer).await.unwrap();
    clock.turn(600_000);
    store.finish(&held.lease, &answer).await.unwrap();
    assert_eq!(kind(store.put_back(&held.lease).await), BrokerErrorKind::Conflict);
    assert_eq!(drain(&*store, "answers").await, ["answer"]);
}

pub(crate) async fn what_came_of_a_message_is_put_with_its_end(place: &dyn Place) {
    let clock = Hands::new();
    let tight = limits(|limits| limits.max_waiting = 1);
    let (one, other) = (place.open(tight, clock.clone()).await, place.open(tight, clock.clone()).await);
    one.put("q", &message("m", &*clock)).await.unwrap();
    one.put("answers", &message("before", &*clock)).await.unwrap();
    let held = take(&*one, "q").await.unwrap();
    // One that is known, one beyond what the queue holds, and one for another queue.
    let outcome = [
        ("answers".to_owned(), message("before", &*clock)),
        ("answers".to_owned(), message("after", &*clock)),
        ("others".to_owned(), with_priority("more", MessagePriority::High, &*clock)),
    ];
    let wrong = [outcome[1].clone(), ("a\nb".to_owned(), message("no", &*clock))];
    assert_eq!(kind(one.finish(&held.lease, &wrong).await), BrokerErrorKind::Invalid);
    assert!(other.waiting("others", 10).await.unwrap().is_empty());
    one.finish(&held.lease, &outcome).await.unwrap();
    assert_eq!(other.waiting("others", 10).await.unwrap(), [outcome[2].1.clone()]);
    assert_eq!(drain(&*other, "answers").await, ["before", "after"]);
    assert!(take(&*other, "q").await.is_none());
    // More than comes of a message.
    let narrow = limits(|limits| limits.max_outcome_bytes = 10);
    let narrow = place.open(narrow, clock.clone()).await;
    narrow.put("q", &message("n", &*clock)).await.unwrap();
    let held = take(&*narrow, "q").await.unwrap();
    let much = [("answers".to_owned(), message("much", &*clock))];
    assert_eq!(kind(narrow.finish(&held.lease, &much).await), BrokerErrorKind::Invalid);
    narrow.finish(&held.lease, &[]).await.unwrap();
    assert!(take(&*narrow, "answers").await.is_none());
}

pub(crate) async fn a_message_put_back_is_at_its_old_place(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    for name in ["one", "two", "three", "four"] {
        store.put("q", &message(name, &*clock)).await.unwrap();
    }
    let (first, second, third) = (
        take(&*store, "q").await.unwrap(),
        take(&*store, "q").await.unwrap(),
        take(&*store, "q").await.unwrap(),
    );
    store.put_back(&third.lease).await.unwrap();
    store.put_back(&first.lease).await.unwrap();
    store.put_back(&first.lease).await.unwrap();
    assert_eq!(kind(store.finish(&first.lease, &[]).await), BrokerErrorKind::Conflict);
    assert_eq!(kind(store.extend(&first.lease, LEASE).await), BrokerErrorKind::Conflict);
    let again = take(&*store, "q").await.unwrap();
    assert_eq!((id(&again.envelope).as_str(), again.deliveries), ("one", 2));
    // It is another's now.
    assert_eq!(kind(store.put_back(&first.lease).await), BrokerErrorKind::Conflict);
    store.put_back(&again.lease).await.unwrap();
    assert_eq!(drain(&*store, "q").await, ["one", "three", "four"]);
    store.put_back(&second.lease).await.unwrap();
    assert_eq!(drain(&*store, "q").await, ["two"]);
}

pub(crate) async fn an_id_is_known_for_as_long_as_it_is_to_be(place: &dyn Place) {
    let clock = Hands::new();
    let hour = limits(|limits| limits.remembered_for = Duration::from_secs(3_600));
    let (one, other) = (place.open(hour, clock.clone()).await, place.open(hour, clock.clone()).await);
    one.put("q", &message("m", &*clock)).await.unwrap();
    assert_eq!(other.put("q", &message("m", &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    // Its time does not run before it is handled.
    clock.turn(10 * 3_600_000);
    other.put("q", &message("x", &*clock)).await.unwrap();
    assert_eq!(one.put("q", &message("m", &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    assert_eq!(drain(&*one, "q").await, ["m", "x"]);
    clock.turn(3_599_000);
    other.put("q", &message("y", &*clock)).await.unwrap();
    assert_eq!(other.put("q", &message("m", &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    assert_eq!(drain(&*one, "q").await, ["y"]);
    clock.turn(2_000);
    // What is forgotten is forgotten with what is put.
    other.put("q", &message("z", &*clock)).await.unwrap();
    other.put("q", &message("z2", &*clock)).await.unwrap();
    assert_eq!(one.put("q", &message("m", &*clock)).await.unwrap(), PutOutcome::Stored);
    assert_eq!(drain(&*other, "q").await, ["z", "z2", "m"]);
    let log = one.log(0, 100).await.unwrap();
    let told: Vec<_> = log.iter().map(|entry| id(&entry.envelope)).collect();
    assert_eq!(told, ["y", "z", "z2", "m"]);
}

pub(crate) async fn two_queues_know_one_id(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    assert_eq!(store.put("r", &message("m", &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    let urgent = with_priority("m", MessagePriority::Urgent, &*clock);
    assert_eq!(store.put("q", &urgent).await.unwrap(), PutOutcome::AlreadyThere);
    assert!(take(&*store, "r").await.is_none());
    assert_eq!(drain(&*store, "q").await, ["m"]);
    // Two at once, into two queues: one is stored.
    let (left, right) = (open(place, &clock).await, open(place, &clock).await);
    for number in 0..20 {
        let message = message(&format!("n{number}"), &*clock);
        let (a, b) = tokio::join!(left.put("left", &message), right.put("right", &message));
        assert_eq!([a.unwrap(), b.unwrap()].iter().filter(|put| **put == PutOutcome::Stored).count(), 1);
    }
    assert_eq!(drain(&*left, "left").await.len() + drain(&*left, "right").await.len(), 20);
}

pub(crate) async fn what_expired_is_passed_over_and_told_of(place: &dyn Place) {
    let clock = Hands::new();
    let (one, other) = (open(place, &clock).await, open(place, &clock).await);
    let mut short = message("short", &*clock);
    short.expires_at = Some(clock.after(Duration::from_secs(30)));
    let mut held = with_priority("held", MessagePriority::High, &*clock);
    held.expires_at = Some(clock.after(Duration::from_secs(30)));
    for message in [&short, &held, &message("long", &*clock)] {
        one.put("q", message).await.unwrap();
    }
    let delivery = take(&*one, "q").await.unwrap();
    assert_eq!(id(&delivery.envelope), "held");
    clock.turn(30_000);
    assert_eq!(other.waiting("q", 10).await.unwrap().len(), 1);
    assert_eq!(id(&take(&*other, "q").await.unwrap().envelope), "long");
    // Whoever has begun with one finishes it.
    one.finish(&delivery.lease, &[]).await.unwrap();
    let log = other.log(0, 100).await.unwrap();
    let told: Vec<_> = log.iter().map(|entry| (id(&entry.envelope), entry.event)).collect();
    let put = |name: &str| (name.to_owned(), LoggedEvent::Put);
    assert_eq!(told, [put("short"), put("held"), put("long"), ("short".to_owned(), LoggedEvent::Expired)]);
    assert_eq!(
        (log[3].at, log[3].queue.as_str(), &log[3].envelope),
        (clock.after(Duration::ZERO), "q", &short)
    );
    // It is not handled any more, and its id is known.
    assert_eq!(one.put("q", &short).await.unwrap(), PutOutcome::AlreadyThere);
    clock.turn(-30_000);
    assert!(take(&*one, "q").await.is_none());
}

pub(crate) async fn a_full_queue_refuses(place: &dyn Place) {
    let clock = Hands::new();
    let three = limits(|limits| limits.max_waiting = 3);
    let (one, other) = (place.open(three, clock.clone()).await, place.open(three, clock.clone()).await);
    for number in 0..3 {
        let store = if number % 2 == 0 { &one } else { &other };
        store.put("q", &message(&format!("m{number}"), &*clock)).await.unwrap();
    }
    for store in [&one, &other] {
        let urgent = with_priority("urgent", MessagePriority::Urgent, &*clock);
        let error = store.put("q", &urgent).await.unwrap_err();
        assert_eq!(error.kind, BrokerErrorKind::QueueFull);
        assert!(error.message.contains('q') && error.message.contains('3'), "{error}");
        // One that is there already is there also in a full queue.
        assert_eq!(store.put("q", &message("m1", &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    }
    other.put("another", &message("elsewhere", &*clock)).await.unwrap();
    let held = take(&*other, "q").await.unwrap();
    // It is held, not handled.
    assert_eq!(kind(one.put("q", &message("m3", &*clock)).await), BrokerErrorKind::QueueFull);
    other.finish(&held.lease, &[]).await.unwrap();
    one.put("q", &message("m3", &*clock)).await.unwrap();
    assert_eq!(kind(other.put("q", &message("m4", &*clock)).await), BrokerErrorKind::QueueFull);
    assert_eq!(drain(&*one, "q").await, ["m1", "m2", "m3"]);
}

pub(crate) async fn what_expired_makes_room(place: &dyn Place) {
    let clock = Hands::new();
    let store = place.open(limits(|limits| limits.max_waiting = 2), clock.clone()).await;
    for name in ["one", "two"] {
        let mut message = message(name, &*clock);
        message.expires_at = Some(clock.after(Duration::from_secs(1)));
        store.put("q", &message).await.unwrap();
    }
    assert_eq!(kind(store.put("q", &message("three", &*clock)).await), BrokerErrorKind::QueueFull);
    clock.turn(1_000);
    store.put("q", &message("three", &*clock)).await.unwrap();
    assert_eq!(drain(&*store, "q").await, ["three"]);
}

pub(crate) async fn a_message_of_exactly_the_bound_is_taken(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    let bound = QueueLimits::default().max_message_bytes;
    let mut largest = message("large", &*clock);
    let empty = serde_json::to_string(&largest).unwrap().len();
    let fill = |bytes: usize| serde_json::Value::from("x".repeat(bytes));
    // `,"fill":""`
    largest.other.insert("fill".to_owned(), fill(bound - empty - 10));
    assert_eq!(serde_json::to_string(&largest).unwrap().len(), bound);
    store.put("q", &largest).await.unwrap();
    let mut larger = message("larger", &*clock);
    larger.other.insert("fill".to_owned(), fill(bound - empty - 10));
    let error = store.put("q", &larger).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Invalid);
    assert!(error.message.contains(&bound.to_string()), "{error}");
    let held = take(&*store, "q").await.unwrap();
    assert_eq!(held.envelope, largest);
    // Three of them come of one, and no more.
    let outcome = |count: usize| -> Vec<_> {
        let one = |number| {
            let mut answer = largest.clone();
            answer.message_id = format!("lar{number}a").parse().unwrap();
            ("answers".to_owned(), answer)
        };
        (0..count).map(one).collect()
    };
    assert_eq!(kind(store.finish(&held.lease, &outcome(4)).await), BrokerErrorKind::Invalid);
    store.finish(&held.lease, &outcome(3)).await.unwrap();
    assert_eq!(drain(&*store, "answers").await, ["lar0a", "lar1a", "lar2a"]);
    // A key of ours among those that are not known would make a message that nobody can read.
    let mut twice = message("twice", &*clock);
    twice.other.insert("message_id".to_owned(), json!("another"));
    assert_eq!(kind(store.put("q", &twice).await), BrokerErrorKind::Invalid);
}

/// Texts that mean something to a server, a shell, a file system or SQL.
const ODD: [&str; 22] = [
    "a.b",
    "a.b.c",
    "*",
    ">",
    "a.*",
    "a.>",
    " ",
    "a b",
    "$JS.API.>",
    "_INBOX.x",
    "=",
    "=2E",
    "a=2Eb",
    "'",
    "\"",
    "%",
    "ä",
    "\u{202e}x",
    "../../x",
    "A",
    "a",
    "-- ; DROP TABLE message",
];

pub(crate) async fn names_and_ids_of_any_characters_stay_apart(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    let long = ["x".repeat(256), format!("{}y", "x".repeat(255)), "ä".repeat(128)];
    let all: Vec<&str> = ODD.iter().copied().chain(long.iter().map(String::as_str)).collect();
    for text in &all {
        assert_eq!(store.put(text, &message(text, &*clock)).await.unwrap(), PutOutcome::Stored, "{text:?}");
        store.write(DocumentKind::Lock, text, ExpectedRevision::Absent, &json!(text)).await.unwrap();
    }
    let mut queues: Vec<_> = store.queues().await.unwrap().into_iter().map(|status| status.queue).collect();
    queues.sort();
    let mut names = all.clone();
    names.sort_unstable();
    assert_eq!(queues, names);
    let documents = store.documents(DocumentKind::Lock).await.unwrap();
    assert_eq!(documents.iter().map(|document| document.key.as_str()).collect::<Vec<_>>(), names);
    for text in &all {
        assert_eq!(drain(&*store, text).await, [*text]);
        let document = store.document(DocumentKind::Lock, text).await.unwrap().unwrap();
        assert_eq!((document.key.as_str(), document.value), (*text, json!(text)));
        store.delete(DocumentKind::Lock, text, ExpectedRevision::Revision(document.revision)).await.unwrap();
    }
    assert!(store.documents(DocumentKind::Lock).await.unwrap().is_empty());
}

pub(crate) async fn what_is_no_name_is_refused(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    let (kind_of, envelope) = (DocumentKind::Agent, message("m", &*clock));
    for text in ["", "a\nb", "a\0", "\u{7f}", &"x".repeat(257)] {
        let refused = [
            kind(store.put(text, &envelope).await),
            kind(store.take(text, MessagePriority::Low, LEASE).await),
            kind(store.waiting(text, 1).await),
            kind(store.wait(text, PATIENCE).await),
            kind(store.document(kind_of, text).await),
            kind(store.write(kind_of, text, ExpectedRevision::Absent, &json!(1)).await),
            kind(store.delete(kind_of, text, ExpectedRevision::Anything).await),
        ];
        assert_eq!(refused, [BrokerErrorKind::Invalid; 7], "{text:?}");
    }
    let large = json!("x".repeat(512 << 10));
    assert_eq!(
        kind(store.write(kind_of, "k", ExpectedRevision::Absent, &large).await),
        BrokerErrorKind::Invalid
    );
    assert!(store.queues().await.unwrap().is_empty());
    assert!(store.documents(kind_of).await.unwrap().is_empty());
    // A lease that is none.
    store.put("q", &envelope).await.unwrap();
    let mut held = take(&*store, "q").await.unwrap().lease;
    for receipt in ["", "x", "0.0", "'", "18446744073709551615"] {
        held.receipt = receipt.to_owned();
        assert_eq!(kind(store.finish(&held, &[]).await), BrokerErrorKind::Conflict, "{receipt}");
        assert_eq!(kind(store.put_back(&held).await), BrokerErrorKind::Conflict);
    }
    held.message = "unknown".parse().unwrap();
    assert_eq!(kind(store.extend(&held, LEASE).await), BrokerErrorKind::Conflict);
}

pub(crate) async fn status_of_queues(place: &dyn Place) {
    use MessagePriority::{High, Low, Normal, Urgent};
    let clock = Hands::new();
    let store = open(place, &clock).await;
    assert!(store.queues().await.unwrap().is_empty());
    let oldest = message("first", &*clock);
    store.put("b", &oldest).await.unwrap();
    clock.turn(5_000);
    for (index, priority) in [Low, Normal, Normal, High, Urgent, Urgent].into_iter().enumerate() {
        store.put("b", &with_priority(&format!("m{index}"), priority, &*clock)).await.unwrap();
    }
    store.put("a", &message("other", &*clock)).await.unwrap();
    take(&*store, "b").await.unwrap();
    let held = take(&*store, "a").await.unwrap();
    let all = store.queues().await.unwrap();
    assert_eq!(all.iter().map(|status| status.queue.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((all[0].waiting, all[0].taken, all[0].oldest), ([0; 4], 1, None));
    assert_eq!((all[1].waiting, all[1].taken), ([1, 3, 1, 1], 1));
    assert_eq!(all[1].oldest, Some(oldest.timestamp));
    store.finish(&held.lease, &[]).await.unwrap();
    assert_eq!(store.queues().await.unwrap().len(), 1);
    clock.turn(60_000);
    assert_eq!(store.queues().await.unwrap()[0].waiting, [1, 3, 1, 2]);
}

pub(crate) async fn the_log_tells_all_in_order(place: &dyn Place) {
    let clock = Hands::new();
    let (one, other) = (open(place, &clock).await, open(place, &clock).await);
    assert!(one.log(0, 10).await.unwrap().is_empty());
    for number in 0..25 {
        let queue = format!("q{}", number % 3);
        one.put(&queue, &message(&format!("m{number}"), &*clock)).await.unwrap();
        one.put(&queue, &message(&format!("m{number}"), &*clock)).await.unwrap();
        let held = take(&*other, &queue).await.unwrap();
        if number % 2 == 0 {
            other.finish(&held.lease, &[]).await.unwrap();
        }
    }
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = other.log(after, 7).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 7 && page.iter().all(|entry| entry.number > after));
        assert!(page.is_sorted_by_key(|entry| entry.number));
        after = last.number;
        seen.extend(page.into_iter().map(|entry| (entry.queue, entry.envelope.message_id.to_string())));
    }
    let all: Vec<_> = (0..25).map(|number| (format!("q{}", number % 3), format!("m{number}"))).collect();
    assert_eq!(seen, all);
    assert!(other.log(u64::MAX, 10).await.unwrap().is_empty());
    assert!(other.log(0, 0).await.unwrap().is_empty());
}

pub(crate) async fn documents_are_written_by_compare_and_set(place: &dyn Place) {
    let clock = Hands::new();
    let (one, other) = (open(place, &clock).await, open(place, &clock).await);
    let (agent, key) = (DocumentKind::Agent, "k");
    assert_eq!(one.document(agent, key).await.unwrap(), None);
    let first = one.write(agent, key, ExpectedRevision::Absent, &json!({ "n": 1 })).await.unwrap();
    assert_eq!(
        kind(other.write(agent, key, ExpectedRevision::Absent, &json!(2)).await),
        BrokerErrorKind::Conflict
    );
    let second =
        other.write(agent, key, ExpectedRevision::Revision(first), &json!({ "n": 2 })).await.unwrap();
    assert!(second > first);
    for wrong in [first, second + 1, 0, u64::MAX] {
        let refused = one.write(agent, key, ExpectedRevision::Revision(wrong), &json!(3)).await;
        assert_eq!(kind(refused), BrokerErrorKind::Conflict, "{wrong}");
        assert_eq!(
            kind(one.delete(agent, key, ExpectedRevision::Revision(wrong)).await),
            BrokerErrorKind::Conflict
        );
    }
    assert_eq!(kind(one.delete(agent, key, ExpectedRevision::Absent).await), BrokerErrorKind::Conflict);
    let found = one.document(agent, key).await.unwrap().unwrap();
    assert_eq!((found.key.as_str(), found.revision, &found.value), (key, second, &json!({ "n": 2 })));
    let third = one.write(agent, key, ExpectedRevision::Anything, &json!(null)).await.unwrap();
    assert_eq!(other.document(agent, key).await.unwrap().unwrap().value, json!(null));
    // Kinds are apart.
    assert_eq!(one.document(DocumentKind::Trigger, key).await.unwrap(), None);
    one.write(DocumentKind::Trigger, key, ExpectedRevision::Absent, &json!("t")).await.unwrap();
    assert_eq!(other.documents(agent).await.unwrap().len(), 1);
    one.delete(agent, key, ExpectedRevision::Revision(third)).await.unwrap();
    assert_eq!(other.document(agent, key).await.unwrap(), None);
    one.delete(agent, key, ExpectedRevision::Anything).await.unwrap();
    one.delete(agent, key, ExpectedRevision::Absent).await.unwrap();
    // One that is written again has not the revision of the one that was there.
    let stale = other.write(agent, key, ExpectedRevision::Revision(third), &json!(0)).await;
    assert_eq!(kind(stale), BrokerErrorKind::Conflict);
    let fourth = other.write(agent, key, ExpectedRevision::Absent, &json!(4)).await.unwrap();
    assert!(fourth > third);
    assert_eq!(one.documents(DocumentKind::Trigger).await.unwrap()[0].value, json!("t"));
}

pub(crate) async fn eight_writers_lose_no_write(place: &dyn Place) {
    const TIMES: u64 = 25;
    let clock = Hands::new();
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let store = open(place, &clock).await;
        writers.spawn(async move {
            let mut written = 0;
            while written < TIMES {
                let found = store.document(DocumentKind::Lock, "count").await.unwrap();
                let (expected, count) = match found {
                    Some(found) => {
                        (ExpectedRevision::Revision(found.revision), found.value.as_u64().unwrap())
                    }
                    None => (ExpectedRevision::Absent, 0),
                };
                match store.write(DocumentKind::Lock, "count", expected, &json!(count + 1)).await {
                    Ok(_) => written += 1,
                    Err(error) => assert_eq!(error.kind, BrokerErrorKind::Conflict, "{error}"),
                }
            }
        });
    }
    writers.join_all().await;
    let store = open(place, &clock).await;
    let found = store.document(DocumentKind::Lock, "count").await.unwrap().unwrap();
    assert_eq!(found.value, json!(8 * TIMES));
}

pub(crate) async fn eight_takers_never_hold_the_same(place: &dyn Place) {
    const MESSAGES: usize = 200;
    let clock = Hands::new();
    let store = open(place, &clock).await;
    for number in 0..MESSAGES {
        store.put("q", &message(&format!("m{number}"), &*clock)).await.unwrap();
    }
    let mut takers = JoinSet::new();
    for _ in 0..8 {
        let (store, clock) = (open(place, &clock).await, clock.clone());
        takers.spawn(async move {
            let mut taken = Vec::new();
            while let Some(delivery) = take(&*store, "q").await {
                assert_eq!(delivery.deliveries, 1);
                let name = id(&delivery.envelope);
                let answer = [("answers".to_owned(), message(&format!("{name}-answer"), &*clock))];
                store.finish(&delivery.lease, &answer).await.unwrap();
                taken.push(name);
            }
            taken
        });
    }
    let taken: Vec<String> = takers.join_all().await.into_iter().flatten().collect();
    assert_eq!(taken.len(), MESSAGES);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), MESSAGES);
    let answers = drain(&*store, "answers").await;
    assert_eq!(answers.len(), MESSAGES);
    assert_eq!(answers.iter().collect::<BTreeSet<_>>().len(), MESSAGES);
}

pub(crate) async fn waiting_ends_when_there_is_something(place: &dyn Place) {
    let clock: Arc<SystemClock> = Arc::default();
    let one = place.open(QueueLimits::default(), clock.clone()).await;
    let other = place.open(QueueLimits::default(), clock.clone()).await;
    // By this store and by another, before and while it is waited for.
    for (number, putter) in [&one, &other].into_iter().cycle().take(6).enumerate() {
        let began = Instant::now();
        let message = message(&format!("m{number}"), &*clock);
        let put = async {
            if number % 3 > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            putter.put("q", &message).await.unwrap();
        };
        let waited = async {
            // It may return early.
            loop {
                one.wait("q", PATIENCE).await.unwrap();
                if let Some(delivery) = take(&*one, "q").await {
                    break delivery;
                }
            }
        };
        let ((), delivery) = tokio::join!(put, waited);
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        one.finish(&delivery.lease, &[]).await.unwrap();
    }
    // What is put back, and what comes of another.
    other.put("q", &message("back", &*clock)).await.unwrap();
    let held = take(&*other, "q").await.unwrap();
    let began = Instant::now();
    let (waited, back) = tokio::join!(one.wait("q", PATIENCE), other.put_back(&held.lease));
    waited.and(back).unwrap();
    let held = take(&*other, "q").await.unwrap();
    let answer = [("answers".to_owned(), message("answer", &*clock))];
    let (waited, finished) = tokio::join!(one.wait("answers", PATIENCE), other.finish(&held.lease, &answer));
    waited.and(finished).unwrap();
    assert!(began.elapsed() < PATIENCE);
}

pub(crate) async fn waiting_ends_when_a_lease_lapses(place: &dyn Place) {
    let store = place.open(QueueLimits::default(), Arc::new(SystemClock)).await;
    store.put("q", &message("m", &SystemClock)).await.unwrap();
    store.take("q", MessagePriority::Low, Duration::from_millis(200)).await.unwrap().unwrap();
    let began = Instant::now();
    let again = loop {
        store.wait("q", PATIENCE).await.unwrap();
        if let Some(again) = take(&*store, "q").await {
            break again;
        }
    };
    assert!(began.elapsed() < PATIENCE / 2);
    assert_eq!(again.deliveries, 2);
}

pub(crate) async fn waiting_ends_in_time(place: &dyn Place) {
    let store = open(place, &Hands::new()).await;
    let began = Instant::now();
    store.wait("q", Duration::from_millis(50)).await.unwrap();
    store.wait("q", Duration::ZERO).await.unwrap();
    assert!(began.elapsed() < PATIENCE / 2);
    // However long.
    let waited = tokio::time::timeout(Duration::from_millis(20), store.wait("q", Duration::MAX)).await;
    assert!(waited.is_err());
}

/// As in the branch of a `select!` whose other branch has a handler that also calls.
pub(crate) async fn a_call_that_nobody_polls_keeps_up_no_other(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    let mut left: Vec<_> = (0..20).map(|_| store.queues()).collect();
    std::future::poll_fn(|context| {
        for call in &mut left {
            let _ = call.as_mut().poll(context);
        }
        Poll::Ready(())
    })
    .await;
    let put = tokio::time::timeout(PATIENCE, store.put("q", &message("m", &*clock))).await;
    assert_eq!(put.expect("it is kept up").unwrap(), PutOutcome::Stored);
    drop(left);
    // One that is dropped while it waits is out of the way.
    assert_eq!(drain(&*store, "q").await, ["m"]);
}

pub(crate) async fn a_thousand_queues(place: &dyn Place) {
    const QUEUES: usize = 1_000;
    let clock = Hands::new();
    let store = open(place, &clock).await;
    for number in 0..QUEUES {
        store.put(&format!("agent:a{number}:main"), &message(&format!("m{number}"), &*clock)).await.unwrap();
    }
    assert_eq!(store.queues().await.unwrap().len(), QUEUES);
    // Waited for by all at once.
    let mut waiters = JoinSet::new();
    for number in 0..QUEUES {
        let store = Arc::clone(&store);
        waiters.spawn(async move {
            let queue = format!("agent:a{number}:main");
            let first = take(&*store, &queue).await.unwrap();
            store.finish(&first.lease, &[]).await.unwrap();
            loop {
                store.wait(&queue, PATIENCE).await.unwrap();
                if let Some(next) = take(&*store, &queue).await {
                    break id(&next.envelope) == format!("n{number}");
                }
            }
        });
    }
    let other = open(place, &clock).await;
    for number in 0..QUEUES {
        other.put(&format!("agent:a{number}:main"), &message(&format!("n{number}"), &*clock)).await.unwrap();
    }
    assert!(waiters.join_all().await.into_iter().all(|own| own));
}

pub(crate) async fn what_is_stored_is_there_when_it_is_opened_again(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    for name in ["held", "waiting", "handled"] {
        let priority = if name == "handled" { MessagePriority::High } else { MessagePriority::Normal };
        store.put("q", &with_priority(name, priority, &*clock)).await.unwrap();
    }
    let handled = take(&*store, "q").await.unwrap();
    store.finish(&handled.lease, &[]).await.unwrap();
    let held = take(&*store, "q").await.unwrap();
    store.write(DocumentKind::Agent, "a", ExpectedRevision::Absent, &json!(1)).await.unwrap();
    drop(store);
    let store = open(place, &clock).await;
    assert_eq!(id(&store.waiting("q", 10).await.unwrap()[0]), "waiting");
    assert_eq!(store.put("q", &message("handled", &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    store.finish(&held.lease, &[]).await.unwrap();
    assert_eq!(drain(&*store, "q").await, ["waiting"]);
    assert_eq!(store.document(DocumentKind::Agent, "a").await.unwrap().unwrap().value, json!(1));
    assert_eq!(store.log(0, 10).await.unwrap().len(), 3);
}

/// What a newer version wrote, say.
fn of_another_version(id: &str, clock: &Hands) -> String {
    let mut envelope = serde_json::to_value(message(id, clock)).unwrap();
    envelope["type"] = json!("gossip");
    envelope.to_string()
}

pub(crate) async fn a_message_that_cannot_be_read_is_set_aside_and_all_others_go_on(place: &dyn Place) {
    let clock = Hands::new();
    let hour = limits(|limits| {
        limits.remembered_for = Duration::from_secs(3_600);
        limits.max_waiting = 4;
    });
    let (one, other) = (place.open(hour, clock.clone()).await, place.open(hour, clock.clone()).await);
    // Other tests of this process warn, too.
    let names = ["newer", "cut"].map(|name| format!("{name}-{}", uuid::Uuid::new_v4().simple()));
    let (newer, cut) = (names[0].as_str(), names[1].as_str());
    warnings();
    one.put("q", &with_priority(newer, MessagePriority::Urgent, &*clock)).await.unwrap();
    one.put("q", &message(cut, &*clock)).await.unwrap();
    place.overwrite_message(newer, &of_another_version(newer, &clock)).await;
    place.overwrite_message(cut, r#"{"message_id"#).await;
    for name in ["a", "b"] {
        one.put("q", &message(name, &*clock)).await.unwrap();
    }
    let ids = |envelopes: &[nexus_broker::Envelope]| envelopes.iter().map(id).collect::<Vec<_>>();
    assert_eq!(ids(&other.waiting("q", 1).await.unwrap()), ["a"]);
    assert_eq!(ids(&other.waiting("q", 10).await.unwrap()), ["a", "b"]);
    let log = one.log(0, 2).await.unwrap();
    assert_eq!(log.iter().map(|entry| id(&entry.envelope)).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(drain(&*other, "q").await, ["a", "b"]);
    // They are where whoever looks for them finds them, and nobody waits for them.
    for store in [&one, &other] {
        let aside = store.set_aside(10).await.unwrap();
        assert_eq!(aside.len(), 2, "{aside:?}");
        let found = aside.iter().find(|aside| aside.message == newer).expect("it has its id");
        assert_eq!(found.queue, "q");
        assert!(found.problem.contains("gossip") && found.problem.contains(newer), "{found:?}");
        assert!(found.stored.contains("gossip"), "{found:?}");
        assert!(aside.iter().any(|aside| aside.stored == r#"{"message_id"#), "{aside:?}");
        assert_eq!(store.set_aside(1).await.unwrap().len(), 1);
        assert!(store.queues().await.unwrap().is_empty());
        assert!(take(&**store, "q").await.is_none());
    }
    let began = Instant::now();
    one.wait("q", Duration::from_millis(300)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(290), "there is nothing to take");
    assert!(warnings().iter().any(|line| line.contains(newer) && line.contains("gossip")), "{newer}");
    assert!(warnings().iter().filter(|line| line.contains(newer)).count() <= 4, "once by each store");
    // They take no room, and are not forgotten with what ended.
    assert_eq!(one.put("q", &message(newer, &*clock)).await.unwrap(), PutOutcome::AlreadyThere);
    clock.turn(2 * 3_600_000);
    for name in ["c", "d", "e", "f"] {
        other.put("q", &message(name, &*clock)).await.unwrap();
    }
    assert_eq!(drain(&*one, "q").await, ["c", "d", "e", "f"]);
    let fresh = place.open(hour, clock.clone()).await;
    assert_eq!(fresh.set_aside(10).await.unwrap().len(), 2);
    // Mended, it waits.
    place.overwrite_message(newer, &serde_json::to_string(&message(newer, &*clock)).unwrap()).await;
    let fresh = place.open(hour, clock.clone()).await;
    assert_eq!(drain(&*fresh, "q").await, [newer]);
    assert_eq!(fresh.set_aside(10).await.unwrap().len(), 1);
}

pub(crate) async fn a_message_that_expired_and_cannot_be_read_is_set_aside(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    let mut short = message("short", &*clock);
    short.expires_at = Some(clock.after(Duration::from_secs(30)));
    store.put("q", &short).await.unwrap();
    place.overwrite_message("short", "a JSON object").await;
    store.put("q", &message("m", &*clock)).await.unwrap();
    clock.turn(31_000);
    assert_eq!(drain(&*store, "q").await, ["m"]);
    assert!(store.queues().await.unwrap().is_empty());
    let log = store.log(0, 10).await.unwrap();
    assert_eq!(log.iter().map(|entry| id(&entry.envelope)).collect::<Vec<_>>(), ["m"]);
}

pub(crate) async fn a_document_that_cannot_be_read_keeps_no_other_from_being_read(place: &dyn Place) {
    let clock = Hands::new();
    let store = open(place, &clock).await;
    let key = format!("cut-{}", uuid::Uuid::new_v4().simple());
    warnings();
    for key in [key.as_str(), "whole"] {
        store
            .write(DocumentKind::Agent, key, ExpectedRevision::Absent, &json!({ "name": key }))
            .await
            .unwrap();
    }
    place.overwrite_agent(&key, r#"{"name": "#).await;
    let documents = store.documents(DocumentKind::Agent).await.unwrap();
    let values: Vec<_> = documents.iter().map(|document| (&*document.key, document.value.clone())).collect();
    assert_eq!(values, [(&*key, json!(r#"{"name": "#)), ("whole", json!({ "name": "whole" }))]);
    let found = store.document(DocumentKind::Agent, &key).await.unwrap().unwrap();
    assert_eq!(found, documents[0]);
    assert_eq!(warnings().iter().filter(|line| line.contains(&key)).count(), 1);
    let unreadable = nexus_broker::unreadable_records(&*store).await.unwrap();
    assert!(unreadable.iter().any(|error| error.message.contains(&key)), "{unreadable:?}");
    // It is written and deleted as any other.
    let expected = ExpectedRevision::Revision(found.revision);
    store.write(DocumentKind::Agent, &key, expected, &json!({})).await.unwrap();
    place.overwrite_agent(&key, "a JSON object").await;
    assert_eq!(
        kind(store.write(DocumentKind::Agent, &key, ExpectedRevision::Absent, &json!({})).await),
        BrokerErrorKind::Conflict
    );
    store.delete(DocumentKind::Agent, &key, ExpectedRevision::Anything).await.unwrap();
    assert_eq!(store.document(DocumentKind::Agent, &key).await.unwrap(), None);
}
