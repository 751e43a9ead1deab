//! The server by real HTTP, on every store.

mod client;
mod deployment;
mod server;

mod suite;

mod access;
mod crash;
mod document;
mod drain;
mod large;
mod limits;
mod losses;
mod pages;
mod rude;
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
    submit::a_bulk_answers_every_item_on_its_own,
    submit::bytes_come_back_as_they_were,
    submit::four_mebibytes_come_back_as_they_were,
    submit::a_payload_may_be_given_in_three_forms,
    submit::a_relative_delay_counts_by_the_stores_clock,
    list::filters_and_cursors_find_everything_once,
    work::a_claim_is_repeated_under_its_lease_ids,
    work::a_worker_registers_claims_renews_and_completes,
    work::a_failure_is_retried_and_then_final,
    work::a_delayed_task_goes_on_with_the_same_attempt,
    work::a_task_without_children_goes_on_at_once,
    work::a_cancelled_task_ends_without_a_result,
    work::a_worker_that_leaves_hands_its_tasks_back,
    work::several_lanes_and_several_tasks_come_in_one_claim,
    work::a_claim_takes_only_the_kinds_it_names,
    steer::an_execution_is_cancelled_and_replayed,
    steer::a_revoked_lease_is_refused_by_its_code,
    steer::priority_and_tags_can_be_changed,
    steer::attempts_and_history_tell_what_happened,
    grant::a_grant_of_the_next_execution_becomes_a_task,
    grant::one_execution_can_be_reserved_for_a_worker,
    wrong::every_mistake_is_named_with_its_status,
    wrong::strange_ids_are_refused_on_every_route,
    wrong::unknown_paths_and_methods_are_problems_too,
    wrong::stale_tokens_are_refused_by_their_code,
    health::health_readiness_and_metrics_answer,
    health::lanes_events_and_the_deployment_can_be_read,
    waits::a_waiting_claim_is_answered_by_push,
    waits::a_waiting_result_is_answered_by_push,
    waits::a_client_that_hangs_up_loses_no_work,
}
