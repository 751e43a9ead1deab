//! Facts that hold for all partitions.

use ff_conformance::record::hash;
use ff_conformance::{Deployment, LANE, conformance, lane};
use ff_core::error::Code;
use ff_core::limits;
use ff_script::calls::deployment::{
    FinishUpgrade, ForgetLane, ForgetLaneReply, ListLanes, ListLanesReply, OpenDeployment,
    OpenDeploymentReply, RegisterLane, RegisterLaneReply, UpgradeLane, UpgradeLaneReply,
};

fn counts(flow: u16, budget: u16, quota: u16) -> OpenDeployment {
    OpenDeployment {
        num_flow_partitions: flow,
        num_budget_partitions: budget,
        num_quota_partitions: quota,
        format: limits::STORE_FORMAT,
    }
}

async fn lanes(d: &Deployment) -> Vec<String> {
    let ListLanesReply::Lanes { lanes, .. } = d.call(ListLanes {}).await;
    lanes.0.into_iter().map(|lane| lane.as_str().to_owned()).collect()
}

conformance! {
    async fn a_new_deployment_keeps_its_counts(d: &Deployment) {
        let opened = d.call(counts(8, 4, 2)).await;
        assert_eq!(opened, OpenDeploymentReply::Opened {
            created: true, format: limits::STORE_FORMAT });
        let stored = hash(&d.dump().await, format!("{}:deployment", d.home().key()).as_bytes());
        let format = limits::STORE_FORMAT.to_string();
        let expected = [("budget", "4"), ("flow", "8"), ("format", &*format), ("quota", "2")];
        assert!(stored.iter().map(|(a, b)| (a.as_str(), b.as_str())).eq(expected), "{stored:?}");
    }

    async fn the_same_counts_open_it_again(d: &Deployment) {
        d.call(counts(8, 4, 2)).await;
        let before = d.dump().await;
        let again = d.call(counts(8, 4, 2)).await;
        assert_eq!(again, OpenDeploymentReply::Opened {
            created: false, format: limits::STORE_FORMAT });
        assert_eq!(d.dump().await, before);
    }

    /// The keys of an older store are written where they can be reached.
    async fn a_store_of_the_format_before_is_upgraded_step_by_step(d: &Deployment) {
        d.call(counts(8, 4, 2)).await;
        let id = d.create().priority(1).send().await;
        let (key, uuid) = (d.home().key(), id.uuid().to_string());
        for words in [
            format!("HSET {key}:deployment format 1"),
            format!("DEL {key}:q:{LANE}:tests:work {key}:needs:{LANE} {key}:queued"),
            format!("ZADD {key}:q:{LANE} 7 {uuid} 8 {}", d.new_uuid()),
        ] {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            d.host().exec(d.home(), &words).await.expect("every store has the command");
        }
        let opened = OpenDeploymentReply::Opened { created: false, format: 1 };
        assert_eq!(d.call(counts(8, 4, 2)).await, opened);
        for _ in 0..2 {
            let upgraded = d.call(UpgradeLane { lane: lane(LANE) }).await;
            assert_eq!(upgraded, UpgradeLaneReply::Upgraded { left: 0 }, "also when repeated");
        }
        d.call(FinishUpgrade {}).await;
        assert_eq!(d.claim(LANE).await.id, id);
    }

    async fn other_counts_are_refused_with_the_right_ones(d: &Deployment) {
        d.call(counts(8, 4, 2)).await;
        for wrong in [counts(9, 4, 2), counts(8, 5, 2), counts(8, 4, 3)] {
            let (code, details) = d.refusal(wrong).await;
            assert_eq!(code, Code::DeploymentMismatch);
            assert_eq!(details, ["8", "4", "2"]);
        }
    }

    async fn a_server_of_another_format_is_refused_on_a_new_store_and_on_an_old_one(
        d: &Deployment
    ) {
        let ours = limits::STORE_FORMAT;
        let other = || OpenDeployment { format: ours + 1, ..counts(8, 4, 2) };
        let expected = (Code::StoreFormatMismatch, vec![ours.to_string(), (ours + 1).to_string()]);
        assert_eq!(d.refusal(other()).await, expected);
        d.call(counts(8, 4, 2)).await;
        assert_eq!(d.refusal(other()).await, expected);
    }

    /// The number is missing in stores from before there was one. Only Valkey's keys can be
    /// reached.
    async fn a_store_of_another_format_is_refused_and_left_alone(d: &Deployment) {
        d.call(counts(8, 4, 2)).await;
        let key = format!("{}:deployment", d.home().key());
        let ours = limits::STORE_FORMAT.to_string();
        for (command, found) in [("HSET", "2000"), ("HDEL", "0")] {
            let value = if command == "HSET" { found } else { "none" };
            let words = [command, &*key, "format", value].map(str::as_bytes);
            if d.host().exec(d.home(), &words).await.is_none() {
                return;
            }
            let before = d.dump().await;
            let expected = (Code::StoreFormatMismatch, vec![found.to_owned(), ours.clone()]);
            assert_eq!(d.refusal(counts(8, 4, 2)).await, expected);
            assert_eq!(d.dump().await, before);
        }
        // What is checked at the end is the store, which must be one of ours again.
        let words: [&[u8]; 4] = [b"HSET", key.as_bytes(), b"format", ours.as_bytes()];
        d.host().exec(d.home(), &words).await;
    }

    async fn a_deployment_has_one_to_65535_partitions_of_each_family(d: &Deployment) {
        for wrong in ["0", "65536", "-1", "1.0"] {
            let code = d.raw("ff_open_deployment", &[wrong.as_bytes(), b"1", b"1", b"1"]).await;
            assert_eq!(code.code(), "invalid_input", "{wrong}");
        }
        d.call(counts(65535, 65535, 65535)).await;
    }

    async fn a_lane_is_listed_once_and_lanes_are_sorted(d: &Deployment) {
        for name in ["mail", "gpu", "a|b", "Z"] {
            let reply = d.call(RegisterLane { lane: lane(name) }).await;
            assert_eq!(reply, RegisterLaneReply::Registered {});
        }
        let again = d.call(RegisterLane { lane: lane("gpu") }).await;
        assert_eq!(again, RegisterLaneReply::Known {});
        assert_eq!(lanes(d).await, ["Z", "a|b", "gpu", "mail"]);
    }

    async fn there_are_no_lanes_before_the_first(d: &Deployment) {
        assert!(lanes(d).await.is_empty());
    }

    async fn a_lane_that_nobody_has_used_for_a_week_can_be_forgotten(d: &Deployment) {
        let register = |name: &str| RegisterLane { lane: lane(name) };
        let forget = |name: &str| ForgetLane { lane: lane(name) };
        d.call(register("old")).await;
        d.call(register("used")).await;
        d.advance(limits::LANE_KEPT_MS - 1).await;
        assert_eq!(d.call(forget("old")).await, ForgetLaneReply::Used {});
        assert_eq!(d.call(register("used")).await, RegisterLaneReply::Registered {});
        assert_eq!(d.call(register("used")).await, RegisterLaneReply::Known {});
        d.advance(1).await;
        let ListLanesReply::Lanes { unused, .. } = d.call(ListLanes {}).await;
        assert_eq!(unused.0, [lane("old")]);
        assert_eq!(d.call(forget("used")).await, ForgetLaneReply::Used {});
        assert_eq!(d.call(forget("old")).await, ForgetLaneReply::Forgotten {});
        assert_eq!(lanes(d).await, ["used"]);
    }
}
