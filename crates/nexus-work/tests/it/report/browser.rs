//! A page in a real browser. Where there is none nothing is tested, unless `NEXUS_TEST_BROWSER` asks for it.

use maud::html;
use nexus_testkit::browser::{Seen, look_at};
use nexus_work::report::{Block, Page, Text};

const HOSTILE: &str =
    "</script><img src=\"http://canary.invalid/text.png\" onerror=\"fetch('http://canary.invalid/run')\">";

fn seen(page: &str) -> Option<Seen> {
    let seen = look_at(page).unwrap();
    if seen.is_none() {
        assert!(std::env::var_os("NEXUS_TEST_BROWSER").is_none(), "a browser is required here");
        println!("NOT TESTED: there is no browser");
    }
    seen
}

fn asks_for_the_canary(seen: &Seen) -> bool {
    seen.requests.iter().any(|url| url.contains("canary.invalid"))
}

#[test]
fn a_browser_shows_hostile_text_and_asks_for_nothing() {
    let page = Page::new(HOSTILE).section(HOSTILE, html! { p { (Text(HOSTILE)) } (Block(HOSTILE)) }).render();
    let Some(seen) = seen(&page) else { return };
    assert!(!asks_for_the_canary(&seen), "{:?}", seen.requests);
    assert!(
        seen.dom.contains("&lt;/script&gt;&lt;img src=\"http://canary.invalid/text.png\""),
        "{}",
        seen.dom
    );
    assert!(seen.picture.starts_with(b"\x89PNG"));
}

#[test]
fn even_markup_that_got_in_loads_nothing_and_runs_nothing() {
    // As if some text had not been escaped.
    let page = Page::new("Report").section("Part", html! { p { "HERE" } }).render();
    let injected =
        page.replace("HERE", &format!("{HOSTILE}<script>fetch('http://canary.invalid/script')</script>"));
    let Some(kept) = seen(&injected) else { return };
    assert!(!asks_for_the_canary(&kept), "{:?}", kept.requests);
    // The same markup where nothing forbids it: what is looked for would be seen.
    let open = seen(&format!("<!DOCTYPE html><p>{HOSTILE}</p>")).unwrap();
    assert!(asks_for_the_canary(&open), "{:?}", open.requests);
}
