//! Every function of the library, one row each. The files have the names of those in `lua/verb/`.

pub mod approval;
pub mod attachment;
pub mod budget;
pub mod cancel;
pub mod change;
pub mod children;
pub mod claim;
pub mod claim_next;
pub mod complete;
pub mod create;
pub mod deployment;
pub mod describe;
pub mod edge;
pub mod events;
pub mod expire;
pub mod explain;
pub mod fact;
pub mod fail;
pub mod flow;
pub mod flow_cancel;
pub mod flow_events;
pub mod flow_reads;
pub mod gate;
pub mod grant;
pub mod graph;
pub mod hold;
pub mod inputs;
pub mod kind;
pub mod kind_counts;
pub mod lane;
pub mod lease;
pub mod library;
pub mod list;
pub mod mark;
pub mod pause;
pub mod progress;
pub mod quota;
pub mod replay;
pub mod secret;
pub mod signal;
pub mod stop;
pub mod stream;
pub mod suspend;
pub mod tick;
pub mod usage;
pub mod waiting;
pub mod waitpoint;
pub mod waits;
pub mod worker;

use crate::call::Contract;

/// The contract of every function.
pub fn contracts() -> impl Iterator<Item = Contract> {
    [
        library::CONTRACTS,
        deployment::CONTRACTS,
        fact::CONTRACTS,
        lane::CONTRACTS,
        kind::CONTRACTS,
        create::CONTRACTS,
        claim_next::CONTRACTS,
        grant::CONTRACTS,
        claim::CONTRACTS,
        lease::CONTRACTS,
        progress::CONTRACTS,
        stream::CONTRACTS,
        complete::CONTRACTS,
        fail::CONTRACTS,
        cancel::CONTRACTS,
        pause::CONTRACTS,
        suspend::CONTRACTS,
        waitpoint::CONTRACTS,
        signal::CONTRACTS,
        approval::CONTRACTS,
        secret::CONTRACTS,
        expire::CONTRACTS,
        replay::CONTRACTS,
        change::CONTRACTS,
        worker::CONTRACTS,
        mark::CONTRACTS,
        describe::CONTRACTS,
        list::CONTRACTS,
        kind_counts::CONTRACTS,
        waits::CONTRACTS,
        hold::CONTRACTS,
        gate::CONTRACTS,
        waiting::CONTRACTS,
        quota::CONTRACTS,
        explain::CONTRACTS,
        flow::CONTRACTS,
        edge::CONTRACTS,
        graph::CONTRACTS,
        children::CONTRACTS,
        flow_cancel::CONTRACTS,
        flow_reads::CONTRACTS,
        inputs::CONTRACTS,
        events::CONTRACTS,
        flow_events::CONTRACTS,
        tick::CONTRACTS,
        attachment::CONTRACTS,
        budget::CONTRACTS,
        usage::CONTRACTS,
        stop::CONTRACTS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
