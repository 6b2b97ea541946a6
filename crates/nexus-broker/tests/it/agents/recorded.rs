//! Stores that earlier versions wrote.

use std::{fs, path::Path, time::Duration};

use nexus_broker::{Envelope, Payload};

use super::kit::{Kit, Scripts, inbox};

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_an_earlier_version_is_read_and_what_it_began_is_ended() {
    let kit = Kit::new(Scripts::default().with("t", |puppet| async move {
        let head = puppet.handles().to_owned();
        Ok(format!("handled {head}"))
    }));
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/agents/recorded/without-turn-counts/messages.db");
    fs::create_dir(kit.folder.path().join("broker")).unwrap();
    fs::copy(recorded, kit.folder.path().join("broker/messages.db")).unwrap();
    // Some minutes after it was written: answers wait for callers for a week.
    kit.clock.set(std::time::UNIX_EPOCH + Duration::from_secs(1_795_871_100));
    let running = kit.run().await;
    let found = inbox(&running.broker, 5).await;
    let of = |id: &str| -> &Envelope {
        found
            .iter()
            .find(|envelope| envelope.message_id.as_str() == id)
            .unwrap_or_else(|| panic!("{id}: {found:?}"))
    };
    assert!(matches!(of("second@answer").payload, Payload::Result { .. }));
    assert!(of("fifth@answer").payload.text().contains("ok"));
    let error = |id: &str| {
        let payload = serde_json::to_value(&of(id).payload).unwrap();
        assert_eq!(payload["payload"]["code"], "turn_lost", "{payload}");
        payload["payload"]["in_reply_to"].clone()
    };
    assert_eq!(error("fourth@answer"), serde_json::Value::Null);
    assert_eq!(error("sixth@answer"), "sixth");
    let seventh = of("seventh@answer");
    assert!(seventh.payload.text().contains("handled [message from caller:me, id seventh]"), "{seventh:?}");
    assert_eq!(seventh.root.as_ref().map(|root| root.as_str()), Some("seventh"));
    running.drain().await;
}
