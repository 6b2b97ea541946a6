//! What is written is what is read.

use std::time::{Duration, SystemTime};

use nexus_core::{
    BackendId, Cost, CostSource, Effects, ErrorKind, FinishReason, Handover, Limit, Limits, Partial, Phase,
    ProcessExit, ProcessReport, RecordFile, RecordedOutcome, ResumeHandle, Retry, Skipped, Survivor, Tool,
    ToolAccess, ToolCallStatus, ToolContent, Toolbox, TurnError, TurnEvent, TurnHost, TurnRequest, Usage,
    Usd,
    turn::{
        Fallback, MessageEnded, MessageVoided, Queued, RateLimitNotification, RateLimitStatus, Retrying,
        Started, TextDelta, ThinkingDelta, ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin,
        Unrecognized, VoidCause, Warning,
    },
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::stage::{Stage, answered, envelopes, record};

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,8}",
        // Everything that a line or a terminal could stumble over.
        vec(any::<char>(), 0..12).prop_map(|letters| letters.into_iter().collect()),
        select(vec!["\n", "\r\n{\"turn\":\"x\"}\n", "\0", "\u{2028}", "\\u0000", "\"", "🦀"])
            .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300_f64).prop_map(Value::from),
        words().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((words(), inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn usage() -> impl Strategy<Value = Usage> {
    vec(option::of(any::<u64>()), 5).prop_map(|tokens| {
        let mut usage = Usage::new();
        usage.input_tokens = tokens[0];
        usage.cache_read_tokens = tokens[1];
        usage.cache_write_tokens = tokens[2];
        usage.output_tokens = tokens[3];
        usage.reasoning_tokens = tokens[4];
        usage
    })
}

fn kind() -> impl Strategy<Value = ErrorKind> {
    select(vec![
        ErrorKind::NotInstalled,
        ErrorKind::LimitReached(Limit::RepeatedCalls),
        ErrorKind::Starved(Phase::Tool),
        ErrorKind::Crashed,
        ErrorKind::Exhausted,
    ])
}

fn time() -> impl Strategy<Value = SystemTime> {
    any::<u32>().prop_map(|seconds| SystemTime::UNIX_EPOCH + Duration::new(seconds.into(), seconds % 1000))
}

fn handover() -> impl Strategy<Value = Handover> {
    select(vec![Handover::Nothing, Handover::Restored, Handover::Continued])
}

fn skipped() -> impl Strategy<Value = Skipped> {
    (words(), words(), option::of(kind()), option::of(time()), handover()).prop_map(
        |(backend, reason, kind, until, handover)| {
            Skipped::new(backend.into(), reason).with_kind(kind).with_until(until).with_handover(handover)
        },
    )
}

fn finish() -> impl Strategy<Value = FinishReason> {
    prop_oneof![
        select(vec![FinishReason::Stop, FinishReason::Submitted, FinishReason::Length]),
        words().prop_map(FinishReason::Other),
    ]
}

fn content() -> impl Strategy<Value = ToolContent> {
    prop_oneof![words().prop_map(ToolContent::text), value().prop_map(ToolContent::json)]
}

fn event() -> impl Strategy<Value = TurnEvent> {
    let statuses = vec![ToolCallStatus::Unfinished, ToolCallStatus::Succeeded, ToolCallStatus::Denied];
    let origins = vec![ToolOrigin::Caller, ToolOrigin::Harness, ToolOrigin::Hosted];
    let effects = vec![Effects::None, Effects::Read, Effects::Wrote, Effects::Unknown];
    let causes = vec![VoidCause::Retry, VoidCause::Fallback, VoidCause::NotInRecord];
    prop_oneof![
        (words(), any::<u32>()).prop_map(|(id, limit)| Queued::new(id.into(), limit as usize).into()),
        (words(), option::of(words()), option::of(words())).prop_map(|(id, model, version)| {
            Started::new(id.into()).with_model(model.map(Into::into)).with_version(version).into()
        }),
        (words(), words()).prop_map(|(id, text)| TextDelta::new(id.into(), text).into()),
        (words(), words()).prop_map(|(id, text)| ThinkingDelta::new(id.into(), text).into()),
        (words(), option::of(words()), words(), select(origins), select(effects)).prop_map(
            |(call, parent, name, origin, effects)| {
                let started = ToolCallStarted::new(call.into(), name, origin, effects);
                started.with_parent(parent.map(Into::into)).into()
            }
        ),
        (words(), value()).prop_map(|(call, value)| ToolCallArguments::new(call.into(), value).into()),
        (words(), select(statuses), vec(content(), 0..3))
            .prop_map(|(call, status, output)| ToolCallFinished::new(call.into(), status, output).into()),
        (words(), words(), option::of(usage()), option::of(finish())).prop_map(
            |(id, text, usage, finish)| {
                MessageEnded::new(id.into(), text).with_usage(usage).with_finish(finish).into()
            }
        ),
        (words(), select(causes)).prop_map(|(id, cause)| MessageVoided::new(id.into(), cause).into()),
        (option::of(words()), option::of(-1e9..1e9_f64), option::of(time())).prop_map(
            |(window, used, at)| {
                RateLimitNotification::new(RateLimitStatus::Warning)
                    .with_window(window)
                    .with_used_percent(used)
                    .with_resets_at(at)
                    .into()
            }
        ),
        (any::<u32>(), words(), option::of(any::<Duration>()), option::of(kind())).prop_map(
            |(attempt, reason, delay, kind)| {
                Retrying::new(attempt, reason).with_delay(delay).with_kind(kind).into()
            }
        ),
        (skipped(), words()).prop_map(|(skipped, to)| Fallback::new(skipped, to.into()).into()),
        words().prop_map(|text| Warning::new(text).into()),
        (option::of(words()), value()).prop_map(|(name, raw)| Unrecognized::new(name, raw).into()),
    ]
}

fn failure() -> impl Strategy<Value = TurnError> {
    let retry =
        prop_oneof![Just(Retry::Now), any::<Duration>().prop_map(Retry::After), time().prop_map(Retry::At),];
    (kind(), words(), words(), retry, vec(skipped(), 0..3), usage(), value()).prop_map(
        |(kind, backend, message, retry, skipped, usage, state)| {
            let mut partial = Partial::default();
            partial.text = message.clone();
            partial.usage = usage;
            partial.cost = Some(Cost { usd: Usd(0.125), source: CostSource::Estimated });
            partial.resume = Some(ResumeHandle::new(backend.clone().into(), state));
            let process = ProcessReport::new(Some(ProcessExit::Signal(9)), message.clone())
                .with_survivors(vec![Survivor::new(7, message.clone())]);
            TurnError::new(kind, backend.into())
                .with_message(message.clone())
                .with_retry(retry)
                .with_skipped(skipped)
                .with_process(process)
                .with_partial(partial)
                .with_source(std::io::Error::other(message))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_in_a_turn_is_read_back(
        events in vec(event(), 0..24),
        outcome in prop_oneof![
            (words(), option::of(value()), usage()).prop_map(|(text, output, usage)| {
                let mut result = answered(&text);
                result.output = output;
                result.usage = usage;
                result.resume = Some(ResumeHandle::new("alpha".into(), json!({ "said": text })));
                Ok(result)
            }),
            failure().prop_map(Err),
        ],
        name in words(),
    ) {
        let stage = Stage::new();
        let events = envelopes(events);
        record(&RecordFile::open(stage.path()).unwrap(), &name, &events, &outcome);
        let log = stage.read();
        prop_assert_eq!(&log.unread, &[]);
        let [turn] = &log.turns[..] else { panic!("{} turns", log.turns.len()) };
        let kept: Vec<_> =
            events.into_iter().filter(|envelope| !envelope.event.is_display_only()).collect();
        prop_assert_eq!(&turn.events, &kept);
        prop_assert_eq!(&turn.name, &name);
        prop_assert_eq!(&turn.cuts, &[]);
        match (&outcome, &turn.outcome) {
            // Of an output that is `null` nobody can tell whether it was there.
            (Ok(sent), Some(RecordedOutcome::Result(read))) => {
                let mut sent = sent.clone();
                sent.output = sent.output.filter(|output| !output.is_null());
                prop_assert_eq!(&**read, &sent);
            }
            (Err(sent), Some(RecordedOutcome::Error(read))) => prop_assert_eq!(&**read, &sent.report()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_may_hold_anything_at_all(bytes in vec(any::<u8>(), 0..400)) {
        let log = nexus_core::RecordLog::read_from(&bytes[..]).unwrap();
        prop_assert!(log.turns.is_empty());
    }
}

#[test]
fn a_request_is_recorded_by_what_it_asks() {
    let stage = Stage::new();
    let tools = Toolbox::new().with(Tool::without_arguments("look", "Looks.", || async { "seen" }));
    let host = TurnHost::new().with_tools(std::sync::Arc::new(tools));
    let request = TurnRequest::new("Look.")
        .with_system("Be brief.")
        .with_model("big")
        .in_directory("/work")
        .with_tool_access(ToolAccess::ReadOnly)
        .with_limits(Limits::new().with_tool_calls(3).with_cost(Usd(0.5)))
        .with_label("task", "7");
    RecordFile::open(stage.path()).unwrap().begin("executor", &request, &host).unwrap();
    let log = stage.read();
    let asked = &log.turns[0].request;
    assert_eq!((asked.prompt_text().as_str(), asked.system.as_deref()), ("Look.", Some("Be brief.")));
    assert_eq!(asked.limits, request.limits);
    assert_eq!((asked.tools.as_slice(), asked.tool_access), (&["look".to_owned()][..], ToolAccess::ReadOnly));
    assert_eq!(asked.labels["task"], "7");
    assert_eq!(log.turns[0].outcome, None, "it has no end");
    assert_eq!(log.turns[0].effects(), Effects::Unknown);
}

#[test]
fn what_ran_at_what_cost_is_read_from_a_good_end_and_from_a_bad_one() {
    let stage = Stage::new();
    let file = RecordFile::open(stage.path()).unwrap();
    let mut result = answered("Yes.");
    result.cost = Some(Cost { usd: Usd(0.25), source: CostSource::Reported });
    result.effects = Effects::Wrote;
    let mut partial = Partial::default();
    partial.cost = Some(Cost { usd: Usd(0.5), source: CostSource::Estimated });
    partial.provenance = Some(nexus_core::Provenance::new("beta".into()));
    record(&file, "good", &[], &Ok(result));
    let error = TurnError::new(ErrorKind::Refused, "beta".into()).with_partial(partial);
    record(&file, "bad", &[], &Err(error));
    let turns = stage.read().turns;
    let backend = |turn: &nexus_core::TurnRecord| turn.provenance().map(|ran| ran.backend.clone());
    assert_eq!(backend(&turns[0]), Some(BackendId::new("alpha")));
    assert_eq!(backend(&turns[1]), Some(BackendId::new("beta")));
    assert_eq!(turns[0].cost().unwrap().usd, Usd(0.25));
    assert_eq!(turns[1].cost().unwrap().usd, Usd(0.5));
    assert_eq!((turns[0].effects(), turns[1].effects()), (Effects::Wrote, Effects::None));
    assert!(turns.iter().all(|turn| turn.took.is_some()));
}

#[test]
fn turns_at_once_share_a_file_and_so_do_those_who_open_it_twice() {
    let stage = Stage::new();
    let shared = RecordFile::open(stage.path()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let file = match writer % 2 {
                0 => shared.clone(),
                _ => RecordFile::open(stage.path()).unwrap(),
            };
            scope.spawn(move || {
                for turn in 0..10 {
                    let events =
                        envelopes((0..10).map(|n| Warning::new(format!("{writer}-{turn}-{n}")).into()));
                    record(&file, &format!("{writer}"), &events, &Ok(answered("Done.")));
                }
            });
        }
    });
    let log = stage.read();
    assert_eq!(log.unread, []);
    assert_eq!(log.turns.len(), 80);
    for turn in &log.turns {
        let warned = turn.events.iter().filter_map(|envelope| match &envelope.event {
            TurnEvent::Warning(warning) => Some(warning.text.split('-').next().unwrap_or_default()),
            _ => None,
        });
        assert_eq!(warned.collect::<Vec<_>>(), vec![turn.name.as_str(); 10]);
        assert!(turn.result().is_some());
    }
}

#[test]
fn a_conversation_that_is_forgotten_has_no_handle_any_more() {
    let stage = Stage::new();
    let file = RecordFile::open(stage.path()).unwrap();
    let mut result = answered("Yes.");
    result.resume = Some(ResumeHandle::new("alpha".into(), json!({ "session": "1" })));
    record(&file, "kept", &[], &Ok(result));
    let turn = stage.read().turns.remove(0);
    assert_eq!(turn.resume().unwrap().state()["session"], "1");
    file.forgotten(&turn.id).unwrap();
    let turn = stage.read().turns.remove(0);
    assert!(turn.is_forgotten && turn.resume().is_none());
}
