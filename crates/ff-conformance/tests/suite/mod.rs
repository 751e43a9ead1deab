//! The tests. Files that test one module have the name of its file in `lua/`.

mod approval;
mod arg;
mod attachment;
mod backend;
mod backend_waiting;
mod bad_input;
mod between;
mod budget;
mod budget_gates;
mod cancel;
mod capability;
mod change;
mod children;
mod children_flows;
mod claim;
mod claim_next;
mod clock;
mod complete;
mod condition;
mod create;
mod damage;
mod damage_flows;
mod deployment;
mod describe;
mod edge;
mod edges;
mod events;
mod expire;
mod explain;
mod fact;
mod fail;
mod fence;
mod flow;
mod flow_cancel;
mod flow_events;
mod flow_reads;
mod following;
mod gate;
mod grant;
mod graph;
mod hold;
mod hosts;
mod inputs;
mod json;
mod kind;
mod kind_counts;
mod lane;
mod lease;
mod library;
mod list;
mod mark;
mod next_task;
mod next_task_gates;
mod next_tasks;
mod patch;
mod pause;
mod payloads;
mod policy;
mod progress;
mod quota;
mod quota_deaths;
mod reopening;
mod repeats;
mod replay;
mod scenario;
mod scenario_budgets;
mod scenario_flows;
mod scenario_gates;
mod secret;
mod signal;
mod stop;
mod stream;
mod stream_kept;
mod suspend;
mod tags;
mod throttle;
mod tick;
mod usage;
mod waiting;
mod waitpoint;
mod waits;
mod weakness_budgets;
mod weakness_flows;
mod weakness_indexes;
mod weakness_lifecycle;
mod weakness_numbers;
mod weakness_repairs;
mod weakness_replies;
mod weakness_resumed;
mod weakness_validation;
mod weakness_waiting;
mod worker;

use ff_conformance::Case;
use libtest_mimic::Trial;

/// Every test.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [
        library::CASES,
        deployment::CASES,
        create::CASES,
        throttle::CASES,
        attachment::CASES,
        budget::CASES,
        budget_gates::CASES,
        usage::CASES,
        stop::CASES,
        weakness_budgets::CASES,
        claim_next::CASES,
        grant::CASES,
        claim::CASES,
        fence::CASES,
        lease::CASES,
        progress::CASES,
        stream::CASES,
        stream_kept::CASES,
        patch::CASES,
        complete::CASES,
        fail::CASES,
        next_task::CASES,
        next_task_gates::CASES,
        next_tasks::CASES,
        cancel::CASES,
        pause::CASES,
        suspend::CASES,
        waitpoint::CASES,
        waits::CASES,
        signal::CASES,
        approval::CASES,
        condition::CASES,
        secret::CASES,
        expire::CASES,
        fact::CASES,
        explain::CASES,
        replay::CASES,
        reopening::CASES,
        change::CASES,
        hold::CASES,
        gate::CASES,
        waiting::CASES,
        quota::CASES,
        quota_deaths::CASES,
        describe::CASES,
        list::CASES,
        flow::CASES,
        edge::CASES,
        graph::CASES,
        children::CASES,
        children_flows::CASES,
        flow_cancel::CASES,
        flow_reads::CASES,
        events::CASES,
        flow_events::CASES,
        tick::CASES,
        worker::CASES,
        mark::CASES,
        backend::CASES,
        backend_waiting::CASES,
        payloads::CASES,
        clock::CASES,
        repeats::CASES,
        between::FUNCTION_CASES,
        between::CASES,
        damage::CASES,
        damage_flows::CASES,
        bad_input::CASES,
        weakness_replies::CASES,
        weakness_numbers::CASES,
        weakness_lifecycle::CASES,
        weakness_indexes::CASES,
        weakness_validation::CASES,
        weakness_repairs::CASES,
        weakness_waiting::CASES,
        weakness_resumed::CASES,
        weakness_flows::CASES,
        arg::CASES,
        inputs::CASES,
        json::CASES,
        kind::CASES,
        kind_counts::CASES,
        lane::CASES,
        policy::CASES,
        capability::CASES,
        tags::CASES,
        edges::CASES,
        following::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Tests that run once, whatever the hosts.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = library::trials();
    trials.extend(hosts::trials());
    trials.extend([bad_input::trial(), repeats::trial(), between::trial()]);
    trials
}
