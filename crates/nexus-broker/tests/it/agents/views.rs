//! The views of several brokers in one folder, and the files of a person's in it.

use std::{fs, os::unix::fs::symlink};

use nexus_broker::{BrokerErrorKind, SendOptions, Views};

use super::{
    agent,
    kit::{Kit, Scripts, caller},
    message, named,
};

fn scripts() -> Scripts {
    Scripts::default().with("clerk", |_| async move { Ok("Yes.".to_owned()) })
}

#[tokio::test]
async fn of_two_brokers_one_writes_each_message_once_and_the_other_goes_on() {
    let kit = Kit::new(scripts());
    let broker = kit.broker().await;
    broker.configure(&agent("clerk")).await.unwrap();
    let send = async |text: &str| {
        broker.send(&caller(), &named("clerk"), message(text), SendOptions::default()).await.unwrap();
    };
    let folder = kit.folder.path().join("views");
    let log = || fs::read_to_string(folder.join("AGENT_COMMUNICATIONS.log")).unwrap();
    let count = |text: &str| log().matches(text).count();
    let mut first = Views::begin(&folder).unwrap();
    let mut second = Views::begin(&folder).unwrap();
    assert!(first.is_writer() && !second.is_writer());
    send("one").await;
    second.refresh(&broker).await.unwrap();
    first.refresh(&broker).await.unwrap();
    second.refresh(&broker).await.unwrap();
    assert_eq!(count("one"), 1, "{}", log());
    drop(first);
    send("two").await;
    second.refresh(&broker).await.unwrap();
    assert!(second.is_writer());
    assert_eq!((count("one"), count("two")), (1, 1), "{}", log());
    // One that is removed is made anew, whole.
    fs::remove_file(folder.join("AGENT_COMMUNICATIONS.log")).unwrap();
    second.refresh(&broker).await.unwrap();
    assert_eq!((count("one"), count("two")), (1, 1), "{}", log());
}

#[tokio::test]
async fn a_file_that_no_broker_wrote_is_never_written_over() {
    let kit = Kit::new(scripts());
    let broker = kit.broker().await;
    broker.configure(&agent("clerk")).await.unwrap();
    let folder = kit.folder.path().join("views");
    fs::create_dir(&folder).unwrap();
    for (name, text) in [
        ("TASKS.md", "# Tasks\n\n- buy milk\n"),
        ("ACTIVE_AGENTS.md", "\n"),
        ("AGENT_COMMUNICATIONS.log", "[mine] -> [yours]\n"),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        let error = Views::begin(&folder).unwrap_err();
        assert_eq!(error.kind, BrokerErrorKind::Conflict);
        assert!(error.to_string().contains(name) && error.to_string().contains("--views"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::remove_file(&path).unwrap();
    }
    let target = kit.folder.path().join("mine.md");
    fs::write(&target, "mine\n").unwrap();
    symlink(&target, folder.join("TASKS.md")).unwrap();
    assert_eq!(Views::begin(&folder).unwrap_err().kind, BrokerErrorKind::Conflict);
    fs::remove_file(folder.join("TASKS.md")).unwrap();

    let mut views = Views::begin(&folder).unwrap();
    views.refresh(&broker).await.unwrap();
    assert!(fs::read_to_string(folder.join("ACTIVE_AGENTS.md")).unwrap().contains("| clerk | clerk |"));
    // A person's that comes meanwhile.
    fs::write(folder.join("TASKS.md"), "mine\n").unwrap();
    let error = views.refresh(&broker).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Conflict);
    assert_eq!(fs::read_to_string(folder.join("TASKS.md")).unwrap(), "mine\n");
    fs::remove_file(folder.join("TASKS.md")).unwrap();
    drop(views);
    // Its own files, of a broker that was ended.
    let mut views = Views::begin(&folder).unwrap();
    broker.send(&caller(), &named("clerk"), message("Hello."), SendOptions::default()).await.unwrap();
    views.refresh(&broker).await.unwrap();
    drop(views);
    assert!(Views::begin(&folder).unwrap().is_writer());
}
