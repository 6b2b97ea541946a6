//! Who would run a turn, and why.

use std::{num::NonZeroUsize, time::Duration};

use insta::assert_snapshot;
use nexus_core::{PromptBlock, TurnHost, TurnRequest};
use nexus_router::{ExplainedTarget, Explanation, Router, Verdict};

use super::support::{answering, builder};

const FILE: &str = "\
groups:
  one: [alpha-cli, gamma-cli, beta-cli, beta-native]
  two: [beta-native]
backends:
  alpha-cli: { parked: \"stalls on long turns\" }
  beta-native: { max_turns_at_once: 3 }
models: { strong: { one: big, two: large } }
types:
  writer: { tier: execution, phase: implement, group: one, model: strong, effort: high, fallback: never }
  jury: { panel: jury }
panels:
  jury: [ { group: one, lens: edges }, { group: two, model: strong }, { group: mine } ]
lenses: { edges: Look at the edges. }
";

fn router() -> Router {
    let own = answering("my-agent");
    let text = FILE.replace("  two: [", "  mine: [my-agent]\n  two: [");
    builder(&[&own]).from_str(&text).unwrap()
}

#[test]
fn every_entry_has_its_reason() {
    let explained = router().explain("writer").unwrap();
    assert_snapshot!(explained, @r"
    writer (execution/implement), fallback never → one, model big, effort high
      1. alpha-cli    skipped: parked: stalls on long turns
      2. gamma-cli    skipped: gamma-cli is not part of this build
      3. beta-cli     tried first
      4. beta-native  used if no backend above it can run (at most 3 turns at once)
    ");
    let ExplainedTarget::Chain(chain) = &explained.target else { panic!("{explained:?}") };
    assert_eq!(chain.entries[2].vendor, Some("beta".into()));
    assert_eq!(chain.entries[1].vendor, None);
    assert_eq!(chain.entries[3].max_turns_at_once, NonZeroUsize::new(3).map(Into::into));
}

#[test]
fn a_panel_is_explained_seat_by_seat() {
    let explained = router().explain("jury").unwrap().to_string();
    assert_snapshot!(explained, @r"
    jury → panel jury, at least 2 vendors
      seat 0 (edges) → one
        1. alpha-cli    skipped: parked: stalls on long turns
        2. gamma-cli    skipped: gamma-cli is not part of this build
        3. beta-cli     tried first
        4. beta-native  used if no backend above it can run (at most 3 turns at once)
      seat 1 → two, model large
        1. beta-native  tried first (at most 3 turns at once)
      seat 2 → mine
        1. my-agent  tried first
    ");
}

/// A backend's own name for a model comes before its group's, and that before its vendor's.
#[test]
fn a_model_is_named_by_backend_by_vendor_or_by_group() {
    let explained = |names: &str| {
        let text = format!(
            "groups: {{ one: [alpha-cli, beta-cli, beta-native] }}\nmodels: {{ strong: {{ {names} }} }}\n\
             types: {{ work: {{ group: one, model: strong }} }}\n"
        );
        builder(&[]).from_str(&text).unwrap().explain("work").unwrap().to_string()
    };
    assert_snapshot!(explained("alpha: a, Beta: b, beta-native: own"), @r"
    work → one
      1. alpha-cli    tried first, model a
      2. beta-cli     used if no backend above it can run, model b
      3. beta-native  used if no backend above it can run, model own
    ");
    assert_snapshot!(explained("one: group, beta: b, beta-native: own"), @r"
    work → one, model group
      1. alpha-cli    tried first
      2. beta-cli     used if no backend above it can run
      3. beta-native  used if no backend above it can run, model own
    ");
}

#[test]
fn an_explanation_survives_being_stored() {
    for kind in ["writer", "jury"] {
        let explained = router().explain(kind).unwrap();
        let stored = serde_json::to_string(&explained).unwrap();
        assert_eq!(serde_json::from_str::<Explanation>(&stored).unwrap(), explained);
    }
}

#[test]
fn a_request_shows_who_lacks_what_it_needs() {
    let router = router();
    let picture = PromptBlock::Image { media_type: "image/png".into(), data: "AA==".into() };
    let request = TurnRequest::new("x").with_block(picture).with_model("own");
    let explained = router.explain_request("writer", &request, &TurnHost::new()).unwrap();
    let ExplainedTarget::Chain(chain) = explained.target else { panic!() };
    assert_eq!(chain.model, Some("own".into()));
    assert_eq!(chain.entries[2].verdict, Verdict::Unsupported { need: "pictures".into() });
}

#[test]
fn an_explanation_starts_no_turn() {
    let own = answering("my-agent");
    let router =
        builder(&[&own]).from_str("groups: { g: [my-agent] }\ntypes: { t: { group: g } }\n").unwrap();
    for _ in 0..10 {
        router.explain("t").unwrap();
    }
    assert_eq!(own.turns(), 0);
    assert!(router.explain("tt").unwrap_err().to_string().contains("did you mean \"t\"?"));
}

#[test]
fn the_same_words_are_said_of_a_skip_before_and_after() {
    let router = router();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut nobody = |_| {};
    let turn = router.run_turn("writer", TurnRequest::new("x"), TurnHost::new(), &mut nobody);
    let result = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), turn).await });
    let skipped = result.unwrap().unwrap().provenance.skipped;
    let explained = router.explain("writer").unwrap().to_string();
    assert_eq!(skipped.len(), 2);
    for skipped in skipped {
        assert!(explained.contains(&format!("skipped: {}", skipped.reason)), "{skipped:?}");
    }
}
