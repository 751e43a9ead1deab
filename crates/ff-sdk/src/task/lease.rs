//! What a task knows about its lease: until when it certainly holds, and when it is lost.

use std::sync::Arc;
use std::time::Duration;

use ff_core::error::EngineError;
use ff_core::types::BudgetId;
use tokio::sync::watch;
use tokio::time::Instant;

/// A lease counts as unhealthy this long before its end, or a tenth of its length if that is less:
/// whoever acts on "healthy" still needs a moment to act.
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// Why a lease is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// It could not be renewed in time.
    Expired,
    /// The attempt, or the whole execution, ran out of the time that its policy gives it.
    TimedOut,
    /// The store says that it is no longer ours.
    Refused(EngineError),
    /// The worker was shut down and handed it back.
    HandedBack,
}

impl std::fmt::Display for LeaseLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Expired => f.write_str("the lease could not be renewed in time"),
            Self::TimedOut => f.write_str("the time of the attempt or the execution is over"),
            Self::Refused(error) => error.fmt(f),
            Self::HandedBack => f.write_str("the worker was shut down and handed the lease back"),
        }
    }
}

/// A view of a task's lease that can be kept apart from the task.
#[derive(Clone, Debug)]
pub struct LeaseMonitor(pub(crate) Arc<Lease>);

impl LeaseMonitor {
    /// True only while the lease is certainly held, with a margin to act.
    pub fn is_healthy(&self) -> bool {
        self.0.is_healthy()
    }

    /// Until when the lease certainly holds.
    pub fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    /// Why the lease was lost, if it was.
    pub fn loss(&self) -> Option<LeaseLoss> {
        self.0.loss()
    }

    /// Returns when the lease is lost; never, if the task ends before.
    pub async fn lost(&self) -> LeaseLoss {
        self.0.lost().await
    }
}

/// The lease of one task.
#[derive(Debug)]
pub(crate) struct Lease {
    state: watch::Sender<State>,
    ttl: Duration,
}

#[derive(Debug)]
struct State {
    /// Until when the lease certainly holds.
    held_until: Instant,
    /// When the store ends the attempt, renewed or not.
    over_at: Option<Instant>,
    failures: u32,
    last_error: Option<EngineError>,
    /// Budgets whose hard limit is reached, as far as renewals and reports told.
    budgets_reached: Vec<BudgetId>,
    end: Option<End>,
}

#[derive(Debug)]
enum End {
    Lost(LeaseLoss),
    /// An outcome was reported: there is nothing left to lose.
    Settled,
}

impl State {
    fn deadline(&self) -> Instant {
        self.over_at.map_or(self.held_until, |over_at| over_at.min(self.held_until))
    }

    /// Loss is a matter of time too: nobody needs to have noticed.
    fn loss(&self) -> Option<LeaseLoss> {
        match &self.end {
            Some(End::Lost(loss)) => Some(loss.clone()),
            Some(End::Settled) => None,
            None if Instant::now() < self.deadline() => None,
            None if self.deadline() < self.held_until => Some(LeaseLoss::TimedOut),
            None => Some(LeaseLoss::Expired),
        }
    }
}

impl Lease {
    pub(crate) fn new(held_until: Instant, over_at: Option<Instant>, ttl: Duration) -> Self {
        let (last_error, budgets_reached, end) = (None, Vec::new(), None);
        let state = State { held_until, over_at, failures: 0, last_error, budgets_reached, end };
        Self { state: watch::Sender::new(state), ttl }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.state.borrow().deadline()
    }

    /// How long the lease certainly holds from now.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_healthy(&self) -> bool {
        let state = self.state.borrow();
        let margin = (self.ttl / 10).min(MARGIN_MAX);
        state.end.is_none() && Instant::now() + margin < state.deadline()
    }

    pub(crate) fn loss(&self) -> Option<LeaseLoss> {
        self.state.borrow().loss()
    }

    pub(crate) fn failures(&self) -> u32 {
        self.state.borrow().failures
    }

    pub(crate) fn last_error(&self) -> Option<EngineError> {
        self.state.borrow().last_error.clone()
    }

    /// A renewal sent at this moment was granted. One that comes after the loss changes nothing:
    /// whoever saw the loss has acted on it.
    pub(crate) fn renewed(&self, sent: Instant) {
        self.state.send_modify(|state| match state.loss() {
            Some(loss) => state.end = Some(End::Lost(loss)),
            None => {
                state.held_until = state.held_until.max(sent + self.ttl);
                state.failures = 0;
            }
        });
    }

    /// A renewal told which budgets' hard limits are reached.
    pub(crate) fn tell_reached(&self, budgets: Vec<BudgetId>) {
        self.state.send_if_modified(|state| {
            let is_news = state.budgets_reached != budgets;
            state.budgets_reached = budgets;
            is_news
        });
    }

    /// A report told how one budget stands.
    pub(crate) fn tell_standing(&self, budget: BudgetId, is_reached: bool) {
        let mut budgets = self.budgets_reached();
        budgets.retain(|other| *other != budget);
        if is_reached {
            budgets.push(budget);
        }
        self.tell_reached(budgets);
    }

    /// Budgets whose hard limit is reached, as far as renewals and reports told.
    pub(crate) fn budgets_reached(&self) -> Vec<BudgetId> {
        self.state.borrow().budgets_reached.clone()
    }

    /// Returns when the hard limit of a budget is reached; never, if none is.
    pub(crate) async fn budget_reached(&self) -> BudgetId {
        let mut changes = self.state.subscribe();
        loop {
            if let Some(budget) = changes.borrow_and_update().budgets_reached.first() {
                return *budget;
            }
            // The sender lives as long as we do, so a change is never an end.
            let _ = changes.changed().await;
        }
    }

    /// A renewal failed in a way that the next one may not.
    pub(crate) fn failed(&self, error: EngineError) {
        self.state.send_modify(|state| {
            state.failures = state.failures.saturating_add(1);
            state.last_error = Some(error);
        });
    }

    /// The lease is gone for good.
    pub(crate) fn lose(&self, loss: LeaseLoss) {
        self.state.send_modify(|state| {
            if let LeaseLoss::Refused(error) = &loss {
                state.failures = state.failures.saturating_add(1);
                state.last_error = Some(error.clone());
            }
            state.end.get_or_insert(End::Lost(loss));
        });
    }

    /// The task has ended, or hands the lease back itself.
    pub(crate) fn settle(&self) {
        self.state.send_modify(|state| state.end = Some(End::Settled));
    }

    /// Returns when the lease is lost; never, if it is settled before.
    pub(crate) async fn lost(&self) -> LeaseLoss {
        let mut changes = self.state.subscribe();
        loop {
            let deadline = {
                let state = changes.borrow_and_update();
                match (state.loss(), &state.end) {
                    (Some(loss), _) => return loss,
                    (None, Some(End::Settled)) => None,
                    (None, _) => Some(state.deadline()),
                }
            };
            match deadline {
                None => std::future::pending().await,
                // The sender lives as long as we do, so a change is never an end.
                Some(deadline) => {
                    let _ = tokio::time::timeout_at(deadline, changes.changed()).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff_core::error::Code;

    const TTL: Duration = Duration::from_secs(10);

    fn lease() -> Lease {
        Lease::new(Instant::now() + TTL, None, TTL)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_healthy_until_shortly_before_its_deadline() {
        let lease = lease();
        tokio::time::advance(Duration::from_millis(8_999)).await;
        assert!(lease.is_healthy());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!lease.is_healthy());
        assert_eq!(lease.loss(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lease.loss(), Some(LeaseLoss::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_when_it_was_sent() {
        let lease = lease();
        let sent = Instant::now() + Duration::from_secs(3);
        tokio::time::advance(Duration::from_secs(5)).await;
        lease.renewed(sent);
        assert_eq!(lease.deadline(), sent + TTL);
        assert!(lease.is_healthy());
    }

    #[tokio::test(start_paused = true)]
    async fn transient_trouble_is_counted_and_a_renewal_forgets_it() {
        let lease = lease();
        lease.failed(EngineError::Unavailable { op: "renew" });
        lease.failed(EngineError::Unavailable { op: "renew" });
        assert_eq!((lease.failures(), lease.is_healthy()), (2, true));
        lease.renewed(Instant::now());
        assert_eq!(lease.failures(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_renewal_makes_the_lease_unhealthy_at_once() {
        let lease = lease();
        let refused = LeaseLoss::Refused(EngineError::refused(Code::StaleLease));
        lease.lose(refused.clone());
        assert!(!lease.is_healthy());
        assert_eq!(lease.lost().await, refused);
        lease.renewed(Instant::now());
        assert_eq!(lease.loss(), Some(refused));
    }

    #[tokio::test(start_paused = true)]
    async fn loss_by_time_is_for_ever() {
        let lease = lease();
        assert_eq!(lease.lost().await, LeaseLoss::Expired);
        lease.renewed(Instant::now());
        assert_eq!(lease.loss(), Some(LeaseLoss::Expired));
        assert!(!lease.is_healthy());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_attempt_ends_it_however_often_it_is_renewed() {
        let over_at = Instant::now() + TTL * 2;
        let lease = Lease::new(Instant::now() + TTL, Some(over_at), TTL);
        assert_eq!(lease.deadline(), Instant::now() + TTL);
        for _ in 0..3 {
            tokio::time::advance(TTL / 2).await;
            lease.renewed(Instant::now());
        }
        assert_eq!((lease.deadline(), lease.loss()), (over_at, None));
        assert_eq!(lease.lost().await, LeaseLoss::TimedOut);
        assert_eq!(Instant::now(), over_at);
    }

    #[tokio::test(start_paused = true)]
    async fn what_renewals_and_reports_tell_of_budgets_is_known_until_they_tell_otherwise() {
        let lease = lease();
        let budget: BudgetId = "00000000-0000-4000-8000-000000000007".parse().expect("an id");
        assert_eq!(lease.budgets_reached(), []);
        let waiting = tokio::time::timeout(TTL, lease.budget_reached()).await;
        assert!(waiting.is_err(), "none is reached");
        lease.tell_reached(vec![budget]);
        assert_eq!(lease.budget_reached().await, budget);
        lease.tell_standing(budget, false);
        assert_eq!(lease.budgets_reached(), []);
        lease.tell_standing(budget, true);
        assert_eq!(lease.budgets_reached(), [budget]);
        lease.tell_reached(Vec::new());
        assert_eq!(lease.budgets_reached(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_settled_lease_is_never_lost() {
        let lease = lease();
        lease.settle();
        let lost = tokio::time::timeout(TTL * 3, lease.lost()).await;
        assert!(lost.is_err());
        assert_eq!(lease.loss(), None);
    }
}
