//! Bringing a partition up to date with the facts that the first one has decided.

use crate::call::functions;
use crate::wire::{List, Rest};

functions! {
    /// Brings the facts of a partition from one revision to another: some of them, or all. `facts`
    /// are names and values in turn; an empty value removes the fact.
    write ff_install_facts(InstallFacts {
        expected: u64,
        revision: u64,
        whole: bool,
        facts: Rest<String>,
    })
    -> InstallFactsReply { "OK" => Installed {}, "ALREADY_SATISFIED" => Known {} }
    refuses [FactsDiffer];

    /// Notes in the first partition that all others have a revision of the facts.
    write ff_confirm_facts(ConfirmFacts { revision: u64 })
    -> ConfirmFactsReply { "OK" => Confirmed {}, "ALREADY_SATISFIED" => Known {} }
    refuses [FactsDiffer];

    /// Reads the revision of the facts of a partition and, if asked, all of them.
    read ff_read_facts(ReadFacts { whole: bool })
    -> ReadFactsReply {
        "OK" => Facts { revision: u64, installed: u64, facts: List<String> },
    }
    refuses [];
}
