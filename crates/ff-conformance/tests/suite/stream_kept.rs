//! What is kept of output: how much, of which attempts, how long, and what is left in the end.

use ff_conformance::record::{key_of, member_score, record};
use ff_conformance::{LANE, conformance};
use ff_core::contracts::TickRequest;
use ff_core::engine_backend::roles::*;
use ff_core::error::Code;
use ff_core::limits;
use ff_script::dump::{Dump, Stored};

use super::replay::replay;
use super::stream::{
    appended, before, fail_and_claim, held_with, letters, of_attempt, read, read_all, shown,
    stream_keys,
};

conformance! {
    async fn t2_what_is_kept_follows_from_the_policy(d: &Deployment) {
        d.host().watch(false);
        let held = held_with(d, r#""retention_maxlen":3"#).await;
        for number in 1..=9 {
            d.call(held.append(number, &[number.to_string()])).await;
        }
        let read = read_all(d, held.id).await;
        assert_eq!(shown(&read), "7:7 8:8 9:9");
        assert_eq!((read.first_sequence, read.last_sequence, read.next), (7, 9, 10));
        d.call(held.complete(b"")).await;
        let held = held_with(d, r#""retention_bytes":10"#).await;
        d.call(held.append(1, &["aaa", "bbbb", "ccc"])).await;
        assert_eq!(read_all(d, held.id).await.first_sequence, 1);
        d.call(held.append(4, &["d", "e"])).await;
        assert_eq!(shown(&read_all(d, held.id).await), "2:bbbb 3:ccc 4:d 5:e");
        d.call(held.append(6, &["0123456789"])).await;
        assert_eq!(shown(&read_all(d, held.id).await), "6:0123456789");
    }

    async fn trimming_is_done_now_and_then_within_an_eighth(d: &Deployment) {
        d.host().watch(false);
        let held = held_with(d, r#""retention_maxlen":80"#).await;
        for (first, kept_from) in [(1, 1), (31, 1), (61, 1), (91, 41)] {
            d.call(held.append(first, &letters(30))).await;
            let bounds = read_all(d, held.id).await;
            assert_eq!((bounds.first_sequence, bounds.last_sequence), (kept_from, first + 29));
        }
        d.call(held.append(121, &letters(10))).await;
        assert_eq!(read_all(d, held.id).await.first_sequence, 41);
        d.call(held.append(131, &letters(1))).await;
        assert_eq!(read_all(d, held.id).await.first_sequence, 52);
    }

    async fn a_batch_beyond_all_bounds_keeps_its_last_frames(d: &Deployment) {
        let held = held_with(d, r#""retention_bytes":5,"retention_maxlen":100"#).await;
        d.call(held.append(1, &letters(50))).await;
        let read = read_all(d, held.id).await;
        assert_eq!((read.first_sequence, read.last_sequence), (46, 50));
        assert_eq!(record(&d.dump().await, held.id)["fm"], "46:50:45:50");
    }

    async fn best_effort_keeps_the_newest_hundred(d: &Deployment) {
        d.host().watch(false);
        let held = held_with(d, r#""durability_mode":"best_effort""#).await;
        for first in [1, 101] {
            d.call(held.append(first, &letters(100))).await;
        }
        let read = read_all(d, held.id).await;
        assert_eq!((read.first_sequence, read.frames.len()), (101, 100));
    }

    async fn the_output_of_the_last_sixteen_attempts_is_kept(d: &Deployment) {
        d.host().watch(false);
        let mut held = held_with(d, r#""retention_ttl_ms":60000"#).await;
        for _ in 0..20 {
            d.call(held.append(1, &["a"])).await;
            held = fail_and_claim(d, &held).await;
        }
        let keys = stream_keys(d, held.id).await;
        assert_eq!(keys.len(), limits::STREAMS_KEPT_MAX as usize, "{keys:?}");
        assert!(!keys.contains(&"3".to_owned()) && keys.contains(&"4".to_owned()), "{keys:?}");
        assert_eq!(shown(&read(d, held.id, of_attempt(3)).await), "");
        assert_eq!(shown(&read(d, held.id, of_attempt(4)).await), "1:a");
    }

    async fn output_goes_when_its_time_is_over(d: &Deployment) {
        let held = held_with(d, r#""retention_ttl_ms":1000"#).await;
        d.call(held.append(1, &["a", "b"])).await;
        let timer = |index: u32| format!("s:{}:{index}", held.id.uuid());
        let due = |dump: &Dump, index| member_score(dump, d.home(), "due", &timer(index));
        assert_eq!(due(&d.dump().await, 0), None, "it runs");
        let next = fail_and_claim(d, &held).await;
        assert_eq!(due(&d.dump().await, 0), Some(d.now().get() as f64 + 1000.0));
        d.advance(400).await;
        d.call(next.append(1, &["c"])).await;
        d.call(next.complete(b"")).await;
        d.advance(600).await;
        d.tick().await;
        assert_eq!(stream_keys(d, held.id).await, ["1"]);
        assert_eq!(record(&d.dump().await, held.id).get("kf"), None);
        d.advance(400).await;
        d.tick().await;
        assert!(stream_keys(d, held.id).await.is_empty());
        let gone = read_all(d, held.id).await;
        assert_eq!((gone.first_sequence, gone.last_sequence, gone.next), (2, 1, 2));
        assert!(gone.is_closed() && gone.frames.is_empty());
        assert_eq!(d.call(next.append(1, &["c"])).await, before(1));
        d.call(replay(held.id)).await;
        let again = d.claim(LANE).await;
        d.call(again.append(1, &["d"])).await;
        assert_eq!(shown(&read_all(d, held.id).await), "1:d");
    }

    async fn output_from_before_the_clock_was_set_back_goes_in_its_time(d: &Deployment) {
        let mut held = held_with(d, r#""retention_ttl_ms":1000"#).await;
        for back in [0, 5000, 0] {
            d.call(held.append(1, &["a"])).await;
            held = fail_and_claim(d, &held).await;
            d.set_time(d.now().get() - back).await;
        }
        d.advance(1000).await;
        d.tick().await;
        assert_eq!(stream_keys(d, held.id).await, ["0", "1"]);
        d.call(held.complete(b"")).await;
        d.advance(5000).await;
        d.tick().await;
        assert!(stream_keys(d, held.id).await.is_empty());
        let record = record(&d.dump().await, held.id);
        assert_eq!((record.get("kf"), record.get("fm")), (Some(&"2".to_owned()), None));
    }

    async fn a_purge_leaves_no_stream_and_no_timer_behind(d: &Deployment) {
        let summary = r#""durability_mode":"summary","retention_ttl_ms":9999999999"#;
        let mut held = held_with(d, summary).await;
        for _ in 0..3 {
            d.call(held.append(1, &[r#"{"a":1}"#])).await;
            held = fail_and_claim(d, &held).await;
        }
        d.call(held.append(1, &[r#"{"a":1}"#])).await;
        d.call(held.complete(b"")).await;
        assert_eq!(stream_keys(d, held.id).await.len(), 8);
        d.advance(limits::RETENTION_MS_DEFAULT).await;
        assert_eq!(d.tick().await.purged, 1);
        let left = d.dump().await;
        let log = format!("{}:log", d.home().key()).into_bytes();
        assert_eq!(left.keys().collect::<Vec<_>>(), [&log]);
    }

    async fn a_purge_of_many_streams_takes_several_ticks(d: &Deployment) {
        d.host().watch(false);
        let mut ids = Vec::new();
        for _ in 0..3 {
            let mut held = held_with(d, "").await;
            for _ in 0..4 {
                d.call(held.append(1, &["a"])).await;
                held = fail_and_claim(d, &held).await;
            }
            d.call(held.complete(b"")).await;
            ids.push(held.id);
        }
        d.advance(limits::RETENTION_MS_DEFAULT).await;
        let mut purged = Vec::new();
        for _ in 0..3 {
            purged.push(d.backend.tick(d.home(), TickRequest::once(4)).await.expect("ticks").purged);
        }
        assert_eq!(purged, [1, 1, 1]);
        assert!(stream_keys(d, ids[0]).await.is_empty());
    }

    async fn a_stream_that_the_record_does_not_know_is_not_written_to(d: &Deployment) {
        d.host().watch(false);
        let held = d.create_and_claim().await;
        d.call(held.append(1, &["a"])).await;
        let record_key = key_of(held.id, "");
        d.host().exec(d.home(), &[b"HDEL", &record_key, b"fm"]).await;
        let (code, details) = d.refusal(held.append(1, &["a"])).await;
        assert_eq!((code, details.concat()), (Code::DataLost, "frames".to_owned()));
        d.host().exec(d.home(), &[b"DEL", &key_of(held.id, ":s:0")]).await;
        assert_eq!(d.call(held.append(1, &["a"])).await, appended(1));
    }

    async fn frames_that_somebody_removed_do_not_stop_readers_or_writers(d: &Deployment) {
        d.host().watch(false);
        let held = held_with(d, r#""retention_bytes":20"#).await;
        d.call(held.append(1, &letters(20))).await;
        d.host().exec(d.home(), &[b"DEL", &key_of(held.id, ":s:0")]).await;
        let read = read_all(d, held.id).await;
        assert_eq!((read.frames.len(), read.next, read.has_more()), (0, 21, false));
        assert_eq!(d.call(held.append(21, &["0123456789"])).await, appended(21));
        assert_eq!(shown(&read_all(d, held.id).await), "21:0123456789");
        let stored = d.dump().await[&key_of(held.id, ":s:0")].clone();
        assert!(matches!(stored, Stored::Stream(entries) if entries.len() == 1));
    }
}
