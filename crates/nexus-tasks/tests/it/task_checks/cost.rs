//! What a probe costs.

use std::time::Instant;

use nexus_core::CancelToken;

use super::kit::{Kit, has_all, probe, settings};

/// The figures of the documents: `cargo test -p nexus-turn-tasks --test it -- --nocapture task_checks::cost`.
#[tokio::test]
async fn a_tree_is_prepared_once_for_all_that_runs_on_it() {
    if !has_all().await {
        return;
    }
    let files: Vec<(String, String)> =
        (0..100).map(|number| (format!("src/f{number}"), "x".repeat(2000))).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
    let kit = Kit::new(&files);
    let (second, third) = (kit.change(&[("a", Some("2"))]), kit.change(&[("a", Some("3"))]));
    let checks = kit.checks(&settings(&["true"]));
    for (what, sides) in [
        ("three trees, not seen before", kit.sides(&second, &third)),
        ("three trees, seen before", kit.sides(&second, &third)),
        ("three trees, again", kit.sides(&second, &third)),
        ("one tree for all sides", kit.sides(&kit.base(), &kit.base())),
    ] {
        let began = Instant::now();
        let record =
            checks.run_probe(probe(&[("p", "x")], &["cat", "p"]), &sides, &CancelToken::new()).await.unwrap();
        println!("{what}: {:?} (probe-{})", began.elapsed(), record.number);
    }
    for what in ["tests, first", "tests, again"] {
        let began = Instant::now();
        assert!(checks.run_tests(&kit.base(), &CancelToken::new()).await.unwrap().run.is_green());
        println!("{what}: {:?}", began.elapsed());
    }
    let prepared = std::fs::read_dir(kit.copies().join("0/prepared")).unwrap().count();
    assert_eq!(prepared, 3);
}

#[tokio::test]
async fn prepared_copies_of_earlier_hosts_count_for_the_bound_and_others_go() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("a", "0")]);
    let prepared = || std::fs::read_dir(kit.copies().join("0/prepared")).unwrap().count();
    let run = async |trees: std::ops::Range<u32>, setup: &[&str]| {
        let mut settings = settings(&["true"]);
        settings.sandbox.setup = vec![setup.iter().map(|word| (*word).to_owned()).collect()];
        let checks = kit.checks(&settings);
        for number in trees {
            let tree = kit.change(&[("a", Some(&number.to_string()))]);
            assert!(checks.run_tests(&tree, &CancelToken::new()).await.unwrap().run.is_green());
        }
    };
    run(1..6, &["true"]).await;
    assert_eq!(prepared(), 5);
    run(6..11, &["true"]).await;
    assert_eq!(prepared(), 8, "three of the first host make room");
    run(11..12, &["sh", "-c", "true"]).await;
    assert_eq!(prepared(), 1, "other setup commands prepared the rest");
}
