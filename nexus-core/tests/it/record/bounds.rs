//! What is long is cut, and said to be.

use std::time::{Duration, SystemTime};

use nexus_core::{
    Cost, CostSource, PromptBlock, RecordError, RecordFile, ResumeHandle, ToolCallStatus, ToolContent,
    TurnEvent, TurnHost, TurnRequest, Usd,
    record::{MAX_HANDLE_BYTES, MAX_LINE_BYTES, MAX_TEXT_BYTES},
    turn::{RateLimitNotification, RateLimitStatus, ToolCallArguments, ToolCallFinished, Unrecognized},
};
use serde_json::{Value, json};

use super::stage::{Stage, answered, envelopes, record};

fn finished(output: Vec<ToolContent>) -> TurnEvent {
    ToolCallFinished::new("c".into(), ToolCallStatus::Succeeded, output).into()
}

#[test]
fn a_long_tool_result_is_cut_between_two_letters_and_its_rest_is_counted() {
    let stage = Stage::new();
    let text = "ä".repeat(MAX_TEXT_BYTES);
    let events = envelopes([finished(vec![ToolContent::text(format!("x{text}"))])]);
    record(&RecordFile::open(stage.path()).unwrap(), "long", &events, &Ok(answered("Done.")));
    let turn = stage.read().turns.remove(0);
    let [TurnEvent::ToolCallFinished(finished)] = [&turn.events[0].event] else { panic!("{turn:?}") };
    let [ToolContent::Text { text: kept }] = &finished.output[..] else { panic!("{finished:?}") };
    assert_eq!(kept.len(), MAX_TEXT_BYTES - 1);
    let [cut] = &turn.cuts[..] else { panic!("{:?}", turn.cuts) };
    assert_eq!(cut.place, "event 0: output");
    assert_eq!(cut.bytes as usize + kept.len(), 1 + text.len());
}

#[test]
fn a_line_holds_no_more_than_its_bound_however_much_there_is() {
    let stage = Stage::new();
    let pieces = (0..100).map(|_| ToolContent::text("y".repeat(MAX_TEXT_BYTES))).collect();
    let prompt = TurnRequest::new("z".repeat(9 << 20)).with_system("s".repeat(9 << 20));
    let file = RecordFile::open(stage.path()).unwrap();
    let mut recording = file.begin("wide", &prompt, &TurnHost::new()).unwrap();
    recording.event(&envelopes([finished(pieces)])[0]);
    recording.end(&Ok(answered(&"a".repeat(20 << 20)))).unwrap();
    for line in stage.text().lines() {
        assert!(line.len() < MAX_LINE_BYTES + 100 * 1_024, "{}", line.len());
    }
    let turn = stage.read().turns.remove(0);
    let cut =
        |place: &str| turn.cuts.iter().filter(|cut| cut.place == place).map(|cut| cut.bytes).sum::<u64>();
    assert_eq!(cut("request: prompt") as usize, (9 << 20) - MAX_TEXT_BYTES);
    assert_eq!(cut("outcome: text") as usize, (20 << 20) - MAX_TEXT_BYTES);
    // Every piece keeps its first letters, beyond the bound too: there is still a call of as many pieces.
    assert!(cut("event 0: output") as usize > 80 * MAX_TEXT_BYTES);
}

#[test]
fn a_value_that_is_too_large_or_too_deep_becomes_text() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let large: Value = (0..200_000).collect::<Vec<_>>().into();
    let stage = Stage::new();
    let events = envelopes([
        ToolCallArguments::new("c".into(), deep.clone()).into(),
        ToolCallArguments::new("c".into(), large.clone()).into(),
        Unrecognized::new(None, json!({ "of": large })).into(),
    ]);
    let mut result = answered("x");
    result.output = Some(deep.clone());
    record(&RecordFile::open(stage.path()).unwrap(), "odd", &events, &Ok(result));
    let log = stage.read();
    assert_eq!(log.unread, []);
    let turn = &log.turns[0];
    let arguments = |index: usize| match &turn.events[index].event {
        TurnEvent::ToolCallArguments(arguments) => arguments.arguments.as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(arguments(0), deep.to_string());
    assert!(arguments(1).starts_with("[0,1,2,") && arguments(1).len() == MAX_TEXT_BYTES);
    assert_eq!(turn.result().unwrap().output, Some(Value::String(deep.to_string())));
    assert_eq!(turn.cuts.len(), 4, "{:?}", turn.cuts);
}

#[test]
fn numbers_and_times_that_json_has_no_word_for_do_not_cost_the_line() {
    let stage = Stage::new();
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(60);
    let limit = RateLimitNotification::new(RateLimitStatus::Warning)
        .with_used_percent(Some(f64::NAN))
        .with_resets_at(Some(before));
    let mut result = answered("Done.");
    result.cost = Some(Cost { usd: Usd(f64::INFINITY), source: CostSource::Reported });
    record(&RecordFile::open(stage.path()).unwrap(), "odd", &envelopes([limit.into()]), &Ok(result));
    let log = stage.read();
    assert_eq!(log.unread, []);
    assert_eq!(log.turns[0].cost(), None);
    assert_eq!(log.turns[0].events.len(), 1);
}

#[test]
fn a_picture_is_counted_and_left_out() {
    let stage = Stage::new();
    let picture = [&b"\x89PNG\r\n"[..], &[7; 5_000]].concat();
    let request = TurnRequest::new("Look.").with_block(PromptBlock::image(&picture).unwrap());
    let file = RecordFile::open(stage.path()).unwrap();
    let mut recording = file.begin("look", &request, &TurnHost::new()).unwrap();
    let shown = ToolContent::Image { media_type: "image/png".into(), data: "BwcH".repeat(2_000) };
    recording.event(&envelopes([finished(vec![shown])])[0]);
    recording.end(&Ok(answered("Seen."))).unwrap();
    assert!(!stage.text().contains("BwcHBwcH"));
    let turn = stage.read().turns.remove(0);
    assert!(matches!(turn.request.prompt[1], nexus_core::record::RecordedBlock::Image { bytes: 5_006, .. }));
    assert_eq!(turn.cuts.iter().map(|cut| cut.bytes).collect::<Vec<_>>(), [8_000]);
}

#[test]
fn a_handle_is_whole_or_not_there() {
    let stage = Stage::new();
    let file = RecordFile::open(stage.path()).unwrap();
    for (size, is_kept) in [(MAX_HANDLE_BYTES / 2, true), (MAX_HANDLE_BYTES, false)] {
        let handle = ResumeHandle::new("alpha".into(), json!({ "items": "i".repeat(size) }));
        let mut result = answered("Done.");
        result.resume = Some(handle.clone());
        let recording = file.begin("kept", &TurnRequest::new("x"), &TurnHost::new()).unwrap();
        let ended = recording.end(&Ok(result));
        let turn = stage.read().turns.pop().unwrap();
        assert_eq!(turn.resume(), is_kept.then_some(&handle));
        assert_eq!(turn.result().unwrap().text, "Done.", "the rest of the turn is there");
        match ended {
            Ok(()) => assert!(is_kept),
            Err(error) => assert!(!is_kept && matches!(error, RecordError::HandleTooLarge { .. }), "{error}"),
        }
    }
}
