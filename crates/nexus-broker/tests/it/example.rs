//! The example, run as a newcomer runs it: no login, no CLI, no network.

use nexus_testkit::example::{assert_shows, shown};

#[test]
fn broker_has_a_question_answered_in_mid_task_and_a_person_heard_in_mid_turn() {
    assert_shows(
        &shown("broker"),
        &[
            "[caller:person] -> [manager] [task_assignment]: Task sign:",
            "[manager] -> [tides] [task_assignment]: Task tides:",
            "[sign] -> [manager-of:sign] [query]: Until when does it go?",
            "[manager] -> [sign] [message]: (in reply to ",
            "[tides] -> [manager-of:tides] [status_update]: Task tides: in_progress, 3 %",
            "is told: the agent is in a turn: it receives the message between two tool calls",
            "[caller:person] -> [tides] [message]: That is enough.",
            "[sign] -> [manager] [result]: Task sign is done: The sign says: The ferry. Until ten in the evening.",
            "[tides] -> [manager] [result]: Task tides is done: The water is high, and a person said in mid-turn: That is enough.",
            "what came back to the person:\nTask sign is done:\n",
            "manager  started\n",
            "tides    done\n",
        ],
    );
}
