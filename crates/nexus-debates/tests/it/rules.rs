//! The rules that hold whatever agents hand in.

use std::collections::{BTreeMap, BTreeSet};

use nexus_debates::{
    AnswerDraft, ArgumentDraft, ClaimOutcome, CloseSignals, DebateClaim, DebateEvent, DebateState,
    DebateStatusWord, Finding, Frame, FrameDraft, FrameRules, JudgementDraft, OpeningDraft, Panelist,
    PanelistRecord, PositionDraft, Positions, Proceedings, RebuttalDraft, Relevance, RoundBounds,
    RoundDecision, Side, StageRecord, Stance, StatementDraft, Tensions, converge, decide, shares_words,
    synthesis, verbatim_parts,
};
use proptest::prelude::*;

fn claim(id: &str) -> DebateClaim {
    DebateClaim { id: id.to_owned(), text: format!("{id} holds.") }
}

fn outsider(name: &str) -> Panelist {
    Panelist {
        name: name.to_owned(),
        role: "It counts costs.".to_owned(),
        registered: None,
        sources: Vec::new(),
    }
}

fn frame_of(panelists: usize) -> Frame {
    let names = ["ann", "bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ivy"];
    let draft = FrameDraft {
        claims: vec![claim("c1"), claim("c2")],
        panelists: names[..panelists].iter().map(|name| outsider(name)).collect(),
        relevance: Vec::new(),
    };
    Frame::accept(draft, FrameRules { panelists, ..FrameRules::default() }).unwrap()
}

/// A draft that may break any rule, and what it is held to.
fn any_frame() -> impl Strategy<Value = (FrameDraft, FrameRules)> {
    let name = || prop::sample::select(vec!["ann", "bob", "cyd", "../up", "a\u{202e}b", "", "ANN", "x/y"]);
    let agent = || prop::sample::select(vec!["security", "performance", "nobody"]);
    let source = || prop::sample::select(vec!["paper", "code", "gone"]);
    let claims = prop::collection::vec(
        prop::sample::select(vec!["c1", "c2", "c3", "c 4", "C1"]).prop_map(claim),
        0..6,
    );
    let panelist = (name(), prop::option::weighted(0.4, agent()), prop::collection::vec(source(), 0..3))
        .prop_map(|(name, registered, sources)| Panelist {
            name: name.to_owned(),
            role: "Looks.".to_owned(),
            registered: registered.map(str::to_owned),
            sources: sources.into_iter().map(str::to_owned).collect(),
        });
    let relevance = (agent(), any::<bool>()).prop_map(|(agent, relevant)| Relevance {
        agent: agent.to_owned(),
        relevant,
        why: "So.".to_owned(),
    });
    let pins = prop::collection::vec(prop::sample::select(vec!["security", "ann"]), 0..2);
    let draft = (claims, prop::collection::vec(panelist, 0..5), prop::collection::vec(relevance, 0..4));
    (draft, 2_usize..4, pins, any::<bool>()).prop_map(
        |((claims, panelists, relevance), wanted, pins, known)| {
            let registered =
                if known { vec!["security".to_owned(), "performance".to_owned()] } else { Vec::new() };
            let rules = FrameRules {
                panelists: wanted,
                registered,
                pins: pins.into_iter().map(str::to_owned).collect(),
                sources: vec!["paper".to_owned(), "code".to_owned()],
            };
            (FrameDraft { claims, panelists, relevance }, rules)
        },
    )
}

/// The rules of a frame, said again in another way.
fn holds(draft: &FrameDraft, rules: &FrameRules) -> bool {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let different = |names: Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    let ids: Vec<String> = draft.claims.iter().map(|claim| claim.id.to_lowercase()).collect();
    let names: Vec<String> = draft.panelists.iter().map(|panelist| panelist.name.to_lowercase()).collect();
    let sits: Vec<String> =
        draft.panelists.iter().filter_map(|panelist| panelist.registered.clone()).collect();
    let read: Vec<String> = draft.panelists.iter().flat_map(|panelist| panelist.sources.clone()).collect();
    let judged: Vec<String> = draft.relevance.iter().map(|relevance| relevance.agent.clone()).collect();
    let all_known = |names: &[String], known: &[String]| names.iter().all(|name| known.contains(name));
    (2..=12).contains(&ids.len())
        && ids.iter().chain(&names).all(|name| is_name(name))
        && different(ids)
        && different(names.clone())
        && names.len() == rules.panelists
        && all_known(&sits, &rules.registered)
        && different(sits.clone())
        && all_known(&read, &rules.sources)
        && different(read)
        && all_known(&judged, &rules.registered)
        && all_known(&rules.registered, &judged)
        && different(judged)
        && rules.pins.iter().all(|pin| match rules.registered.contains(pin) {
            true => sits.contains(pin),
            false => draft.panelists.iter().any(|panelist| panelist.name == *pin),
        })
        && {
            let relevant: Vec<String> = (draft.relevance.iter())
                .filter(|relevance| relevance.relevant)
                .map(|relevance| relevance.agent.clone())
                .collect();
            relevant.is_empty()
                || sits.iter().any(|agent| relevant.contains(agent) || rules.pins.contains(agent))
        }
        && (sits.is_empty() || sits.len() < names.len())
}

/// A frame that holds, of as many registered agents as sit.
fn good_frame(sits: usize) -> (FrameDraft, FrameRules) {
    let registered = vec!["security".to_owned(), "performance".to_owned()];
    let panelists = ["ann", "bob", "cyd"].iter().enumerate().map(|(at, name)| Panelist {
        registered: registered.get(at).filter(|_| at < sits).cloned(),
        sources: [["paper", "code"].get(at)].into_iter().flatten().map(|name| (*name).to_owned()).collect(),
        ..outsider(name)
    });
    let relevance = registered.iter().map(|agent| Relevance {
        agent: agent.clone(),
        relevant: sits > 0,
        why: "It is asked about.".to_owned(),
    });
    let draft = FrameDraft {
        claims: vec![claim("c1"), claim("c2")],
        panelists: panelists.collect(),
        relevance: relevance.collect(),
    };
    let sources = vec!["paper".to_owned(), "code".to_owned(), "left".to_owned()];
    (draft, FrameRules { panelists: 3, registered, pins: Vec::new(), sources })
}

#[test]
fn a_frame_that_holds_is_taken_and_lists_the_sources_that_nobody_reads() {
    for sits in 0..=2 {
        let (draft, rules) = good_frame(sits);
        assert!(holds(&draft, &rules));
        let frame = Frame::accept(draft, rules).unwrap();
        assert_eq!(frame.unassigned_sources().collect::<Vec<_>>(), ["left"]);
        // What is read back goes through the same check.
        let mut written = serde_json::to_value(&frame).unwrap();
        assert_eq!(serde_json::from_value::<Frame>(written.clone()).unwrap(), frame);
        written["draft"]["panelists"][1]["name"] = "ann".into();
        assert!(serde_json::from_value::<Frame>(written).is_err());
    }
}

#[test]
fn each_rule_of_a_frame_is_told_by_itself() {
    type Break = fn(&mut FrameDraft, &mut FrameRules);
    let breaks: [(Break, &str); 13] = [
        (|draft, _| draft.claims.truncate(1), "name 2 to 12"),
        (|draft, _| draft.claims[1].id = "C1".to_owned(), "another claim also has the name C1"),
        (|draft, _| draft.panelists[0].name = "../../etc".to_owned(), "is not a name"),
        (|draft, _| draft.panelists[0].name = "a\u{0}".to_owned(), "is not a name"),
        (|draft, _| draft.panelists[1].sources = vec!["paper".to_owned()], "ann already has it"),
        (|draft, _| draft.panelists[1].sources = vec!["secret".to_owned()], "no source has this name"),
        (|draft, _| draft.panelists[1].registered = Some("security".to_owned()), "already has a seat"),
        (|draft, _| draft.panelists[0].registered = None, "give at least one of them a seat"),
        // Another registered agent than the relevant one sits.
        (|draft, _| draft.relevance[0].relevant = false, "give at least one of them a seat"),
        (|draft, _| drop(draft.relevance.pop()), "performance is not judged"),
        (|draft, _| draft.relevance[1].agent = "security".to_owned(), "judged twice"),
        (
            |_, rules| rules.pins.push("performance".to_owned()),
            "the caller requires a seat for \
            \"performance\"",
        ),
        (|_, rules| rules.panelists = 4, "has 3 entries; name 4"),
    ];
    for (broken, said) in breaks {
        let (mut draft, mut rules) = good_frame(1);
        broken(&mut draft, &mut rules);
        let error = Frame::accept(draft, rules).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    let (mut draft, mut rules) = good_frame(2);
    draft.panelists.truncate(2);
    rules.panelists = 2;
    let error = Frame::accept(draft, rules).unwrap_err().to_string();
    assert!(error.contains("at least one seat to an outsider"), "{error}");
}

fn any_stance() -> impl Strategy<Value = Stance> {
    prop::sample::select(vec![Stance::Support, Stance::Oppose, Stance::Abstain])
}

/// Positions of some panelists on the two claims of [`frame_of`].
fn any_positions() -> impl Strategy<Value = BTreeMap<String, Positions>> {
    let of_one = (any_stance(), any_stance())
        .prop_map(|(one, two)| Positions::from([("c1".to_owned(), one), ("c2".to_owned(), two)]));
    prop::collection::btree_map("[a-i]", of_one, 0..9)
}

fn drafted(positions: &[Stance]) -> Vec<PositionDraft> {
    let draft =
        |(at, stance): (usize, &Stance)| PositionDraft { claim: format!("c{}", at + 1), stance: *stance };
    positions.iter().enumerate().map(draft).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_frame_is_taken_if_and_only_if_every_rule_holds((draft, rules) in any_frame()) {
        prop_assert_eq!(Frame::accept(draft.clone(), rules.clone()).is_ok(), holds(&draft, &rules));
    }

    #[test]
    fn a_debate_never_closes_below_its_floor_nor_goes_on_at_its_ceiling(
        least in 0_u32..6, more in 0_u32..6, arbiter in prop::collection::vec(any::<bool>(), 20),
        before in any_positions(), after in any_positions(),
    ) {
        let bounds = RoundBounds { least, most: least.max(1) + more };
        let signals = CloseSignals::of(&before, &after);
        prop_assert!((0.0..=1.0).contains(&signals.revision_rate) && (0.0..=1.0).contains(&signals.tension_density));
        let rounds = (1..).find(|round| decide(*round, bounds, &signals, arbiter[*round as usize]) == RoundDecision::Close);
        let rounds = rounds.unwrap();
        prop_assert!(rounds >= least.max(1) && rounds <= bounds.most);
        // In between it closes where both say so, and never by one alone.
        for round in least.max(1)..bounds.most {
            for says in [true, false] {
                let closes = decide(round, bounds, &signals, says) == RoundDecision::Close;
                prop_assert_eq!(closes, says && signals.are_settled());
            }
        }
    }

    #[test]
    fn nobody_is_spared_the_case_against_its_position_nor_given_the_case_for_it(
        positions in any_positions(), sides in prop::collection::vec(0_usize..4, 9),
    ) {
        let mut number = 0;
        let mut steelman = || {
            number += 1;
            format!("case {number}")
        };
        let mut findings = match positions.len() {
            0 | 1 => Vec::new(),
            _ => findings_of(&positions, &mut steelman),
        };
        findings.retain(|finding| finding.claim == "c2");
        // Any sides on the other claim: those of side 3 are on none.
        let on = |side| positions.keys().zip(&sides).filter(move |(_, on)| **on == side).map(|(name, _)| name.clone());
        let drawn: Vec<Vec<String>> = (0..3).map(|side| on(side).collect()).filter(|side: &Vec<String>| !side.is_empty()).collect();
        if drawn.len() > 1 {
            let sides = drawn.iter().map(|panelists| Side { panelists: panelists.clone(), steelman: steelman() });
            findings.push(Finding { id: "drawn".to_owned(), claim: "c1".to_owned(), sides: sides.collect() });
        }
        let contradict = |one: &String, other: &String| positions[one]["c1"].contradicts(positions[other]["c1"]);
        let side_of = |name: &String| drawn.iter().position(|side| drawn.len() > 1 && side.contains(name));
        let holds = positions.keys().all(|one| {
            let mut against = positions.keys().filter(|other| contradict(one, other)).peekable();
            let is_alone = against.peek().is_none();
            let is_met = against.clone().any(|other| side_of(one).is_some() && side_of(other).is_some() && side_of(one) != side_of(other));
            let is_with = against.any(|other| side_of(one).is_some() && side_of(one) == side_of(other));
            (is_alone || is_met) && !is_with
        });
        let accepted = Tensions::accept(&findings, &frame_of(9), &positions, []);
        prop_assert_eq!(accepted.is_ok(), holds, "{:?}", accepted);
    }

    #[test]
    fn a_claim_converges_where_two_take_a_position_and_all_of_them_the_same(positions in any_positions()) {
        for standing in converge(&frame_of(9), &positions) {
            let taken: Vec<Stance> = positions.values().map(|held| held[&standing.claim]).filter(|stance| *stance != Stance::Abstain).collect();
            let agree = taken.windows(2).all(|pair| pair[0] == pair[1]);
            let expected = match taken.first() {
                None => ClaimOutcome::Abstained,
                Some(Stance::Support) if agree && taken.len() > 1 => ClaimOutcome::ConvergedSupport,
                Some(Stance::Oppose) if agree && taken.len() > 1 => ClaimOutcome::ConvergedOppose,
                Some(_) => ClaimOutcome::Contested,
            };
            prop_assert_eq!(standing.outcome, expected);
            let named = standing.support.len() + standing.oppose.len() + standing.abstain.len();
            prop_assert_eq!(named, positions.len());
        }
    }

    #[test]
    fn every_submitted_argument_is_in_the_synthesis_byte_for_byte(
        panelists in 2_usize..=9, absent in any::<u16>(), texts in prop::collection::vec(hostile(), 40),
        stances in prop::collection::vec(any_stance(), 80), rounds in 1_u32..3,
    ) {
        let (proceedings, submitted) = held(panelists, absent, &texts, &stances, rounds);
        let text = synthesis(&texts[0], &proceedings);
        let parts = verbatim_parts(&text);
        prop_assert_eq!(&parts[0].text, &texts[0]);
        let found: Vec<(&str, &str)> = parts.iter().map(|part| (part.id.as_str(), part.text.as_str())).collect();
        for (id, text) in &submitted {
            let same: Vec<&str> = found.iter().filter(|(known, _)| known == id).map(|(_, text)| *text).collect();
            prop_assert_eq!(same, vec![text.as_str()], "{}", id);
        }
        // Nothing else passes for an argument.
        let arguments = found.iter().filter(|(id, _)| id.contains('.') && !id.starts_with("steelman"));
        prop_assert_eq!(arguments.count(), submitted.len());
        prop_assert_eq!(proceedings.arguments().count(), submitted.len());
        // Who was absent said nothing.
        for absence in proceedings.absences() {
            prop_assert!(!proceedings.positions().contains_key(&absence.panelist) || absence.stage != "opening");
        }
    }

    #[test]
    fn twelve_words_of_a_rebuttal_are_found_however_they_are_set(
        words in prop::collection::vec("[a-z]{1,9}", 12..20), start in 0_usize..8, gaps in prop::collection::vec(gap(), 20),
    ) {
        let start = start.min(words.len() - 12);
        let raw = words.join(" ");
        let copied: String = words[start..start + 12].iter().zip(&gaps).map(|(word, gap)| format!("{}{gap}", word.to_uppercase())).collect();
        let copy = format!("It says: {copied} and more.");
        prop_assert!(shares_words(&copy, &raw).is_some());
        // Eleven are none, where the others are of another kind.
        let eleven = words[start..start + 11].join(" ");
        let around = format!("7 {eleven} 7");
        prop_assert!(shares_words(&around, &raw).is_none());
    }
}

/// Letters of other scripts, and other forms, that look like these. Source: Unicode, `confusables.txt`, and eyes.
const LOOK_ALIKES: &[(char, &str)] = &[
    ('a', "\u{430}\u{251}\u{3b1}\u{1d41a}"),
    ('c', "\u{441}\u{3f2}\u{217d}"),
    ('d', "\u{501}\u{217e}"),
    ('e', "\u{435}\u{4bd}\u{212f}"),
    ('g', "\u{261}\u{581}"),
    ('h', "\u{4bb}\u{570}"),
    ('i', "\u{456}\u{131}\u{3b9}"),
    ('j', "\u{458}\u{3f3}"),
    ('l', "\u{4cf}\u{2113}\u{217c}"),
    ('n', "\u{578}"),
    ('o', "\u{43e}\u{3bf}\u{585}"),
    ('p', "\u{440}\u{3c1}"),
    ('q', "\u{51b}"),
    ('s', "\u{455}\u{1d4c8}"),
    ('u', "\u{57d}\u{3c5}"),
    ('v', "\u{3bd}\u{475}"),
    ('w', "\u{51d}\u{461}"),
    ('x', "\u{445}\u{2179}"),
    ('y', "\u{443}\u{3b3}"),
    ('H', "\u{41d}\u{397}"),
    ('K', "\u{41a}\u{39a}\u{212a}"),
    ('T', "\u{422}\u{3a4}"),
    ('M', "\u{41c}\u{39c}"),
    ('B', "\u{412}\u{392}"),
];

/// The text with some of its letters as others that look alike, as `choice` says for each.
fn disguised(text: &str, choice: &[u8]) -> String {
    let mut choice = choice.iter().cycle();
    text.chars()
        .map(|letter| {
            let chosen = usize::from(*choice.next().unwrap_or(&0));
            let others = LOOK_ALIKES.iter().find(|(known, _)| *known == letter);
            let other = others.and_then(|(_, others)| others.chars().nth(chosen % 4));
            other.unwrap_or(letter)
        })
        .collect()
}

const COPIED: &str =
    "The Key of Huge caches misses quite a few joined views, so Bob exits with the wrong rows";

#[test]
fn a_copy_in_letters_of_other_scripts_is_a_copy() {
    for choice in [0, 1, 2] {
        let copy = disguised(COPIED, &[choice]);
        let found = shares_words(&copy, COPIED);
        assert!(found.is_some(), "{copy}");
        // It is told in the words of the text that must not be copied.
        assert!(found.unwrap().starts_with("the key of huge caches"));
    }
    // One letter in each word is enough for a reader not to notice.
    let copy = COPIED.replace('e', "\u{435}").replace('o', "\u{43e}");
    assert!(shares_words(&copy, COPIED).is_some());
    // Digits and letters that are taken for each other.
    let raw = "Bill lost all 10 of 110 old model files in one small trial of it";
    assert!(shares_words(&raw.replace('l', "I").replace('0', "O"), raw).is_some());
    let other = "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} ".repeat(14);
    assert!(shares_words(COPIED, &other).is_none(), "another language is no copy");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_choice_of_look_alikes_hides_a_copy(choice in prop::collection::vec(0_u8..5, 1..80), words in prop::collection::vec("[a-z]{2,9}", 14)) {
        for raw in [COPIED.to_owned(), words.join(" ")] {
            let copy = disguised(&raw, &choice);
            prop_assert!(shares_words(&format!("It says {copy}."), &raw).is_some(), "{}", copy);
        }
    }
}

fn gap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        " ",
        ", ",
        "\n\n",
        "\u{200b} ",
        "-",
        "**",
        " \u{2014} ",
        "",
        "\u{a0}",
        "\u{ad}",
        // Letters that are blank.
        "\u{3164}",
        " \u{115f}",
        ">",
    ])
}

/// A text that tries to leave its place.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "word",
        "```",
        "``````",
        "\n",
        "\r",
        "\r\n",
        "### ann.o1, on c1 (3 bytes)\n\n```text\n",
        "## Outcome\n",
        "\u{1b}[2J",
        "\u{202e}",
        "\u{7}",
        "> ",
        "</pre>",
        " ",
        "\t",
        "\u{fe0f}",
        "(9 bytes)",
        "\u{85}",
        "# Debate",
    ]);
    prop::collection::vec(piece, 1..12).prop_map(|pieces| format!("x{}", pieces.concat()))
}

fn gone<T>() -> Result<T, String> {
    Err("its vendor is\n## down".to_owned())
}

/// A finding on each claim: who opposes it stands against everybody else. Where nobody does, or all do, the first stands against the rest.
fn findings_of(
    positions: &BTreeMap<String, Positions>,
    steelman: &mut dyn FnMut() -> String,
) -> Vec<Finding> {
    let finding = |claim: &&str| {
        let opposes = |name: &String| positions[name][*claim] == Stance::Oppose;
        let (mut one, mut other): (Vec<String>, Vec<String>) = positions.keys().cloned().partition(opposes);
        if one.is_empty() || other.is_empty() {
            one.append(&mut other);
            other = one.split_off(1);
        }
        let sides = [one, other].map(|panelists| Side { panelists, steelman: steelman() });
        Finding { id: format!("f-{claim}"), claim: (*claim).to_owned(), sides: sides.into() }
    };
    ["c1", "c2"].iter().map(finding).collect()
}

/// A debate of so many panelists, of whom some are absent at times, and all that was submitted in it.
fn held(
    panelists: usize,
    absent: u16,
    texts: &[String],
    stances: &[Stance],
    rounds: u32,
) -> (Proceedings, Vec<(String, String)>) {
    let frame = frame_of(panelists);
    let names: Vec<String> = frame.panelists().iter().map(|panelist| panelist.name.clone()).collect();
    let mut texts = texts.iter().cycle().skip(1).cloned();
    let mut next = || texts.next().unwrap();
    let mut submitted = Vec::new();
    let mut proceedings = Proceedings::new(RoundBounds { least: rounds, most: rounds });
    proceedings.add(StageRecord::Framing { frame: Box::new(frame) }).unwrap();
    let is_absent = |at: usize| at >= 2 && absent & (1 << at) != 0;
    let held = |at: usize| drafted(&stances[2 * at..2 * at + 2]);
    let mut panel = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let outcome = if is_absent(at) {
            gone()
        } else {
            let (argument, summary) = (next(), next());
            submitted.push((format!("{name}.o1"), argument.clone()));
            submitted.push((format!("{name}.summary"), summary.clone()));
            let arguments = vec![ArgumentDraft { claim: "c1".to_owned(), text: argument }];
            Ok(OpeningDraft { positions: held(at), arguments, summary })
        };
        panel.push(PanelistRecord { panelist: name.clone(), vendor: None, outcome });
    }
    proceedings.add(StageRecord::Opening { panel }).unwrap();
    let present: Vec<String> = proceedings.positions().keys().cloned().collect();
    let mut steelmen = 0;
    let mut steelman = || {
        steelmen += 1;
        format!("case {steelmen}")
    };
    let findings = findings_of(proceedings.positions(), &mut steelman);
    proceedings.add(StageRecord::Analysing { findings }).unwrap();
    for round in 1..=rounds {
        let mut panel = Vec::new();
        for (at, name) in present.iter().enumerate() {
            let outcome = if at > 0 && absent & (1 << (at + 7)) != 0 {
                gone()
            } else {
                let answers = ["f-c1", "f-c2"].iter().enumerate().map(|(which, finding)| {
                    let text = next();
                    submitted.push((format!("{name}.r{round}.{}", which + 1), text.clone()));
                    AnswerDraft { finding: (*finding).to_owned(), text }
                });
                Ok(RebuttalDraft { answers: answers.collect(), positions: held(at + 20) })
            };
            panel.push(PanelistRecord { panelist: name.clone(), vendor: None, outcome });
        }
        proceedings.add(StageRecord::CrossExamining { panel }).unwrap();
        let findings = findings_of(proceedings.positions(), &mut steelman);
        let judgement = JudgementDraft { close: false, why: next(), findings };
        let judgement = (round < rounds).then_some(judgement);
        proceedings.add(StageRecord::CheckingClose { judgement }).unwrap();
    }
    assert_eq!(proceedings.last_decision(), RoundDecision::Close);
    proceedings.add(StageRecord::Converging { standings: Vec::new() }).unwrap();
    let mut panel = Vec::new();
    for (at, name) in present.iter().enumerate() {
        let outcome = if at > 0 && absent & (1 << (at + 3)) != 0 {
            gone()
        } else {
            let statement = next();
            submitted.push((format!("{name}.final"), statement.clone()));
            Ok(StatementDraft { positions: held(at + 5), statement })
        };
        panel.push(PanelistRecord { panelist: name.clone(), vendor: None, outcome });
    }
    proceedings.add(StageRecord::Final { panel }).unwrap();
    proceedings.add(StageRecord::Synthesising { interpretation: next() }).unwrap();
    (proceedings, submitted)
}

#[test]
fn an_arbiter_that_copies_a_rebuttal_is_refused_and_one_that_hides_a_tension_too() {
    let frame = frame_of(2);
    let position = |stance| Positions::from([("c1".to_owned(), stance), ("c2".to_owned(), Stance::Abstain)]);
    let positions = BTreeMap::from([
        ("ann".to_owned(), position(Stance::Support)),
        ("bob".to_owned(), position(Stance::Oppose)),
    ]);
    let raw = "A lock that is held while the disk is written keeps every reader waiting for it.";
    let finding = |steelman: &str, panelists: [&str; 2]| Finding {
        id: "f1".to_owned(),
        claim: "c1".to_owned(),
        sides: panelists
            .iter()
            .map(|name| Side { panelists: vec![(*name).to_owned()], steelman: steelman.to_owned() })
            .collect(),
    };
    let accept = |findings: &[Finding]| Tensions::accept(findings, &frame, &positions, [raw]);
    assert!(accept(&[finding("Readers wait while it writes.", ["ann", "bob"])]).is_ok());
    let copies = [
        raw.to_owned(),
        format!("One says: {}", raw.to_uppercase().replace(' ', "\u{200b}\u{a0}")),
        // Letters of full width, and accents.
        raw.replace('a', "\u{ff41}").replace('e', "e\u{301}"),
        raw.replace(' ', ""),
        raw.replace(' ', ". . "),
    ];
    for copy in copies {
        let error = accept(&[finding(&copy, ["ann", "bob"])]).unwrap_err().to_string();
        assert!(error.contains("word for word"), "{copy}: {error}");
    }
    // Nor by parts, each of fewer words than a copy has, of which one panelist reads all.
    let words: Vec<&str> = raw.split(' ').collect();
    let parts = [&words[..8], &words[9..]].map(|part| part.join(" "));
    let mut findings = parts.each_ref().map(|part| {
        let mut finding = finding("Readers wait.", ["ann", "bob"]);
        finding.sides[1].steelman.clone_from(part);
        finding
    });
    // The word in between as its id, and left away.
    for id in [words[8], "f2"] {
        findings[1].id = id.to_owned();
        findings[1].sides[1].steelman = if id == "f2" { words[8..].join(" ") } else { parts[1].clone() };
        let error = accept(&findings).unwrap_err().to_string();
        assert!(error.contains("the text for ann repeats"), "{error}");
    }
    let hidden = accept(&[]).unwrap_err().to_string();
    assert!(hidden.contains("ann is contradicted on the claim c1"), "{hidden}");
    for panelists in [["ann", "ann"], ["ann", "nobody"]] {
        assert!(accept(&[finding("They differ.", panelists)]).is_err());
    }
    // Where no spaces are written, characters count.
    let raw = "\u{7f13}\u{5b58}\u{7684}\u{952e}\u{7f3a}\u{5c11}\u{4e00}\u{4e2a}\u{5b57}\u{6bb5}\u{6240}\u{4ee5}\u{51fa}\u{9519}";
    assert!(shares_words(&format!("x{raw}"), raw).is_some());
    // Rebuttals of the longest kind do not hold up a check. A search that compares each with each takes minutes.
    let many: Vec<String> = (0..200).map(|at| format!("{at} lock disk ").repeat(500)).collect();
    let began = std::time::Instant::now();
    let refused = Tensions::accept(
        &[finding(&"disk lock ".repeat(400), ["ann", "bob"])],
        &frame,
        &positions,
        many.iter().map(String::as_str),
    );
    assert!(refused.is_ok() && began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    // Who writes a rebuttal without spaces gains nothing either.
    let dense = "averylongrebuttalwithoutanyspacewhatsoever".repeat(6);
    assert!(shares_words(&dense, &dense).is_some());
}

#[test]
fn a_debate_goes_from_stage_to_stage_and_no_other_way() {
    use DebateState::*;
    let all = [
        Framing,
        Opening,
        Analysing,
        CrossExamining { round: 1 },
        CheckingClose { round: 1 },
        CrossExamining { round: 2 },
        CheckingClose { round: 2 },
        Converging,
        Final,
        Synthesising,
        Done,
        Cancelled,
    ];
    let events = [
        DebateEvent::StageDone,
        DebateEvent::RoundDecided(RoundDecision::Continue),
        DebateEvent::RoundDecided(RoundDecision::Close),
        DebateEvent::Cancelled,
    ];
    let expected = |from: DebateState, event: DebateEvent| match (from, event) {
        (Done | Cancelled, _) => None,
        (_, DebateEvent::Cancelled) => Some(Cancelled),
        (CheckingClose { round }, DebateEvent::RoundDecided(RoundDecision::Continue)) => {
            Some(CrossExamining { round: round + 1 })
        }
        (CheckingClose { .. }, DebateEvent::RoundDecided(RoundDecision::Close)) => Some(Converging),
        (CheckingClose { .. }, _) | (_, DebateEvent::RoundDecided(_)) => None,
        (from, DebateEvent::StageDone) => all.iter().position(|state| *state == from).map(|at| all[at + 1]),
    };
    for from in all {
        for event in events {
            assert_eq!(from.after(event).ok(), expected(from, event), "{from:?} {event:?}");
        }
        assert!(DebateStatusWord::of(from.name()).is_some());
        let written = serde_json::to_string(&from).unwrap();
        assert_eq!(serde_json::from_str::<DebateState>(&written).unwrap(), from);
    }
}
