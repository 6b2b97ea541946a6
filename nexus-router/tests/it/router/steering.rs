//! What is said to a running turn, over the backends of a chain.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, Capabilities, ErrorKind, EventEnvelope, EventSink, ExecutionBackend,
    FinishReason, ForgetError, Forgotten, InputDelivery, NotDelivered, ResumeHandle, SentInput, Steering,
    Support, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
    harness::{Failure, RunningTurn},
    turn::MessageEnded,
};
use nexus_router::Router;

use super::support::{Fake, builder, capabilities, chain, router};

/// What a backend does in a turn: it sends this to itself, takes so much of what waits, and fails or answers.
struct Part {
    says: &'static [&'static str],
    takes: usize,
    fails: bool,
}

struct Steered {
    id: BackendId,
    steering: Steering,
    support: Support,
    part: Part,
    sent: Arc<Mutex<Vec<SentInput>>>,
    prompt: Arc<Mutex<String>>,
}

impl std::fmt::Debug for Steered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Steered")
    }
}

#[async_trait]
impl ExecutionBackend for Steered {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = capabilities();
        capabilities.steering = self.support;
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let steered = host.steered(self.support);
        let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
        *self.prompt.lock().unwrap() = turn.request.prompt_text();
        let sent = self.part.says.iter().map(|text| self.steering.send(*text));
        self.sent.lock().unwrap().extend(sent);
        for _ in 0..self.part.takes {
            let text = steered.take().expect("an input").delivered();
            turn.event(nexus_core::turn::InputReceived::new(text));
        }
        if self.part.fails {
            // What is taken and not delivered goes back.
            let _taken = steered.take();
            return turn.end(Err(Failure::new(ErrorKind::Overloaded, "no"))).await;
        }
        turn.event(MessageEnded::new("m".into(), "It is done."));
        turn.end(Ok((FinishReason::Stop, None))).await
    }
}

/// What the senders are told of a turn over these, what the last one was asked, and what was told as received.
async fn run(parts: [(Part, Support); 2]) -> (Vec<Option<InputDelivery>>, String, Vec<String>) {
    let steering = Steering::new();
    let (sent, prompt) = (Arc::default(), Arc::default());
    let mut builder = builder(&[]);
    for ((part, support), id) in parts.into_iter().zip(["alpha", "beta"]) {
        let (steering, sent, prompt) = (steering.clone(), Arc::clone(&sent), Arc::clone(&prompt));
        builder = builder.backend(Arc::new(Steered { id: id.into(), steering, support, part, sent, prompt }));
    }
    let router: Router = builder.from_str(&chain("alpha, beta")).unwrap();
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
    let prompt = prompt.lock().unwrap().clone();
    (told, prompt, received)
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
    let router = router(&chain("alpha"), &[&Fake::answering("alpha")]);
    let host = TurnHost::new().with_steering(steering.clone());
    let mut unwatched = |_: EventEnvelope| {};
    router.run_turn("nothing", TurnRequest::new("Do it."), host, &mut unwatched).await.unwrap_err();
    assert_eq!(sent.await, InputDelivery::NotDelivered(NotDelivered::TurnEnded));
    assert!(steering.is_over());
}
