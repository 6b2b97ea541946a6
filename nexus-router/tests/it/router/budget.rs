//! One budget over many turns, whoever runs them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use nexus_core::{
    BackendId, Budget, CancelToken, Cost, CostSource, ErrorKind, EventEnvelope, FinishReason, Limit, Limits,
    TurnHost, TurnRequest, Usage, Usd,
};
use nexus_router::{Binding, Panel, Router, Seat, SeatEvent};
use nexus_testkit::scripted::{ScriptedEnd, ScriptedTurn, failure};

use super::support::{
    Act, answering, builder, capabilities, chain, fake, fake_with, router, run_with, scripted,
};

/// Numbers that look random, and are the same in every run.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What all backends really used.
#[derive(Debug, Default)]
struct Ledger {
    microdollars: u64,
    tokens: u64,
    turns: u64,
}

/// Most that one model call uses.
const MOST_MICRODOLLARS: u64 = 3_000;
const MOST_TOKENS: u64 = 40;

/// Makes model calls of some cost until it is done, fails, or is over a limit; a limit is checked after each call.
struct Spender {
    dice: Mutex<Dice>,
    ledger: Arc<Mutex<Ledger>>,
    /// Of ten turns, how many fail so that the next backend may try.
    fails: u64,
    calls: u64,
}

impl Spender {
    fn throw(&self, sides: u64) -> u64 {
        self.dice.lock().unwrap().throw(sides)
    }

    async fn spend(&self, turn: &mut ScriptedTurn<'_>) -> ScriptedEnd {
        assert!(turn.host.budget.is_none(), "a router below would count the turn again");
        self.ledger.lock().unwrap().turns += 1;
        let (mut microdollars, mut tokens) = (0, 0);
        let limits = turn.request.limits.clone();
        for _ in 0..=self.throw(self.calls) {
            turn.pause(Duration::from_millis(1 + self.throw(20))).await?;
            let (cost, output) = (1 + self.throw(MOST_MICRODOLLARS), 1 + self.throw(MOST_TOKENS));
            microdollars += cost;
            tokens += output;
            {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.microdollars += cost;
                ledger.tokens += output;
            }
            let mut usage = Usage::new();
            usage.output_tokens = Some(tokens);
            turn.log.recorder.set_usage(usage);
            turn.log.recorder.cost = Some(Cost { usd: dollars(microdollars), source: CostSource::Reported });
            if limits.cost.is_some_and(|limit| dollars(microdollars) > limit) {
                return Err(failure(ErrorKind::LimitReached(Limit::Cost)));
            }
            if limits.output_tokens.is_some_and(|limit| tokens > limit) {
                return Err(failure(ErrorKind::LimitReached(Limit::OutputTokens)));
            }
            if self.throw(10) < self.fails {
                return Err(failure(ErrorKind::Transport));
            }
        }
        turn.say("done");
        Ok((FinishReason::Stop, None))
    }
}

#[expect(clippy::cast_precision_loss, reason = "small sums")]
fn dollars(microdollars: u64) -> Usd {
    Usd(microdollars as f64 / 1e6)
}

/// Three spenders, of which the first two fail now and then; `work` goes down all of them.
fn spenders(seed: u64, calls: u64, fails: u64) -> (Router, Arc<Mutex<Ledger>>) {
    let ledger = Arc::<Mutex<Ledger>>::default();
    let mut router = builder(&[]);
    for (number, fails) in [(1, fails), (2, fails), (3, 0)] {
        let spender = Arc::new(Spender {
            dice: Mutex::new(Dice(seed * 31 + number)),
            ledger: Arc::clone(&ledger),
            fails,
            calls,
        });
        let backend = scripted(&format!("spender-{number}"), move |turn| {
            let spender = Arc::clone(&spender);
            Box::pin(async move { spender.spend(turn).await })
        });
        router = router.backend(Arc::new(backend));
    }
    (router.from_str(&chain("spender-1, spender-2, spender-3")).unwrap(), ledger)
}

fn seats(count: usize) -> Panel {
    let binding = || Binding::new("all", [1, 2, 3].map(|number| BackendId::new(format!("spender-{number}"))));
    Panel::new("seats", (0..count).map(|index| Seat::new(index, binding())))
}

fn request(limits: Limits) -> TurnRequest {
    TurnRequest::new("x").with_limits(limits)
}

#[tokio::test(start_paused = true)]
async fn a_hundred_mixes_of_turns_fallback_and_panels_stay_within_their_budget() {
    let (mut used_up, mut panels) = (0, 0);
    for seed in 1..=100 {
        let mut dice = Dice(seed * 7_919);
        let (router, ledger) = spenders(seed, 6, 3);
        let most = 40_000 + dice.throw(160_000);
        let most_tokens = 600 + dice.throw(2_400);
        let budget = Budget::new().with_cost(dollars(most)).with_output_tokens(most_tokens);
        let host = TurnHost::new().with_budget(budget.clone());
        let mut most_at_once = 1;
        for _ in 0..12 {
            let mut limits = Limits::new();
            if dice.throw(3) == 0 {
                limits = limits.with_cost(dollars(2_000 + dice.throw(20_000)));
            }
            if dice.throw(3) == 0 {
                limits = limits.with_output_tokens(50 + dice.throw(300));
            }
            let before = ledger.lock().unwrap().turns;
            let is_empty = budget.left().cost == Some(Usd(0.0)) || budget.left().output_tokens == Some(0);
            if dice.throw(2) == 0 {
                let (_, outcome) = run_with(&router, request(limits), host.clone()).await;
                if is_empty {
                    let error = outcome.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Budget));
                    used_up += 1;
                }
            } else {
                let panel = seats(2 + usize::try_from(dice.throw(8)).unwrap());
                most_at_once = most_at_once.max(panel.seats.len() as u64);
                let ask = |_: &Seat| (request(limits.clone()), host.clone());
                let outcome = router.run_panel(&panel, ask, &mut |_: SeatEvent| {}).await;
                let answered = outcome.answers().count();
                assert!(!is_empty || answered == 0);
                panels += usize::from(answered > 1);
            }
            let ledger = ledger.lock().unwrap();
            if is_empty {
                assert_eq!(ledger.turns, before, "seed {seed}: a backend was asked");
            }
            // What was booked is what was used, rejected and failed attempts included.
            assert_eq!(budget.spent().output_tokens, Some(ledger.tokens), "seed {seed}");
            let spent = budget.spent().cost.unwrap().0;
            assert!((spent - dollars(ledger.microdollars).0).abs() < 1e-9, "seed {seed}: {spent}");
            // A turn is over its own limit by its last model call at most.
            assert!(ledger.microdollars <= most + most_at_once * MOST_MICRODOLLARS, "seed {seed}");
            assert!(ledger.tokens <= most_tokens + most_at_once * MOST_TOKENS, "seed {seed}");
        }
    }
    assert!(used_up > 50 && panels > 100, "too little was tried: {used_up}, {panels}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_at_the_rest_of_the_budget_says_so() {
    let (router, ledger) = spenders(5, 1_000, 0);
    let budget = Budget::new().with_cost(Usd(0.02));
    let host = TurnHost::new().with_budget(budget.clone());
    // Its own limit is the nearer one.
    let own = Limits::new().with_cost(Usd(0.005));
    let error = run_with(&router, request(own), host.clone()).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Cost));
    let error = run_with(&router, request(Limits::new()), host.clone()).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Budget));
    assert_eq!(error.to_string(), "spender-1 reached the end of the budget");
    assert_eq!(budget.left().cost, Some(Usd(0.0)));

    let turns = ledger.lock().unwrap().turns;
    let (events, outcome) = run_with(&router, request(Limits::new()), host).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::LimitReached(Limit::Budget), "work"));
    assert!(error.to_string().starts_with("work reached the end of the budget: $0.0"), "{error}");
    assert!(events.is_empty());
    assert_eq!((ledger.lock().unwrap().turns, budget.turns()), (turns, 2));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_is_booked_by_what_it_used_and_a_dropped_one_by_what_it_had() {
    let (router, ledger) = spenders(9, 1_000, 0);
    let budget = Budget::new().with_output_tokens(100_000);
    let cancel = CancelToken::new();
    let host = TurnHost::new().with_budget(budget.clone()).with_cancel(cancel.clone());
    let stop = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    };
    let ((_, outcome), ()) = futures::join!(run_with(&router, request(Limits::new()), host), stop);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    let used = ledger.lock().unwrap().tokens;
    assert_eq!(budget.spent().output_tokens, Some(used));

    let host = TurnHost::new().with_budget(budget.clone());
    let running = run_with(&router, request(Limits::new().with_output_tokens(1_000)), host);
    tokio::time::timeout(Duration::from_millis(100), running).await.unwrap_err();
    assert_eq!(budget.spent().output_tokens, Some(used + 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_before_a_backend_had_it_is_booked_with_nothing() {
    let alpha = fake("alpha", [Act::Hang]);
    let text = chain("alpha") + "backends: { alpha: { max_turns_at_once: 1 } }\n";
    let router = router(&text, &[&alpha]);
    let budget = Budget::new().with_output_tokens(1_000);
    let first = run_with(&router, request(Limits::new()), TurnHost::new());
    let waits = run_with(&router, request(Limits::new()), TurnHost::new().with_budget(budget.clone()));
    let wait = Duration::from_millis(100);
    let both = async { futures::join!(first, tokio::time::timeout(wait, waits)).1 };
    tokio::time::timeout(wait * 2, both).await.unwrap_err();
    assert_eq!((alpha.turns(), budget.left().output_tokens), (1, Some(1_000)));
}

#[tokio::test(start_paused = true)]
async fn turns_at_once_without_limits_of_their_own_are_told_what_to_do() {
    let (router, _) = spenders(3, 20, 0);
    let host = TurnHost::new().with_budget(Budget::new().with_output_tokens(10_000));
    let run = |limits: Limits| run_with(&router, request(limits), host.clone());
    let (first, second) = futures::join!(run(Limits::new()), run(Limits::new()));
    first.1.unwrap();
    let error = second.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Budget));
    assert!(error.to_string().contains("have reserved the rest: give each a limit"), "{error}");
    let limited = || Limits::new().with_output_tokens(2_000);
    let (first, second) = futures::join!(run(limited()), run(limited()));
    first.1.unwrap();
    second.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_router_inside_a_chain_does_not_count_twice() {
    let (inner, ledger) = spenders(4, 5, 0);
    let text = "groups: { main: [work] }\ntypes: { work: { group: main } }\n";
    let outer = builder(&[]).backend(Arc::new(inner.backend("work").unwrap())).from_str(text).unwrap();
    let budget = Budget::new().with_output_tokens(10_000);
    let host = TurnHost::new().with_budget(budget.clone());
    run_with(&outer, request(Limits::new()), host).await.1.unwrap();
    assert_eq!((budget.spent().output_tokens, budget.turns()), (Some(ledger.lock().unwrap().tokens), 1));
}

#[tokio::test]
async fn a_backend_that_cannot_keep_the_budget_is_not_given_the_turn() {
    let mut unable = capabilities();
    unable.limits = nexus_core::LimitSupport::new();
    let alpha = fake_with("alpha", [Act::Hang], unable);
    let beta = answering("beta");
    let router = super::support::router(&chain("alpha, beta"), &[&alpha, &beta]);
    let budget = Budget::new().with_cost(Usd(1.0));
    let mut ignore = |_: EventEnvelope| {};
    let host = TurnHost::new().with_budget(budget);
    let result = router.run_turn("work", TurnRequest::new("x"), host, &mut ignore).await.unwrap();
    assert_eq!(result.provenance.skipped[0].reason, "does not support a cost limit");
    assert_eq!(beta.last().limits.cost, Some(Usd(1.0)));
}
