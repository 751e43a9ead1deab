//! Bytes come back as they went in, whatever they are and however many.

use ff_conformance::record::{key_of, record};
use ff_conformance::{Deployment, LANE, conformance};
use ff_core::engine_backend::roles::*;
use ff_core::limits;
use ff_core::types::ExecutionId;
use ff_script::calls::create::CreateExecutions;
use ff_script::calls::fail::FailExecution;

use super::scenario::encode;

/// Below, at and above every size at which a value is stored in another way.
const SIZES: [usize; 14] = [0, 1, 2, 63, 64, 65, 127, 128, 129, 192, 193, 255, 256, 257];
const LARGE: usize = 4 * 1024 * 1024;

/// Bytes without a pattern that a text could have; every value occurs if there is room.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 167 + n / 256 + 13) as u8).collect()
}

async fn payload(d: &Deployment, id: ExecutionId) -> Vec<u8> {
    let payload = d.backend.read_payload(id).await.expect("it can be read");
    payload.expect("the execution is there")
}

async fn result(d: &Deployment, id: ExecutionId) -> Vec<u8> {
    let result = d.backend.read_result(id).await.expect("it can be read");
    result.expect("the execution succeeded")
}

/// A payload and a result of this size come back, from the store and from the claim.
async fn there_and_back(d: &Deployment, value: &[u8]) -> ExecutionId {
    let id = d.create().payload(value).send().await;
    assert!(payload(d, id).await == value, "a payload of {} bytes", value.len());
    let held = d.claim(LANE).await;
    assert!(held.row.payload == value, "a claimed payload of {} bytes", value.len());
    d.call(held.complete(value)).await;
    assert!(result(d, id).await == value, "a result of {} bytes", value.len());
    assert!(payload(d, id).await == value, "the payload stays");
    id
}

conformance! {
    async fn every_byte_value_comes_back(d: &Deployment) {
        let all: Vec<u8> = (0..=255).collect();
        there_and_back(d, &all).await;
        for byte in 0..=255u8 {
            d.host().watch(false);
            there_and_back(d, &[byte]).await;
        }
    }

    async fn every_size_comes_back(d: &Deployment) {
        for size in SIZES {
            there_and_back(d, &bytes(size)).await;
        }
    }

    async fn a_record_stays_compact_and_long_values_have_keys_of_their_own(d: &Deployment) {
        for (size, fields, own_key) in [(0, 0, false), (64, 1, false), (65, 2, false),
            (128, 2, false), (129, 3, false), (256, 4, false), (257, 1, true)] {
            let id = there_and_back(d, &bytes(size)).await;
            let dump = d.dump().await;
            let record = record(&dump, id);
            for (prefix, suffix) in [("in", ":payload"), ("out", ":result")] {
                let pieces = record.keys().filter(|field| field.starts_with(prefix)).count();
                assert_eq!(pieces, fields, "{size} bytes");
                assert_eq!(dump.contains_key(&key_of(id, suffix)), own_key, "{size} bytes");
            }
        }
    }

    async fn what_looks_like_a_mark_is_no_mark(d: &Deployment) {
        for value in [b"@".as_slice(), &[b'@'; 64], &[b'@'; 65], &[b'@'; 66], &[b'@'; 257]] {
            there_and_back(d, value).await;
        }
    }

    async fn four_mebibytes_come_back(d: &Deployment) {
        d.host().watch(false);
        there_and_back(d, &bytes(LARGE)).await;
    }

    async fn the_largest_payload_and_result_come_back(d: &Deployment) {
        d.host().watch(false);
        assert_eq!(limits::PAYLOAD_BYTES_MAX, limits::RESULT_BYTES_MAX);
        there_and_back(d, &bytes(limits::PAYLOAD_BYTES_MAX as usize)).await;
    }

    async fn what_is_too_large_is_refused_with_the_cap(d: &Deployment) {
        let cap = limits::PAYLOAD_BYTES_MAX;
        let value = vec![0; cap as usize + 1];
        let held = d.create_and_claim().await;
        let create = d.create().payload(&value).call();
        let (create, creates) = (encode(&create), encode(&CreateExecutions::of([&create])));
        let complete = encode(&held.complete(&value));
        for (name, args, field) in [
            ("ff_create_execution", &create, "payload"),
            ("ff_create_executions", &creates, "items"),
            ("ff_complete_execution", &complete, "result"),
        ] {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let answer = d.raw(name, &args).await;
            assert_eq!(answer.code(), "payload_too_large", "{name}");
            assert_eq!(answer.text(0), format!("{field} must be at most {cap} bytes"));
        }
        d.call(held.complete(b"")).await;
    }

    async fn every_size_of_a_failures_detail_comes_back(d: &Deployment) {
        for size in SIZES.into_iter().chain([limits::FAILURE_DETAIL_BYTES_MAX as usize]) {
            let held = d.create_and_claim().await;
            let failure_detail = bytes(size);
            d.call(FailExecution { failure_detail, ..held.fail("no", "x") }).await;
            let failure = d.describe(held.id).await.failure.expect("the cause is kept");
            assert_eq!(failure.detail, bytes(size), "{size} bytes");
        }
    }

    async fn a_claim_of_many_large_payloads_stops_early(d: &Deployment) {
        d.host().watch(false);
        let value = bytes(LARGE);
        for _ in 0..5 {
            d.create().payload(&value).send().await;
        }
        let first = d.claimed(d.claim_call(LANE, 5)).await;
        let enough = limits::CLAIM_BYTES_MAX as usize / LARGE;
        assert_eq!(first.len(), enough, "no answer holds more bytes than that");
        assert_eq!(d.claimed(d.claim_call(LANE, 1)).await.len(), 1);
    }
}
