//! The table of cases, and the tests that are made of it.

use super::{case::Case, cases, feature::Feature};

/// Makes the table [`CASES`] and the macro [`conformance_tests`](crate::conformance_tests) of one list.
macro_rules! catalogue {
    ($d:tt $( $family:ident { $( $name:ident [ $($need:ident),* ] )* } )*) => {
        /// Every case of the suite.
        pub const CASES: &[Case] = &[ $( $(
            Case {
                family: stringify!($family),
                name: stringify!($name),
                needs: &[ $( Feature::$need ),* ],
                run: |trial| Box::pin(cases::$family::$name(trial)),
            },
        )* )* ];

        /// Makes one `#[test]` of each case of the suite, for the [`Subject`](crate::conformance::Subject)
        /// that the expression gives. In a module of its own the tests are named as
        /// `alpha_cli::dropping_the_turn_stops_its_processes`.
        ///
        /// ```no_run
        /// mod reference {
        ///     nexus_testkit::conformance_tests!(nexus_testkit::conformance::reference::ReferenceSubject);
        /// }
        /// ```
        #[macro_export]
        macro_rules! conformance_tests {
            ($d subject:expr) => {
                $( $(
                    #[test]
                    fn $name() {
                        $d crate::conformance::hold(&$d subject, stringify!($name));
                    }
                )* )*

                #[test]
                fn every_declared_capability_has_a_case_that_runs() {
                    $d crate::conformance::hold_declarations(&$d subject);
                }
            };
        }
    };
}

catalogue! { $
    text {
        a_short_answer_arrives []
        an_answer_beyond_ascii_arrives_unharmed []
        text_comes_in_pieces [Deltas]
        thinking_is_shown_apart_from_the_answer [Thinking]
        an_answer_of_a_mebibyte_arrives_byte_for_byte []
        a_slow_sink_costs_no_byte_of_the_answer []
    }
    failure {
        a_refused_credential_is_unauthenticated []
        a_connection_that_is_refused_is_a_transport_error []
    }
}
