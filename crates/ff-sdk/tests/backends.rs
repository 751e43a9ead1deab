//! One suite for every backend: what a worker or a client can rely on does not depend on where the
//! executions live.

mod site;
mod suite;

macro_rules! on_every_backend {
    ($($group:ident { $($test:ident)* })*) => {
        on_backend! { embedded $($group { $($test)* })* }
        on_backend! { valkey $($group { $($test)* })* }
        on_backend! { server $($group { $($test)* })* }
    };
}

macro_rules! on_backend {
    ($backend:ident $($group:ident { $($test:ident)* })*) => {
        mod $backend {$(
            mod $group {$(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::suite::$group::$test(crate::site::Site::$backend().await).await;
                }
            )*}
        )*}
    };
}

on_every_backend! {
    task {
        several_are_completed_at_once
        a_completed_execution_has_the_bytes_of_its_result
        a_task_knows_everything_about_its_execution
        a_failed_attempt_is_followed_by_another_if_the_policy_says_so
        a_permanent_failure_ends_the_execution
        a_category_that_no_policy_could_list_is_refused_and_the_task_comes_back
        a_result_that_is_too_large_is_refused_and_the_task_comes_back
        a_delayed_execution_goes_on_with_the_same_attempt
        a_worker_can_cancel_its_execution
        an_execution_without_children_is_back_at_once
        progress_is_seen_by_others
        output_is_written_once_and_read_back
        a_dropped_task_is_handed_back_at_once
    }
    lease {
        a_held_task_stays_healthy_beyond_its_first_lease
        a_renewal_outside_the_schedule_extends_the_lease
        a_revoked_lease_is_noticed_and_nothing_is_sent_any_more
        a_cancelled_execution_takes_the_lease_with_it
        the_fence_grows_with_every_lease
    }
    claim {
        a_waiting_claim_is_woken_by_a_submission
        a_worker_without_room_claims_nothing
        a_worker_claims_only_in_its_namespace
        handlers_run_in_the_namespaces_that_are_named
        one_claim_takes_as_many_as_there_is_room_for
        a_claim_that_is_dropped_leaves_nothing_behind
        a_grant_becomes_a_task
        a_grant_for_another_lane_is_refused_and_the_execution_handed_back
        an_interrupted_attempt_goes_on_through_a_grant
        a_lapsed_execution_is_taken_over_through_a_reclaim_grant
        an_execution_goes_to_a_worker_that_can_do_it
        lanes_are_listed_by_name
    }
    registry {
        a_worker_is_listed_while_it_is_connected
        a_registration_is_kept_alive
        a_worker_that_is_started_again_does_not_wait
        a_second_live_process_with_the_same_instance_is_refused
        wrong_settings_leave_no_registration_behind
    }
    shutdown {
        a_shutdown_waits_for_the_tasks
        a_shutdown_hands_back_what_is_left_at_the_deadline
        a_waiting_claim_ends_with_the_shutdown
        a_second_shutdown_does_nothing
    }
    client {
        a_result_is_pushed_to_whoever_waits
        a_wait_ends_with_its_time
        a_wait_for_ever_lasts_until_there_is_a_result
        the_end_of_an_execution_is_told_as_it_was
        a_result_of_another_shape_is_told_apart
        an_execution_is_called_by_its_uuid
        the_same_key_is_the_same_execution
        bytes_of_any_kind_survive
        many_are_submitted_with_few_calls_and_each_on_its_own
        a_delayed_submission_is_not_claimed_before_its_time
        executions_are_listed_by_what_they_are
        a_wrong_submission_is_refused_by_the_field_s_name
    }
    output {
        output_is_followed_from_the_first_frame_to_the_end
        a_new_attempt_replaces_the_output_of_the_old_one
        an_execution_without_output_ends_for_those_who_follow_it
        whoever_takes_over_goes_on_where_the_other_was
        an_attempt_is_read_and_waited_for
        a_follower_of_an_execution_that_goes_at_its_end_is_told_so
        frames_that_travel_together_are_each_told_their_own_number
        a_wrong_read_is_refused_before_anything_is_sent
        an_unknown_execution_cannot_be_followed
        a_resumed_attempt_goes_on_counting
        a_handler_s_output_is_there_before_its_result
        a_frame_that_is_refused_does_not_cost_the_others
        a_reader_that_falls_behind_misses_nothing
    }
    waiting {
        an_execution_goes_on_with_the_signals_that_it_waited_for
        only_the_waitpoint_s_own_token_opens_it
        signals_that_came_before_are_enough_and_the_task_goes_on
        a_refused_suspension_gives_the_task_back
        signals_that_are_too_large_for_a_claim_are_read_apart
        a_time_or_an_operator_ends_a_wait_too
        the_next_attempt_finds_the_same_signals
        tokens_outlive_a_rotation
        a_handler_suspends_and_is_run_again_with_the_signals
        a_handler_whose_signals_came_before_goes_on_at_once
        a_suspension_that_is_refused_fails_the_attempt
    }
    flows {
        a_member_is_given_what_it_waited_for
        the_end_of_a_step_brings_the_next_one
        the_only_result_that_is_passed_is_the_payload
        a_repeated_submission_adds_nothing_and_another_one_is_refused
        a_cycle_is_refused_and_named
        edges_are_read_from_both_ends
        what_does_not_exist_is_no_error_of_a_read
        a_cancelled_flow_tells_what_became_of_each
        members_and_flows_are_listed_in_pages
        a_whole_graph_is_read_at_once
        what_failed_in_a_flow_runs_again
    }
    typed {
        a_call_by_kind_gives_the_kind_s_result
        a_flow_with_types_gives_the_results_of_its_tasks
        failures_free_those_who_wait_for_them
        what_is_wrong_with_a_flow_is_named_and_nothing_is_sent
        the_end_of_a_flow_is_heard_by_push
        a_flow_is_cancelled_with_a_receipt
        who_follows_a_flow_sees_everything_that_happens_in_it
    }
    admission {
        the_end_of_a_step_brings_the_next_one_only_past_its_gates
        who_runs_hears_by_a_renewal_of_a_limit_that_another_reached
    }
    children {
        a_handler_fans_out_waits_and_sums_the_results
        children_may_have_children
        a_worker_that_is_lost_after_it_added_children_changes_nothing
        a_child_is_told_as_it_ended
        children_that_cannot_be_are_refused_with_the_reason
    }
    handler {
        its_errors_may_have_any_type
        it_delays_itself_and_goes_on_in_the_same_attempt
        a_delay_that_is_refused_fails_the_attempt
        it_cancels_its_execution
        it_fails_for_good_whatever_its_errors_are
        it_submits_executions_in_its_own_namespace
        the_policy_of_a_kind_travels_with_every_submission
        the_policy_of_a_kind_holds_for_who_does_not_know_it
        what_failed_is_replayed_and_its_attempts_are_listed
    }
    runtime {
        a_handler_s_output_is_the_result
        handlers_share_the_state
        an_error_is_retried_as_the_policy_says
        a_failure_that_no_retry_can_mend_is_final
        a_panic_is_a_failure_of_its_own_category
        input_that_cannot_be_decoded_fails_without_retries
        a_kind_without_a_handler_waits_for_a_worker_that_has_one
        a_result_that_the_store_refuses_is_a_failure
        a_raw_handler_sees_the_bytes
        no_more_run_at_a_time_than_the_worker_and_the_kind_allow
        what_a_full_kind_has_no_room_for_is_left_to_others
        a_handler_is_dropped_when_its_lease_is_lost
        a_stopped_worker_finishes_what_it_has_begun
        handlers_that_do_not_end_in_time_are_handed_back
        a_handler_reports_progress_and_knows_its_attempt
    }
}
