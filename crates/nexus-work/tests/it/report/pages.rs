//! What a page may hold, whatever is put into it.

use std::time::Duration;

use maud::{Render as _, html};
use nexus_work::report::{Bar, Bars, Block, Estimate, Intervals, Page, Span, SpanKind, Text, TimeLine, diff};
use proptest::prelude::*;

const HOSTILE: &str =
    "</script></style></pre></title><img src=x onerror=alert(1)>\"'><svg onload=alert(1)>&amp;\u{202e}\0";

fn page(text: &str) -> String {
    let span = |began, took, kind| Span { lane: text.into(), label: text.into(), began, took, kind };
    let spans = vec![
        span(Duration::ZERO, Duration::from_secs(4), SpanKind::Well),
        span(Duration::from_secs(4), Duration::ZERO, SpanKind::Failed),
        span(Duration::MAX, Duration::MAX, SpanKind::Open),
    ];
    let bar = |value| Bar { label: text.into(), value, shown: text.into() };
    let bars = [1.5, 0.0, -1.0, f64::NAN, f64::INFINITY].map(bar).into();
    Page::new(text)
        .head(html! { p { (Text(text)) } })
        .section(text, html! { p { (Text(text)) } (Block(text)) })
        .section("Diff", diff(text))
        .section("Time", TimeLine { title: text.into(), spans }.render())
        .section("Cost", Bars { title: text.into(), bars }.render())
        .render()
}

/// The tags of a page, attributes included.
fn tags(page: &str) -> Vec<&str> {
    page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or(rest)).collect()
}

#[test]
fn hostile_text_is_text_wherever_it_is_put() {
    let (hostile, plain) = (page(HOSTILE), page("plain"));
    assert_eq!(tags(&hostile).len(), tags(&plain).len());
    assert!(!hostile.contains("<img") && !hostile.contains("<script") && !hostile.contains('\0'));
    assert!(!hostile.contains('\u{202e}') && hostile.contains("\\u{202e}"));
}

#[test]
fn a_page_loads_nothing_and_says_so() {
    let page = page("plain");
    assert!(page.contains("default-src 'none'; style-src 'sha256-"));
    for what in [
        "src=",
        "http:",
        "https:",
        "url(",
        "@import",
        "<link",
        "<script",
        "<iframe",
        " style=",
        "javascript:",
    ] {
        assert!(!page.contains(what), "{what}");
    }
}

#[test]
fn empty_plots_are_drawn() {
    let empty = TimeLine { title: "Turns".into(), spans: Vec::new() }.render().into_string();
    assert!(empty.starts_with("<svg") && !empty.contains("NaN"));
    assert!(!Bars { title: "Cost".into(), bars: Vec::new() }.render().into_string().contains("NaN"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_tag(text in "(?s)(.|<|>|\"|&|\t|\n){0,40}") {
        prop_assert_eq!(tags(&page(&text)).len(), tags(&page(&text.replace(['<', '>', '"'], "x"))).len());
    }
}

#[test]
fn an_estimate_stays_on_its_scale() {
    let estimate = |label: &str, value: Option<f64>, low: f64, high: f64| Estimate {
        label: label.to_owned(),
        value,
        low,
        high,
        shown: label.to_owned(),
    };
    let estimates = vec![
        estimate("half", Some(0.5), 0.25, 0.75),
        estimate("nothing", None, 0.0, 1.0),
        estimate("odd", Some(f64::NAN), f64::NEG_INFINITY, f64::INFINITY),
        estimate("<script>", Some(7.0), -7.0, 7.0),
    ];
    let plot = Intervals { title: "Shares".to_owned(), scale: (0.0, 1.0), estimates }.render().into_string();
    assert!(plot.contains("cx=\"420.0\"") && plot.contains("x=\"320.0\" y=\"18\" width=\"200.0\""), "{plot}");
    assert_eq!(plot.matches("<circle").count(), 3);
    assert!(!plot.contains("NaN") && !plot.contains("inf") && !plot.contains("<script>"), "{plot}");
    let none =
        Intervals { title: String::new(), scale: (1.0, 1.0), estimates: Vec::new() }.render().into_string();
    assert!(!none.contains("NaN") && none.contains("<svg"), "{none}");
}
