//! What the server counts, as text for Prometheus.

mod budgets;
pub(crate) mod depth;
mod histogram;
mod http;
mod kinds;
mod lanes;
mod process;
mod states;
mod text;
mod workers;

pub(crate) use http::Series;
pub(crate) use lanes::Outcome;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ff_core::backend::{Handle, HandleKind};
use ff_core::backend_error::BackendErrorKind;
use ff_core::contracts::{Claimed, WorkRequest};

use budgets::Budgets;
use depth::LatestDepths;
use kinds::Kinds;
use lanes::Lanes;
use states::States;
use text::Text;
use workers::Workers;

use crate::app::App;
use crate::store;

/// Codes that tell a worker that it lost its lease.
const LOST: [&str; 3] = ["stale_lease", "lease_expired", "lease_revoked"];
/// Everything that is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    series: Mutex<Vec<Arc<Series>>>,
    lanes: Lanes,
    kinds: Kinds,
    workers: Workers,
    budgets: Budgets,
    problems: Mutex<BTreeMap<Box<str>, u64>>,
    unmatched: Mutex<BTreeMap<u16, u64>>,
    claims: AtomicU64,
    claims_empty: AtomicU64,
    reclaims: AtomicU64,
    renewals: AtomicU64,
    renewals_refused: AtomicU64,
    workers_at_capacity: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) connections_cut: AtomicU64,
    depths: LatestDepths,
    states: States,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Metrics {
    /// A new series for a route.
    pub(crate) fn series(&self, method: &'static str, route: &'static str) -> Arc<Series> {
        let series = Arc::new(Series::new(method, route));
        self.series.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&series));
        series
    }

    /// A request was refused with this code.
    pub(crate) fn problem(&self, code: &str) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match problems.get_mut(code) {
            Some(count) => *count += 1,
            None => drop(problems.insert(code.into(), 1)),
        }
    }

    /// A request matched no route.
    pub(crate) fn unmatched(&self, status: u16) {
        let mut unmatched = self.unmatched.lock().unwrap_or_else(PoisonError::into_inner);
        *unmatched.entry(status).or_default() += 1;
    }

    /// A worker asks for work.
    pub(crate) fn asked(&self, request: &WorkRequest) {
        self.workers.asks(request);
    }

    /// A claim was answered.
    pub(crate) fn claimed(&self, claimed: &[Claimed]) {
        add(&self.claims);
        if claimed.is_empty() {
            add(&self.claims_empty);
        }
        for claimed in claimed {
            self.lanes.count(&claimed.handle.lane, Outcome::Claimed);
            self.kinds.claimed(claimed);
            if claimed.handle.kind == HandleKind::Reclaimed {
                add(&self.reclaims);
            }
        }
    }

    /// An attempt ended or was given back.
    pub(crate) fn outcome(&self, handle: &Handle, outcome: Outcome) {
        self.lanes.count(&handle.lane, outcome);
        self.kinds.ended(handle, outcome);
        self.workers.speaks(&handle.worker_instance_id);
    }

    /// A worker said that it runs as many tasks as it may.
    pub(crate) fn worker_at_capacity(&self) {
        add(&self.workers_at_capacity);
    }

    /// A budget's hard limit was reached.
    pub(crate) fn budget_hit(&self, dimension: &str) {
        self.budgets.hit(dimension);
    }

    /// A lease was renewed, or could not be.
    pub(crate) fn renewed(&self, handle: &Handle, renewed: bool) {
        self.workers.speaks(&handle.worker_instance_id);
        add(if renewed { &self.renewals } else { &self.renewals_refused });
    }
}

/// All numbers as text.
pub(crate) async fn render(app: &App) -> String {
    let metrics = &app.metrics;
    let mut text = Text::default();
    text.family("ff_build_info", "gauge", "The server and its store.");
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("store", app.backend.name())];
    text.sample("ff_build_info", &labels, 1);
    metrics.render_http(&mut text);
    let about = "Requests that wait for work or for an end.";
    text.number("ff_http_waiting", "gauge", about, app.requests.waiting());
    metrics.render_work(&mut text);
    metrics.render_problems(&mut text);
    render_engine(app, &mut text);
    render_admission(app, &mut text);
    render_store(app, &mut text);
    process::render(&mut text);
    metrics.depths.render(app, &mut text).await;
    metrics.states.render(app, &metrics.workers, &mut text).await;
    text.finish()
}

impl Metrics {
    fn render_http(&self, text: &mut Text) {
        text.number("ff_http_connections", "gauge", "Open connections.", read(&self.connections));
        let about = "Connections that were turned away because there were too many.";
        let refused = read(&self.connections_refused);
        text.number("ff_http_connections_refused_total", "counter", about, refused);
        let about = "Silent connections that were cut because others needed their places.";
        let cut = read(&self.connections_cut);
        text.number("ff_http_connections_cut_total", "counter", about, cut);
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unmatched = self.unmatched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        http::render(&series, &unmatched, text);
    }

    fn render_work(&self, text: &mut Text) {
        text.number("ff_claims_total", "counter", "Claims answered.", read(&self.claims));
        let about = "Claims answered without a task.";
        text.number("ff_claims_empty_total", "counter", about, read(&self.claims_empty));
        let about = "Tasks taken over from lost workers.";
        text.number("ff_reclaims_total", "counter", about, read(&self.reclaims));
        let about = "Heartbeats of workers that run as many tasks as they may.";
        let full = read(&self.workers_at_capacity);
        text.number("ff_worker_at_capacity_total", "counter", about, full);
        text.family("ff_lease_renewal_total", "counter", "Lease renewals by outcome.");
        text.sample("ff_lease_renewal_total", &[("outcome", "ok")], read(&self.renewals));
        let refused = read(&self.renewals_refused);
        text.sample("ff_lease_renewal_total", &[("outcome", "error")], refused);
        let about = "Workers that this server heard of in the last two minutes.";
        text.number("ff_workers", "gauge", about, self.workers.count());
        self.lanes.render(text);
        self.kinds.render(text);
        self.budgets.render(text);
    }

    fn render_problems(&self, text: &mut Text) {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let count = |code: &str| problems.get(code).copied().unwrap_or_default();
        text.family("ff_problems_total", "counter", "Requests refused, by code.");
        for (code, count) in &problems {
            text.sample("ff_problems_total", &[("code", code)], *count);
        }
        text.family("ff_lease_losses_total", "counter", "Calls by workers that lost their lease.");
        for code in LOST {
            text.sample("ff_lease_losses_total", &[("code", code)], count(code));
        }
        text.family("ff_store_errors_total", "counter", "Trouble with the store, by kind.");
        for kind in BackendErrorKind::ALL.iter().map(|kind| kind.as_str()) {
            text.sample("ff_store_errors_total", &[("kind", kind)], count(kind));
        }
    }
}

/// Claims that gates refused.
fn render_admission(app: &App, text: &mut Text) {
    let admission = app.store.backend().admission();
    let about = "Claims that a quota refused, by reason.";
    text.family("ff_quota_hit_total", "counter", about);
    text.sample("ff_quota_hit_total", &[("reason", "rate")], admission.rate());
    text.sample("ff_quota_hit_total", &[("reason", "concurrency")], admission.concurrency());
}

fn render_engine(app: &App, text: &mut Text) {
    let engine = app.engine();
    let Some(stats) = engine.as_ref().map(|engine| engine.stats()) else { return };
    for (name, about, value) in [
        ("ff_engine_ticks_total", "Ticks answered.", stats.ticks()),
        ("ff_engine_tick_failures_total", "Ticks that failed.", stats.failures()),
        ("ff_engine_promoted_total", "Delays that ended.", stats.promoted()),
        ("ff_engine_leases_lapsed_total", "Leases that ran out.", stats.lapsed()),
        ("ff_engine_timed_out_total", "Attempts that ran out of time.", stats.timed_out()),
        ("ff_engine_expired_total", "Executions that reached their deadline.", stats.expired()),
        ("ff_engine_grants_lapsed_total", "Grants that were not used.", stats.granted_back()),
        ("ff_engine_purged_total", "Executions removed after their retention.", stats.purged()),
        ("ff_engine_keys_forgotten_total", "Idempotency keys forgotten.", stats.forgotten()),
        ("ff_engine_corrected_total", "Index entries put right.", stats.corrected()),
    ] {
        text.number(name, "counter", about, value);
    }
    let about = "Partitions that this server's engine looks after.";
    text.number("ff_engine_partitions", "gauge", about, stats.partitions());
    let about = "Flows that owe an end to members: being cancelled, or some could not be.";
    text.number("ff_cancel_backlog_depth", "gauge", about, stats.owing());
    let seconds = |millis| Duration::from_millis(millis).as_secs_f64();
    let about = "How late the latest tick was that found something due.";
    text.number("ff_engine_tick_lag_seconds", "gauge", about, seconds(stats.late_ms()));
    let about = "How late any such tick was since the start.";
    text.number("ff_engine_tick_lag_seconds_max", "gauge", about, seconds(stats.late_ms_max()));
}

fn render_store(app: &App, text: &mut Text) {
    if let Some((losses, durable)) = store::losses(&app.store) {
        let about = "Times that the store was found to have lost acknowledged work.";
        text.number("ff_store_losses_total", "counter", about, losses);
        let about = "1 if all servers of the store keep what they acknowledge on disk.";
        text.number("ff_store_durable", "gauge", about, u64::from(durable));
    }
    let Some(stats) = store::stats(&app.store) else { return };
    let about = "Bytes of memory that the keys and values of the store take.";
    text.number("ff_store_memory_bytes", "gauge", about, stats.memory_used);
    if let Some(limit) = stats.memory_limit {
        let about = "Bytes that they may take; beyond that, what adds work is refused.";
        text.number("ff_store_memory_limit_bytes", "gauge", about, limit);
    }
    for (name, about, value) in [
        ("ff_store_calls_total", "Calls that were run.", stats.calls),
        ("ff_journal_transactions_total", "Calls appended to the journal.", stats.transactions),
        ("ff_journal_bytes_total", "Bytes appended to the journal.", stats.journal_bytes),
        ("ff_journal_syncs_total", "Syncs of the journal.", stats.journal_syncs),
        ("ff_journal_compactions_total", "Rewrites of the journal.", stats.compactions),
        (
            "ff_journal_compactions_failed_total",
            "Rewrites of the journal that failed.",
            stats.compactions_failed,
        ),
    ] {
        text.number(name, "counter", about, value);
    }
}
