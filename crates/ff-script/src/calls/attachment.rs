//! Budgets are made to apply to what is created in a scope from now on, or cease to.

use ff_core::contracts::BudgetScope;
use ff_core::types::BudgetId;
use uuid::Uuid;

use crate::call::functions;

functions! {
    /// Makes known to all partitions that a budget applies to a namespace, a lane or a kind.
    write ff_note_budget(NoteBudget {
        scope_type: BudgetScope,
        scope_id: String,
        budget_id: BudgetId,
        attached: bool,
    })
    -> NoteBudgetReply {
        "OK" => Changed { revision: u64, before: u64, name: String, value: String },
        "ALREADY_SATISFIED" => Known { revision: u64, installed: u64, value: String },
    }
    refuses [FactsLimitExceeded];

    /// Makes a budget apply to members of a flow, or to one execution, that are yet to be made.
    write ff_attach_budget(AttachBudget {
        scope_type: BudgetScope,
        scope_id: Uuid,
        budget_id: BudgetId,
        attached: bool,
    })
    -> AttachBudgetReply { "OK" => Changed {}, "ALREADY_SATISFIED" => Known {} }
    refuses [FactsLimitExceeded];
}
