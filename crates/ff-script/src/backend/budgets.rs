//! Budgets, and what is used of them.

use std::collections::BTreeMap;

use ff_core::backend::Handle;
use ff_core::contracts::{
    BudgetCreated, BudgetDeleted, BudgetEvent, BudgetPage, BudgetRecord, BudgetReset, BudgetScope,
    BudgetUsagePage, CreateBudget, DimensionUsage, ListBudgetUsage, ListBudgets, PartitionFailure,
    ReportUsageResult, ResetBudget, UpdateBudget, UsageDimensions,
};
use ff_core::engine_backend::{Answer, Budgets};
use ff_core::error::{Code, EngineError};
use ff_core::partition::{Partition, PartitionFamily};
use ff_core::policy::ExecutionPolicy;
use ff_core::types::{BudgetId, ExecutionId, ExecutionRef, FlowId, TimestampMs};

use super::executions::named;
use super::facts::Decided;
use super::pages::Span;
use super::{FIRST, ScriptBackend};
use crate::calls::attachment::{AttachBudget, NoteBudget, NoteBudgetReply};
use crate::calls::budget::{
    self, BudgetRow, CreateBudgetReply, DeleteBudgetReply, DescribeBudget, DescribeBudgetReply,
    DimensionRow, ListBudgetUsageReply, ListBudgetsReply, ResetBudgetReply, limits,
};
use crate::calls::usage::{ReportUsageAndCheck, ReportUsageAndCheckReply, ReserveUsage, amounts};
use crate::gate::Verdict;
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

impl<H: Host + ?Sized> Budgets for ScriptBackend<H> {
    fn create_budget(&self, request: CreateBudget) -> Answer<'_, BudgetCreated> {
        Box::pin(self.make_budget(request))
    }

    fn describe_budget(&self, budget_id: BudgetId) -> Answer<'_, BudgetRecord> {
        Box::pin(self.read_budget(budget_id))
    }

    fn update_budget(
        &self,
        budget_id: BudgetId,
        request: UpdateBudget,
    ) -> Answer<'_, BudgetRecord> {
        Box::pin(async move {
            request.validate()?;
            let call = budget::UpdateBudget {
                budget_id,
                on_hard_limit: request.on_hard_limit,
                reset_interval_ms: request.reset_interval_ms,
                dimensions: limits(&request.dimensions),
            };
            self.call(self.budget_partition(budget_id), call).await?;
            self.read_budget(budget_id).await
        })
    }

    fn delete_budget(&self, budget_id: BudgetId) -> Answer<'_, BudgetDeleted> {
        Box::pin(async move {
            let BudgetRecord { scope_type, scope_id, .. } = match self.read_budget(budget_id).await
            {
                Err(error) if error.code() == Some(Code::BudgetNotFound) => {
                    return Ok(BudgetDeleted::default());
                }
                record => record?,
            };
            // The budget alone knows its scope: it goes last, so that whoever is cut off can repeat
            // it.
            let failed = self.attach(budget_id, scope_type, &scope_id, false).await?;
            Ok(BudgetDeleted { deleted: self.remove(budget_id).await?, failed })
        })
    }

    fn list_budgets(&self, query: ListBudgets) -> Answer<'_, BudgetPage> {
        Box::pin(self.page_of_budgets(query))
    }

    fn reset_budget(&self, budget_id: BudgetId, request: ResetBudget) -> Answer<'_, BudgetReset> {
        Box::pin(async move {
            let call = budget::ResetBudget {
                budget_id,
                due_only: request.due_only,
                request_id: named(request.request_id),
            };
            let (ResetBudgetReply::Reset { next_reset_at, reset_count }
            | ResetBudgetReply::ResetBefore { next_reset_at, reset_count }) =
                self.call(self.budget_partition(budget_id), call).await?;
            Ok(BudgetReset { next_reset_at, reset_count })
        })
    }

    fn list_budget_usage(
        &self,
        budget_id: BudgetId,
        query: ListBudgetUsage,
    ) -> Answer<'_, BudgetUsagePage> {
        Box::pin(async move {
            let (offset, limit) = query.checked()?;
            let call = budget::ListBudgetUsage { budget_id, offset: Some(offset), limit };
            let ListBudgetUsageReply::Page { usage } =
                self.call(self.budget_partition(budget_id), call).await?;
            Ok(BudgetUsagePage { usage: usage.0 })
        })
    }

    fn report_usage<'a>(
        &'a self,
        handle: &'a Handle,
        budget_id: BudgetId,
        usage: UsageDimensions,
    ) -> Answer<'a, ReportUsageResult> {
        Box::pin(async move {
            let call = ReportUsageAndCheck {
                budget_id,
                execution_id: handle.execution_id,
                lease_epoch: handle.fence.lease_epoch,
                amounts: amounts(&usage.checked()?),
                dedup_key: key(usage),
            };
            let reply = self.call(self.budget_partition(budget_id), call).await?;
            Ok(match reply {
                ReportUsageAndCheckReply::Within {} => ReportUsageResult::Ok,
                ReportUsageAndCheckReply::SoftBreach { dimension, usage, limit } => {
                    let (current_usage, soft_limit) = (usage, limit);
                    ReportUsageResult::SoftBreach { dimension, current_usage, soft_limit }
                }
                ReportUsageAndCheckReply::HardBreach { dimension, usage, limit, ask, .. } => {
                    if let Some(number) = ask {
                        self.ask_at_once(handle, budget_id, number).await;
                    }
                    let (current_usage, hard_limit) = (usage, limit);
                    ReportUsageResult::HardBreach { dimension, current_usage, hard_limit }
                }
                ReportUsageAndCheckReply::AppliedBefore { .. } => ReportUsageResult::AlreadyApplied,
            })
        })
    }

    fn reserve_usage<'a>(
        &'a self,
        handle: &'a Handle,
        budget_id: BudgetId,
        usage: UsageDimensions,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let call = ReserveUsage {
                budget_id,
                execution_id: handle.execution_id,
                lease_epoch: handle.fence.lease_epoch,
                amounts: amounts(&usage.checked()?),
                dedup_key: key(usage),
            };
            self.call(self.budget_partition(budget_id), call).await.map(drop)
        })
    }
}

/// What is sent again because its answer was lost is recognised by its key: one without is named.
fn key(usage: UsageDimensions) -> String {
    usage.dedup_key.unwrap_or_else(|| SystemIds.random().to_string())
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Refuses a policy that names a budget which is not there. No partition of executions knows
    /// all budgets, so that each is asked for.
    pub(super) async fn check_budgets(&self, policy: &ExecutionPolicy) -> Result<(), EngineError> {
        for budget_id in &policy.budget_ids {
            let call = DescribeBudget { budget_id: *budget_id };
            self.call(self.budget_partition(*budget_id), call).await?;
        }
        Ok(())
    }

    /// Has people asked before the worker goes on. It is owed already: if it fails here, the engine
    /// does it.
    async fn ask_at_once(&self, handle: &Handle, budget: BudgetId, number: u64) {
        let (epoch, execution_id) = (handle.fence.lease_epoch, handle.execution_id);
        let verdict = Verdict::Ask { number, epoch, budget, execution_id };
        if let Err(error) = self.carry_out_verdict(verdict).await {
            tracing::warn!(%execution_id, %error, "people could not be asked yet");
        }
    }

    /// Where a budget lives.
    pub(super) fn budget_partition(&self, budget_id: BudgetId) -> Partition {
        self.config.partition_of(PartitionFamily::Budget, budget_id.as_bytes())
    }

    async fn make_budget(&self, request: CreateBudget) -> Result<BudgetCreated, EngineError> {
        request.validate()?;
        let scope_id = self.whole_scope(request.scope_type, request.scope_id)?;
        let fresh = || BudgetId::from_uuid(SystemIds.ordered());
        let budget_id = request.budget_id.unwrap_or_else(fresh);
        let call = budget::CreateBudget {
            budget_id,
            scope_type: request.scope_type,
            scope_id: scope_id.clone(),
            on_hard_limit: request.on_hard_limit,
            reset_interval_ms: request.reset_interval_ms,
            name: request.name,
            dimensions: limits(&request.dimensions),
        };
        let reply = self.call(self.budget_partition(budget_id), call).await?;
        let created = matches!(reply, CreateBudgetReply::Created { .. });
        match self.attach(budget_id, request.scope_type, &scope_id, true).await {
            // It would never apply to anything.
            Err(error) if created && error.code() == Some(Code::FactsLimitExceeded) => {
                self.remove(budget_id).await?;
                Err(error)
            }
            failed => Ok(BudgetCreated { budget_id, created, failed: failed? }),
        }
    }

    /// Removes a budget that applies to nothing new; gives whether it was there.
    async fn remove(&self, budget_id: BudgetId) -> Result<bool, EngineError> {
        let call = budget::DeleteBudget { budget_id };
        let reply = self.call(self.budget_partition(budget_id), call).await?;
        Ok(matches!(reply, DeleteBudgetReply::Deleted { .. }))
    }

    /// A scope as it is stored: an execution with its partition, however it was named.
    fn whole_scope(&self, scope: BudgetScope, id: String) -> Result<String, EngineError> {
        if scope != BudgetScope::Execution {
            return Ok(id);
        }
        let unknown = |_| EngineError::refused(Code::InvalidBudgetScope);
        let name: ExecutionRef = id.parse().map_err(unknown)?;
        Ok(name.resolve(&self.config)?.to_string())
    }

    /// Makes a budget apply to its scope, or cease to; gives those that could not be told.
    async fn attach(
        &self,
        budget_id: BudgetId,
        scope_type: BudgetScope,
        scope_id: &str,
        attached: bool,
    ) -> Result<Vec<PartitionFailure>, EngineError> {
        let Some((partition, uuid)) = self.home_of(scope_type, scope_id)? else {
            let scope_id = scope_id.to_owned();
            let call = NoteBudget { scope_type, scope_id, budget_id, attached };
            let decided = match self.call(FIRST, call).await? {
                NoteBudgetReply::Changed { revision, before, name, value } => {
                    Decided::Changed { revision, before, name, value }
                }
                NoteBudgetReply::Known { revision, installed, .. } => {
                    Decided::Known { revision, installed }
                }
            };
            return Ok(self.spread(decided).await);
        };
        let call = AttachBudget { scope_type, scope_id: uuid, budget_id, attached };
        self.call(partition, call).await.map(|_| Vec::new())
    }

    /// The one partition that a scope lies in, and its UUID; nothing if it lies in all of them.
    fn home_of(
        &self,
        scope_type: BudgetScope,
        scope_id: &str,
    ) -> Result<Option<(Partition, uuid::Uuid)>, EngineError> {
        let unreadable = |_| EngineError::corrupt("budget", "scope_id", scope_id);
        Ok(match scope_type {
            BudgetScope::Flow => {
                let id: FlowId = scope_id.parse().map_err(unreadable)?;
                Some((self.config.flow_partition_of(id.as_bytes()), id.as_uuid()))
            }
            BudgetScope::Execution => {
                let unreadable = |_| EngineError::corrupt("budget", "scope_id", scope_id);
                let id: ExecutionId = scope_id.parse().map_err(unreadable)?;
                id.check(&self.config)?;
                Some((id.partition(), id.uuid()))
            }
            _ => None,
        })
    }

    pub(super) async fn read_budget(
        &self,
        budget_id: BudgetId,
    ) -> Result<BudgetRecord, EngineError> {
        self.read_budget_and_running(budget_id).await.map(|(record, _)| record)
    }

    /// The same, with the latest of those that run under it.
    pub(super) async fn read_budget_and_running(
        &self,
        budget_id: BudgetId,
    ) -> Result<(BudgetRecord, Vec<ExecutionId>), EngineError> {
        let partition = self.budget_partition(budget_id);
        let DescribeBudgetReply::Described { budget, users, partitions_waiting, events, running } =
            self.call(partition, DescribeBudget { budget_id }).await?;
        let record = BudgetRecord {
            users: Some(users),
            partitions_waiting: Some(partitions_waiting),
            events: events.0.iter().rev().filter_map(|text| event(text)).collect(),
            ..record(budget)
        };
        Ok((record, running.0))
    }

    async fn page_of_budgets(&self, query: ListBudgets) -> Result<BudgetPage, EngineError> {
        let limit = query.checked_limit()?;
        let (family, cursor) = (PartitionFamily::Budget, query.cursor);
        let span = Span { family, partition: None, cursor, limit };
        let call = |cursor, limit| budget::ListBudgets { cursor, limit };
        let open = |ListBudgetsReply::Page { budgets, next_cursor }| {
            (budgets.0.into_iter().map(record).collect(), next_cursor)
        };
        let (budgets, next_cursor) = self.list_from(span, call, open).await?;
        Ok(BudgetPage { budgets, next_cursor })
    }
}

fn record(BudgetRow { budget_id, settings, dimensions }: BudgetRow) -> BudgetRecord {
    let usage = |DimensionRow { name, hard, soft, used, reserved }: DimensionRow| {
        (name, DimensionUsage { hard, soft, used, reserved })
    };
    let dimensions: BTreeMap<_, _> = dimensions.0.into_iter().map(usage).collect();
    BudgetRecord {
        budget_id,
        name: settings.name,
        scope_type: settings.scope_type,
        scope_id: settings.scope_id,
        on_hard_limit: settings.on_hard_limit,
        reset_interval_ms: settings.reset_interval_ms,
        next_reset_at: settings.next_reset_at,
        last_reset_at: settings.last_reset_at,
        reset_count: settings.reset_count.unwrap_or_default(),
        breach_count: settings.breach_count.unwrap_or_default(),
        soft_breach_count: settings.soft_breach_count.unwrap_or_default(),
        last_breach_at: settings.last_breach_at,
        last_breach_dimension: settings.last_breach_dimension,
        created_at: settings.created_at,
        changed_at: settings.changed_at,
        dimensions,
        users: None,
        partitions_waiting: None,
        events: Vec::new(),
    }
}

/// An event as `lua/model/budget.lua` notes it: `at:name:dimension:usage:limit:execution`.
fn event(text: &str) -> Option<BudgetEvent> {
    let mut parts = text.splitn(6, ':');
    let at = TimestampMs::new(parts.next()?.parse().ok()?);
    let event = parts.next()?.to_owned();
    let dimension = parts.next().filter(|name| !name.is_empty()).map(str::to_owned);
    let mut number = || parts.next().and_then(|number| number.parse().ok());
    let (usage, limit) = (number(), number());
    let execution_id = parts.next().and_then(|id| id.parse().ok());
    Some(BudgetEvent { at, event, dimension, usage, limit, execution_id })
}
