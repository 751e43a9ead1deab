//! The server by real HTTP, on every store.

mod client;
mod deployment;
mod server;

mod suite;

mod access;
mod approvals;
mod broken_clients;
mod crash;
mod dashboard;
mod document;
mod drain;
mod large;
mod limits;
mod losses;
mod pages;
mod several;
mod tls;

/// The same scenarios on every store: each on a deployment of its own where that is cheap, all
/// together on the cluster.
macro_rules! on_every_store {
    ($($group:ident :: $scenario:ident),* $(,)?) => {
        mod embedded {
            $(
                #[test]
                fn $scenario() {
                    let server = crate::server::embedded();
                    crate::suite::$group::$scenario(&server.client());
                }
            )*
        }

        mod valkey {
            $(
                #[test]
                fn $scenario() {
                    let valkey = crate::deployment::valkey();
                    let server = crate::server::on(&valkey.url());
                    crate::suite::$group::$scenario(&server.client());
                }
            )*
        }

        #[test]
        fn everything_works_on_a_cluster() {
            let cluster = crate::deployment::cluster();
            let server = crate::server::on(&cluster.url());
            $(
                eprintln!("{}::{}", stringify!($group), stringify!($scenario));
                crate::suite::$group::$scenario(&server.client());
            )*
        }
    };
}

on_every_store! {
    submit::a_submission_is_created_once_and_found_again,
    submit::an_idempotency_key_is_the_same_execution,
    submit::a_debounced_submission_is_the_same_execution_with_another_payload,
    submit::a_singleton_is_skipped_or_queued_and_lives_where_its_key_does,
    submit::a_bulk_answers_every_item_on_its_own,
    submit::bytes_come_back_as_they_were,
    submit::four_mebibytes_come_back_as_they_were,
    submit::a_payload_may_be_given_in_three_forms,
    submit::a_relative_delay_counts_by_the_stores_clock,
    list::filters_and_cursors_find_everything_once,
    many::what_passes_a_filter_is_cancelled_and_replayed,
    work::a_claim_is_repeated_under_its_lease_ids,
    work::a_worker_registers_claims_renews_and_completes,
    work::a_failure_is_retried_and_then_final,
    work::a_delayed_task_goes_on_with_the_same_attempt,
    work::a_task_without_children_goes_on_at_once,
    work::a_cancelled_task_ends_without_a_result,
    work::a_worker_that_leaves_hands_its_tasks_back,
    work::several_lanes_and_several_tasks_come_in_one_claim,
    work::a_claim_takes_only_the_kinds_it_names,
    frames::output_is_written_once_and_read_by_anybody,
    frames::a_summary_is_read_as_the_document_it_is,
    frames::output_is_followed_as_events,
    frames::an_attempt_is_read_and_waited_for_by_its_number,
    frames::output_is_written_as_one_long_request,
    interventions::an_execution_is_cancelled_and_replayed,
    interventions::a_revoked_lease_is_refused_by_its_code,
    interventions::priority_and_tags_can_be_changed,
    interventions::attempts_and_history_tell_what_happened,
    grant::a_grant_of_the_next_execution_becomes_a_task,
    grant::one_execution_can_be_reserved_for_a_worker,
    ids::a_bare_uuid_is_enough_on_every_route,
    ids::a_body_may_name_an_execution_by_its_uuid,
    ids::a_signal_and_a_follower_find_an_execution_by_its_uuid,
    ids::several_submissions_may_name_their_executions_by_uuid,
    ids::what_was_placed_elsewhere_needs_its_whole_id,
    wrong::every_mistake_is_named_with_its_status,
    wrong::strange_ids_are_refused_on_every_route,
    wrong::unknown_paths_and_methods_are_problems_too,
    wrong::stale_tokens_are_refused_by_their_code,
    health::health_readiness_and_metrics_answer,
    health::a_worker_that_is_full_is_counted,
    health::lanes_events_and_the_deployment_can_be_read,
    quotas::a_quota_is_made_read_changed_listed_and_removed,
    quotas::one_at_a_time_is_handed_out_and_the_next_when_it_ends,
    quotas::a_wrong_quota_is_refused_with_the_reason,
    budgets::a_budget_is_made_read_changed_listed_reset_and_removed,
    budgets::a_wrong_budget_is_refused_with_the_reason,
    budgets::an_unknown_budget_is_refused_wherever_it_is_named,
    budgets::a_wrong_report_counts_nothing,
    budgets::a_task_reports_under_its_lease_and_a_full_budget_blocks,
    lanes::a_paused_lane_hands_nothing_out_until_it_is_resumed,
    lanes::a_lane_is_limited_shared_and_listed_with_its_settings,
    lanes::a_full_partition_does_not_refuse_what_may_lie_in_another,
    lanes::what_a_submission_leaves_unsaid_is_taken_from_its_kind,
    approvals::approvers_decide_by_link_and_the_worker_learns_who,
    approvals::the_page_asks_and_its_form_decides,
    approvals::reading_a_link_never_decides,
    approvals::what_is_not_a_choice_is_refused,
    approvals::no_bit_of_a_link_can_be_changed,
    approvals::a_link_of_what_is_gone_leads_nowhere_like_a_forged_one,
    approvals::an_expired_link_says_so_and_decides_nothing,
    approvals::what_is_closed_takes_no_more_decisions,
    approvals::decisions_of_one_approver_at_once_are_one,
    approvals::links_are_made_for_those_who_are_asked,
    approvals::a_rotated_key_is_accepted_for_its_grace_only,
    approvals::only_a_link_makes_an_approver,
    approvals::what_is_asked_is_text_and_nothing_else,
    suspensions::a_signal_ends_a_wait_and_its_worker_reads_it,
    suspensions::a_wrong_token_is_refused_and_counted,
    suspensions::a_waitpoint_is_opened_listed_and_closed,
    suspensions::an_operator_ends_a_wait_once,
    suspensions::a_rotated_secret_signs_from_then_on,
    children::a_task_waits_for_the_children_that_it_added,
    children::children_that_cannot_be_are_refused_with_their_place,
    flows::a_whole_graph_runs_with_what_is_passed,
    flows::the_end_of_a_step_brings_the_next_one,
    work::several_tasks_are_completed_in_one_request,
    flows::a_graph_is_the_same_by_its_key_and_refused_with_another_content,
    flows::what_cannot_run_is_refused_with_its_place,
    flows::a_flow_is_made_step_by_step,
    flows::every_wrong_step_is_refused_by_its_code,
    flows::an_unknown_flow_is_not_found_on_every_route,
    flows::a_cancelled_flow_is_claimed_no_more,
    flows::members_and_flows_come_in_pages,
    flows::a_graph_is_read_in_pages,
    flows::what_failed_runs_again,
    flow_events::a_flow_is_followed_as_events,
    flow_events::the_end_of_a_flow_is_waited_for,
    flow_events::a_graph_may_come_in_lines,
    flow_events::what_is_wrong_in_a_line_is_named,
    waits::a_waiting_claim_is_answered_by_push,
    waits::a_waiting_result_is_answered_by_push,
    waits::a_client_that_hangs_up_loses_no_work,
}
