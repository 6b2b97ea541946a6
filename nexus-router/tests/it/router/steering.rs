//! What is said to a running turn, over the backends of a chain.

use std::sync::{Arc, Mutex};

use nexus_core::{
    ErrorKind, EventEnvelope, FinishReason, InputDelivery, NotDelivered, SentInput, Steering, Support,
    TurnEvent, TurnHost, TurnRequest, harness::Failure, turn::InputReceived,
};
use nexus_testkit::scripted::{ScriptedEnd, ScriptedTurn};

use super::support::{answering, chain, router, scripted};

/// What a backend does in a turn: it sends this to itself, takes so much of what waits, and fails or answers.
#[derive(Clone, Copy)]
struct Part {
    says: &'static [&'static str],
    takes: usize,
    fails: bool,
}

impl Part {
    async fn perform(
        self,
        turn: &mut ScriptedTurn<'_>,
        steering: Steering,
        sent: Arc<Mutex<Vec<SentInput>>>,
    ) -> ScriptedEnd {
        sent.lock().unwrap().extend(self.says.iter().map(|text| steering.send(*text)));
        for _ in 0..self.takes {
            let text = turn.input.take().expect("an input").delivered();
            turn.event(InputReceived::new(text));
        }
        if self.fails {
            // What is taken and not delivered goes back.
            let _taken = turn.input.take();
            return Err(Failure::new(ErrorKind::Overloaded, "no"));
        }
        turn.say("It is done.");
        Ok((FinishReason::Stop, None))
    }
}

/// What the senders are told of a turn over these, what the last one was asked, and what was told as received.
async fn run(parts: [(Part, Support); 2]) -> (Vec<Option<InputDelivery>>, String, Vec<String>) {
    let steering = Steering::new();
    let sent = Arc::<Mutex<Vec<SentInput>>>::default();
    let [alpha, beta] = [("alpha", 0), ("beta", 1)].map(|(id, at)| {
        let (part, support) = parts[at];
        let (steering, sent) = (steering.clone(), Arc::clone(&sent));
        let backend =
            scripted(id, move |turn| Box::pin(part.perform(turn, steering.clone(), Arc::clone(&sent))));
        Arc::new(backend.capable(|capabilities| capabilities.steering = support))
    });
    let router = router(&chain("alpha, beta"), &[&alpha, &beta]);
    let mut received = Vec::new();
    let mut sink = |envelope: EventEnvelope| {
        if let TurnEvent::InputReceived(input) = envelope.event {
            received.push(input.text);
        }
    };
    let host = TurnHost::new().with_steering(steering);
    router.run_turn("work", TurnRequest::new("Do it."), host, &mut sink).await.unwrap();
    let sent: Vec<SentInput> = std::mem::take(&mut *sent.lock().unwrap());
    let told = sent.into_iter().map(futures::FutureExt::now_or_never).collect();
    (told, beta.last().prompt_text(), received)
}

const ANSWERS: Part = Part { says: &[], takes: 0, fails: false };

#[tokio::test]
async fn what_a_failed_backend_had_taken_is_told_to_the_next_and_what_waits_reaches_it() {
    let fails = Part { says: &["a", "b", "c"], takes: 1, fails: true };
    let goes_on = Part { takes: 2, ..ANSWERS };
    let (told, prompt, received) = run([(fails, Support::Yes), (goes_on, Support::Yes)]).await;
    assert_eq!(told, [Some(InputDelivery::Delivered); 3]);
    assert_eq!(prompt, "Do it.\n\na");
    assert_eq!(received, ["a", "b", "c"]);
}

#[tokio::test]
async fn what_nobody_took_is_not_delivered() {
    let fails = Part { says: &["a"], takes: 0, fails: true };
    let (told, prompt, received) = run([(fails, Support::Yes), (ANSWERS, Support::Yes)]).await;
    assert_eq!(told, [Some(InputDelivery::NotDelivered(NotDelivered::TurnEnded))]);
    assert_eq!((prompt.as_str(), received.len()), ("Do it.", 0));
}

#[tokio::test]
async fn what_waits_is_refused_by_the_next_if_it_cannot_be_steered() {
    let fails = Part { says: &["a"], takes: 0, fails: true };
    let deaf = Part { says: &["b"], ..ANSWERS };
    let (told, _, _) = run([(fails, Support::Yes), (deaf, Support::No)]).await;
    assert_eq!(told, [Some(InputDelivery::NotDelivered(NotDelivered::Unsupported)); 2]);
}

#[tokio::test]
async fn a_turn_that_goes_nowhere_has_an_end_as_well() {
    let steering = Steering::new();
    let sent = steering.send("a");
    let router = router(&chain("alpha"), &[&answering("alpha")]);
    let host = TurnHost::new().with_steering(steering.clone());
    let mut unwatched = |_: EventEnvelope| {};
    router.run_turn("nothing", TurnRequest::new("Do it."), host, &mut unwatched).await.unwrap_err();
    assert_eq!(sent.await, InputDelivery::NotDelivered(NotDelivered::TurnEnded));
    assert!(steering.is_over());
}
