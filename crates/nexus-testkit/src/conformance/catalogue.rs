//! The table of cases, and the tests that are generated from it.

use super::{case::Case, cases, feature::Feature};

/// Generates the table [`CASES`] and the macro [`conformance_tests`](crate::conformance_tests) from one list.
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

        /// Generates a `#[test]` for each case of the suite. The expression is the
        /// [`Subject`](crate::conformance::Subject) to test. Put the call into a module, which becomes part of the
        /// names of the tests: `alpha_cli::dropping_the_turn_stops_its_processes`.
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
        a_piece_of_three_mebibytes_is_shown_whole [Deltas]
        a_slow_sink_costs_no_byte_of_the_answer []
    }
    prompt {
        a_prompt_of_a_mebibyte_arrives_whole []
        a_prompt_with_a_slash_is_no_command []
        a_prompt_with_a_dash_is_no_option []
        a_prompt_with_an_at_sign_reads_no_file []
        a_prompt_that_is_a_subcommand_is_a_prompt []
        a_prompt_is_not_trimmed_or_expanded []
        every_text_of_the_prompt_arrives_in_order []
        instructions_stand_above_the_prompt [System]
        the_model_that_is_named_is_asked []
        effort_arrives [Efforts]
        effort_out_of_range_is_clamped_and_reported [Efforts]
        a_picture_arrives [Images]
        a_tiny_picture_arrives_or_is_reported [Images]
    }
    output {
        an_answer_in_shape_is_a_value [Output]
        an_answer_out_of_shape_is_repaired [Output]
        an_answer_that_never_fits_is_given_up [Output]
    }
    tools {
        a_shell_command_runs_in_the_working_directory [AnyShell]
        a_tool_call_is_told_with_its_arguments_and_its_output [AnyShell]
        a_file_that_is_written_lands [AnyWriter]
        two_commands_of_one_id_are_two_records [AnyShell]
        read_only_cannot_write [HarnessTools, ReadOnly]
        workspace_write_cannot_write_outside [HarnessTools, WorkspaceWrite]
        an_extra_root_is_inside_the_sandbox [HarnessTools, WorkspaceWrite, ExtraRoots]
        scoped_only_offers_no_tool [ScopedOnly]
        a_tool_that_fails_is_told_to_the_model [AnyShell]
        tools_called_together_are_all_answered [AnyShell]
        a_level_that_is_a_list_of_tools_is_not_kept_unseen [HarnessTools, ScopedOnly, Process]
        an_ordinary_turn_is_understood [AnyShell]
        what_is_not_understood_may_have_changed_anything [CallerTools]
        a_tool_of_the_callers_is_answered_by_the_caller [CallerTools]
    }
    caller_tools {
        an_answer_may_begin_with_text_where_tools_are_offered [CallerTools]
        an_answer_may_begin_with_a_thought_where_tools_are_offered [CallerTools, Thinking]
        a_call_of_an_unknown_tool_is_answered [CallerTools]
        an_error_of_a_tool_is_told_to_the_model [CallerTools]
        a_tool_that_panics_does_not_fail_the_turn [CallerTools]
        a_tool_that_hangs_is_ended_by_the_idle_limit [CallerTools]
        a_tool_that_hangs_is_ended_by_the_deadline [CallerTools]
        a_tool_that_hangs_is_ended_by_the_token [CallerTools]
        dropping_the_turn_drops_the_running_tool [CallerTools]
        a_picture_that_a_tool_returns_reaches_the_model [CallerTools, Images]
        a_terminal_tool_is_exempt_from_the_budget [CallerTools, ToolCallLimit]
        effects_are_those_of_the_tools_called [CallerTools]
        a_call_that_has_to_be_approved_is_made_once_it_is [CallerTools]
        a_call_that_is_not_approved_is_not_made [CallerTools]
    }
    steering {
        input_reaches_the_agent_between_its_calls [Steering, AnyShell]
        input_is_delivered_once_and_stays_in_the_conversation [Steering, AnyShell]
        input_that_a_credential_is_in_shows_none_of_it [Steering, AnyShell, Credential]
        a_flood_of_input_is_bounded [Steering, AnyShell]
        input_during_the_last_answer_is_not_delivered [Steering]
        input_is_refused_at_once_where_it_cannot_be_delivered []
    }
    scope {
        a_tool_out_of_scope_is_invisible_and_never_asked [CallerTools]
        every_call_of_a_session_is_written_down [CallerTools]
        a_path_out_of_scope_is_denied [CallerTools]
        a_denied_call_changes_nothing [CallerTools]
        beyond_the_budget_an_answer_can_still_be_handed_in [CallerTools, ToolCallLimit]
        a_budget_without_a_way_out_ends_the_turn [CallerTools, ToolCallLimit]
        turns_of_one_session_share_its_budget [CallerTools, ToolCallLimit]
        what_a_failed_turn_did_is_put_back_and_done_anew [CallerTools]
        a_turn_that_is_over_holds_on_to_no_tool [CallerTools]
        calls_of_one_reply_are_each_answered_with_their_own [CallerTools]
        a_big_answer_arrives_whole [CallerTools]
        tools_and_an_output_schema_go_together [CallerTools, Output]
        tools_that_the_program_does_not_reach_are_missed [CallerTools, Process]
    }
    submission {
        a_submission_ends_the_turn [CallerTools]
        text_before_a_submission_is_no_answer [CallerTools]
        a_submission_that_does_not_fit_is_answered [CallerTools]
        submissions_that_are_refused_end_the_turn [CallerTools]
        of_two_submissions_the_first_counts [CallerTools]
        nothing_is_at_work_when_an_answer_is_handed_in [CallerTools]
        a_failure_after_a_submission_is_none [CallerTools]
        an_answer_in_shape_is_owed_beside_a_submission [CallerTools, Output]
        a_conversation_goes_on_after_a_submission [CallerTools, Resume]
        a_session_whose_answer_was_handed_in_takes_no_other_turn [CallerTools]
        what_is_called_after_a_submission_is_not_asked [OwnLoop, CallerTools, ScopedOnly]
    }
    own_loop {
        calls_run_at_once_and_results_keep_their_order [OwnLoop, CallerTools, ScopedOnly]
        arguments_that_are_not_json_are_answered [OwnLoop, CallerTools, ScopedOnly]
        an_answer_of_ten_megabytes_arrives_whole [OwnLoop, CallerTools, ScopedOnly]
        a_hundred_calls_at_once_are_each_answered_once [OwnLoop, CallerTools, ScopedOnly]
        calls_of_one_id_are_both_answered_and_told_apart [OwnLoop, CallerTools, ScopedOnly]
        a_call_repeated_for_ever_is_ended [OwnLoop, CallerTools, ScopedOnly, ModelCallLimit]
        a_turn_starts_no_process [OwnLoop]
    }
    session {
        a_kept_conversation_goes_on [Resume]
        an_older_handle_goes_on_where_its_backend_declares [Resume]
        a_lost_conversation_is_an_error [Resume]
        a_lost_conversation_begins_afresh_if_allowed [Resume]
        a_handle_of_another_backend_is_refused [Resume]
        a_turn_that_is_not_kept_has_no_handle []
        a_kept_conversation_holds_no_credential [Credential, Resume]
    }
    forget {
        a_forgotten_conversation_is_lost [Resume, Deletes]
        forgetting_twice_finds_nothing [Resume, Deletes]
        every_handle_of_a_conversation_is_forgotten_with_it [Resume, Deletes]
        a_conversation_in_use_is_not_forgotten [Resume, Deletes]
        a_handle_from_elsewhere_deletes_nothing [Resume]
        a_conversation_in_its_handle_is_stored_nowhere [Resume, InHandle]
        a_handle_of_another_backend_is_not_forgotten []
    }
    usage {
        usage_is_what_the_vendor_counted []
        usage_adds_up_over_the_calls_of_a_turn [AnyShell]
        usage_that_is_not_reported_is_not_invented []
        the_cost_is_stated [Cost]
    }
    limits {
        the_deadline_ends_a_turn []
        a_model_that_never_begins_starves_the_turn []
        a_model_that_falls_silent_starves_the_turn []
        a_slow_model_that_speaks_is_left_alone [Deltas]
        a_long_silent_tool_is_left_alone [AnyShell]
        tool_calls_are_limited [AnyShell, ToolCallLimit]
        model_calls_are_limited [AnyShell, ModelCallLimit]
        output_tokens_are_limited [AnyShell, OutputTokenLimit]
        the_cost_is_limited [AnyShell, CostLimit]
    }
    failure {
        a_refused_credential_is_unauthenticated []
        what_is_forbidden_is_forbidden []
        a_model_that_is_not_there_is_unavailable []
        a_rate_limit_that_names_its_time_asks_for_patience []
        a_rate_limit_without_a_word_asks_for_patience []
        a_rate_limit_of_a_century_is_cut_to_a_day []
        silence_after_a_rate_limit_is_the_rate_limit []
        a_plan_that_is_used_up_says_until_when []
        a_server_that_fails_is_a_failure_of_the_vendor []
        a_vendor_without_capacity_is_overloaded []
        a_request_that_the_vendor_cannot_use_is_invalid []
        a_conversation_that_fills_the_window_is_too_long []
        a_connection_that_is_refused_is_a_transport_error []
        an_answer_torn_once_is_asked_for_again []
        an_answer_torn_every_time_is_a_transport_error []
        an_error_in_the_middle_of_an_answer_is_no_success []
        an_answer_that_cannot_be_read_is_no_success []
        a_page_of_html_is_a_transport_error []
        an_answer_without_its_end_is_no_success []
        a_refusal_is_refused []
        no_answer_is_no_success []
        an_answer_of_blanks_is_no_success []
        an_answer_that_came_right_is_shown_once []
        an_answer_cut_by_its_bound_is_incomplete []
        a_failure_after_a_tool_keeps_what_was_done [AnyShell]
    }
    credential {
        a_refused_credential_is_renewed_once [Credential]
        a_second_refusal_is_final [Credential]
        a_server_that_repeats_the_credential_is_not_repeated [Credential]
        a_credential_in_pieces_is_not_repeated [Credential]
        a_thought_of_the_credential_is_not_repeated [Credential, Thinking]
        a_credential_in_a_call_reaches_no_tool_and_no_decision [Credential, CallerTools, ScopedOnly]
        a_credential_in_a_command_is_not_repeated [Credential, AnyShell]
        what_was_done_is_not_done_again_for_a_credential [AnyShell]
    }
    cancel {
        a_token_cancelled_before_the_start_spends_nothing []
        a_token_stops_a_turn_while_the_model_speaks []
        a_token_stops_a_turn_while_a_tool_runs [AnyShell]
        a_token_stops_a_turn_whose_sink_is_never_ready []
        dropping_the_turn_while_the_model_speaks_stops_its_processes []
        dropping_the_turn_stops_its_processes [AnyShell]
        no_process_outlives_a_turn_that_ended_well [Process]
        a_process_that_hides_ends_with_the_token [Process, AnyShell]
        a_process_that_hides_ends_with_the_drop [Process, AnyShell]
    }
    request {
        a_working_directory_that_is_missing_is_refused []
        a_working_directory_that_is_a_file_is_refused []
        an_empty_prompt_is_refused []
        what_is_not_declared_is_refused []
        capabilities_never_change []
        a_probe_asks_no_model_and_leaves_nothing []
    }
    crowd {
        turns_at_once_do_not_see_each_other []
    }
    telemetry {
        the_spans_of_a_turn_are_one_tree [AnyShell]
        the_spans_of_a_turn_that_fails_say_why []
    }
    secrets {
        the_credential_goes_to_the_model_and_nowhere_else []
        no_argument_list_holds_what_was_sent []
        no_file_is_left_that_holds_what_was_sent []
        the_hosts_own_variables_reach_no_child []
        a_tool_sees_no_credential_and_no_variable_but_those_named [HarnessTools, Unrestricted]
    }
}
