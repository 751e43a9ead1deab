//! Hearing of ended executions, and workers that leave, on small deployments: at least once, from a
//! cursor that outlives a crash, with a gap told as one, and with every push lost.

#[path = "completions/site.rs"]
mod site;

use std::collections::BTreeSet;

use ff_core::backend::ScannerFilter;
use ff_core::completion_backend::CompletionCursor;
use ff_core::error::Code;
use ff_core::limits;
use ff_core::types::{ExecutionId, Namespace};

use site::{PARTITIONS, Site};

/// The same claims on every host.
macro_rules! on_every_host {
    ($($claim:ident),* $(,)?) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    super::$claim(crate::site::embedded().await).await;
                }
            )*
        }

        mod valkey {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    super::$claim(crate::site::valkey().await).await;
                }
            )*
        }
    };
}

on_every_host! {
    every_end_is_heard_once_by_each_subscriber,
    a_filter_hands_out_nothing_else,
    a_stored_cursor_goes_on_after_a_crash,
    a_stream_outlives_a_crash_of_the_store,
    a_trimmed_log_is_told_as_a_gap,
    what_no_push_told_comes_when_pushes_were_missed,
    a_leaving_worker_hands_back_all_it_holds,
    a_leave_under_a_foreign_session_changes_nothing,
}

fn set(ids: impl IntoIterator<Item = ExecutionId>) -> BTreeSet<ExecutionId> {
    ids.into_iter().collect()
}

async fn every_end_is_heard_once_by_each_subscriber(site: Site) {
    let (mut one, mut other) = (site.subscribe(None).await, site.subscribe(None).await);
    let ended = site.end(5 * usize::from(PARTITIONS)).await;
    for stream in [&mut one, &mut other] {
        let heard = stream.take(ended.len()).await;
        assert!(heard.iter().all(|completion| !completion.after_gap));
        assert_eq!(set(heard.iter().map(|heard| heard.execution_id)), set(ended.clone()));
        stream.quiet().await;
    }
}

async fn a_filter_hands_out_nothing_else(site: Site) {
    let namespace = Namespace::try_new("wanted").expect("valid");
    let filter = ScannerFilter { namespace: Some(namespace.clone()), ..ScannerFilter::default() };
    let mut stream = site.subscribe_to(&filter).await;
    site.end(3).await;
    let wanted = site.end_in(&namespace, 3).await;
    let heard = stream.take(3).await;
    assert_eq!(set(heard.into_iter().map(|heard| heard.execution_id)), set(wanted));
    stream.quiet().await;
}

async fn a_stored_cursor_goes_on_after_a_crash(site: Site) {
    let mut cursor = site.cursor().await;
    let mut stream = site.subscribe(Some(cursor.clone())).await;
    let ended = site.end(12).await;
    let mut dealt_with = BTreeSet::new();
    for completion in stream.take(5).await {
        dealt_with.insert(completion.execution_id);
        cursor.advance(&completion);
    }
    let stored = cursor.to_string();
    drop(stream);
    let more = site.end(4).await;
    let site = site.crash().await;
    let cursor: CompletionCursor = stored.parse().expect("as it was stored");
    let mut stream = site.subscribe(Some(cursor)).await;
    let left = ended.len() + more.len() - dealt_with.len();
    let heard = set(stream.take(left).await.into_iter().map(|heard| heard.execution_id));
    assert!(heard.is_disjoint(&dealt_with), "what was dealt with is not repeated");
    assert_eq!(&heard | &dealt_with, set(ended.into_iter().chain(more)));
    stream.quiet().await;
}

async fn a_stream_outlives_a_crash_of_the_store(mut site: Site) {
    let cursor = site.cursor().await;
    let mut stream = site.subscribe(Some(cursor)).await;
    let before = site.end(3).await;
    site.bounce().await;
    let after = site.end(3).await;
    let wanted = set(before.into_iter().chain(after));
    let mut heard = BTreeSet::new();
    while heard != wanted {
        heard.extend(stream.take(1).await.into_iter().map(|heard| heard.execution_id));
    }
}

async fn a_trimmed_log_is_told_as_a_gap(site: Site) {
    let cursors = [site.cursor().await, {
        site.end_on(0, 1).await;
        site.cursor().await
    }];
    site.fill_log(0, limits::EVENT_LOG_LENGTH + 500).await;
    for cursor in cursors {
        let mut stream = site.subscribe(Some(cursor)).await;
        let ended = [site.end_on(0, 2).await, site.end_on(1, 1).await].concat();
        let mut heard = stream.until(&set(ended.clone())).await;
        heard.sort_by_key(|completion| completion.execution_id.partition().index != 0);
        let first = heard.iter().find(|heard| heard.execution_id.partition().index == 0);
        assert!(first.expect("of the trimmed log").after_gap, "the first one tells of it");
        assert_eq!(heard.iter().filter(|heard| heard.after_gap).count(), 1, "and only that one");
    }
}

async fn what_no_push_told_comes_when_pushes_were_missed(site: Site) {
    let deaf = site.deaf().await;
    let mut stream = deaf.subscribe(None).await;
    let ended = site.end(6).await;
    deaf.say_missed();
    let heard = stream.take(ended.len()).await;
    assert_eq!(set(heard.into_iter().map(|heard| heard.execution_id)), set(ended));
}

/// With nothing heard at all, not even that something was missed, the sweep finds it. Time is
/// virtual here, so that nobody waits for the sweep.
#[tokio::test(start_paused = true)]
async fn the_sweep_finds_what_no_push_told() {
    let site = site::embedded().await;
    let deaf = site.deaf().await;
    let mut stream = deaf.subscribe(None).await;
    let ended = site.end(4).await;
    let mut heard = BTreeSet::new();
    // Without a limit: virtual time would pass it while the store's own threads are at work.
    while heard.len() < ended.len() {
        heard.insert(stream.next().await.execution_id);
    }
    assert_eq!(heard, set(ended));
}

async fn a_leaving_worker_hands_back_all_it_holds(site: Site) {
    let many = limits::RELEASE_SCAN_MAX as usize + 10;
    let session = site.register("leaver").await;
    let mut kept = site.hold("stayer", 0, many).await;
    let mut held = set(site.hold("leaver", 0, many).await);
    held.extend(site.hold("leaver", 1, 3).await);
    kept.extend(site.hold("stayer", 1, 2).await);
    assert_eq!(site.disconnect("leaver", session).await, Ok(held.len() as u32));
    assert_eq!(site.disconnect("leaver", session).await, Ok(0), "repeating it is harmless");
    assert!(site.workers().await.is_empty());
    let resumed = [site.hold_again(0, many).await, site.hold_again(1, 3).await].concat();
    assert_eq!(set(resumed), held, "all of it goes on with others");
    assert!(kept.iter().all(|id| !held.contains(id)));
}

async fn a_leave_under_a_foreign_session_changes_nothing(site: Site) {
    let session = site.register("owner").await;
    site.hold("owner", 0, 2).await;
    let foreign = site.new_session();
    assert_eq!(site.disconnect("owner", foreign).await, Err(Code::WorkerInstanceInUse));
    assert_eq!(site.workers().await, ["owner"]);
    assert_eq!(site.disconnect("owner", session).await, Ok(2));
}
