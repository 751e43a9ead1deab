//! The project's own library loads and answers, standalone and on a cluster.

mod fixture;

use ff_backend_valkey::ValkeyHost;
use ff_script::host::Function;
use ff_script::library::Library;
use ff_script::value::Value;
use ff_test_valkey::{Valkey, ValkeyCluster, ValkeyOptions};
use fixture::*;

const VERSION: Function = Function { wire_name: "ff_version_v1", read_only: true };

async fn answers_its_hash(url: &str) {
    let library = Library::current();
    for _ in 0..2 {
        let host = ValkeyHost::connect(config(url), library.clone()).await.expect("it connects");
        for partition in 0..16 {
            let answer = call(&host, VERSION, partition, &[]).await.expect("it answers");
            let Value::Array(parts) = answer else { panic!("the answer is a list") };
            assert_eq!(parts[3], bytes(&library.hash));
        }
    }
}

#[tokio::test]
async fn a_server_runs_it() {
    let server = Valkey::start(ValkeyOptions::default()).expect("the server starts");
    answers_its_hash(&server.url()).await;
}

#[tokio::test]
async fn every_master_of_a_cluster_runs_it() {
    let cluster = ValkeyCluster::start(3, 0).expect("the cluster forms");
    answers_its_hash(&cluster.url()).await;
}
