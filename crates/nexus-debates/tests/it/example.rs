//! The example, run as a newcomer runs it: no login, no CLI, no network.

use nexus_testkit::example::{assert_shows, shown};

#[test]
fn debate_converges_once_the_case_against_was_heard_and_keeps_every_word() {
    assert_shows(
        &shown("debate"),
        &[
            "question  Shall the cache be written through?",
            "next      opening\nnext      analysing\nnext      cross_examining 1\nnext      checking_close 1\n\
             next      converging\nnext      final\nnext      synthesising\nnext      done\n",
            "claim     safe: converged (support) (support: keeper, runner; oppose: none; abstain: reader)",
            "claim     fast: converged (support) (support: keeper, reader, runner; oppose: none; abstain: none)",
            " bytes, every argument word for word",
            " bytes of HTML, as `nexus debate report` writes it",
        ],
    );
}
