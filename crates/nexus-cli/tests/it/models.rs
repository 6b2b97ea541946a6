//! `nexus models`, against a simulated server.

use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};

use crate::support::{Folder, text};

#[test]
fn a_list_that_is_too_long_is_cut_with_a_notice() {
    let names = (0..2001).map(|number| format!("model-{number:04}"));
    let server = Sim::start(Dialect::Chat, Scenario::new([Reply::text("Here.")]).models(names)).unwrap();
    let folder = Folder::with(&format!(
        "groups: {{ main: [local] }}\nbackends: {{ local: {{ kind: chat, base_url: {:?}, model: model-0000 }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: main }} }}\n",
        server.base_url()
    ));
    let output = folder.nexus(&["models", "local"]);
    let listed = text(&output.stdout);
    assert_eq!((output.status.code(), listed.lines().count()), (Some(0), 2000), "{listed}");
    let notice = "local: the list has 2000 models, and its server has more";
    assert!(text(&output.stderr).contains(notice), "{}", text(&output.stderr));
}
