//! How many listen for work: each of them hears of everything that is submitted, and asks for it in
//! its turn.

mod site;

use ff_core::partition::Partition;
use ff_script::host::Topic;
use ff_test_valkey::{Reply, Valkey};
use site::{Place, Site, eventually};

/// How many connections hear of what becomes ready in a partition.
fn listeners(valkey: &Valkey) -> i64 {
    let channel = Topic::Ready.channel(Partition::flow(0));
    match valkey.command(&["PUBSUB", "SHARDNUMSUB", &channel]).expect("answers") {
        Reply::List(counts) => match counts.last() {
            Some(Reply::Int(count)) => *count,
            other => panic!("no number of listeners, but {other:?}"),
        },
        other => panic!("no numbers of listeners, but {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_workers_of_a_connection_listen_once_and_while_one_of_them_is_there() {
    let site = Site::valkey().await;
    let Place::Valkey(valkey) = &site.place else { panic!("it was started") };
    assert_eq!(listeners(valkey), 0);
    for round in 1..=2 {
        let mut workers = Vec::new();
        for number in 1..=3 {
            let worker = site.worker(&format!("w-{round}-{number}"), 1).await;
            assert!(worker.claim_next().await.expect("answers").is_none());
            workers.push(worker);
        }
        assert_eq!(listeners(valkey), 1);
        drop(workers.drain(1..));
        let id = site.submit("x").await;
        let task = site::claim(&workers[0]).await;
        assert_eq!(*task.execution_id(), id, "what ends with the others is not what it claims on");
        task.complete(None).await.expect("completed");
        drop(workers);
        eventually("the end of listening", || async { listeners(valkey) == 0 }).await;
    }
}
