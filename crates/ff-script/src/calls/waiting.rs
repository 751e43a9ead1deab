//! Partitions that wait for gates.

use crate::call::functions;
use crate::wire::Rest;

functions! {
    /// Partitions wait for gates; tells what was opened for them at once. Three items each: the
    /// gate, the partition and its best score.
    write ff_await_gates(AwaitGates { items: Rest<String> })
    -> AwaitGatesReply { "OK" => Awaited { openings: Vec<String> } }
    refuses [];

    /// Notes what became of openings; tells what was opened elsewhere for places left over. Five
    /// items each: the gate, the entry, how many were let pass, how many wait on, and their best
    /// score.
    write ff_settle_openings(SettleOpenings { items: Rest<String> })
    -> SettleOpeningsReply {
        "OK" => Settled { openings: Vec<String> },
        "ALREADY_SATISFIED" => SettledBefore { openings: Vec<String> },
    }
    refuses [];
}
