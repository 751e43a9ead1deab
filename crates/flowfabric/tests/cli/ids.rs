//! What executions are called: a UUID that can be copied anywhere, and their whole id where that is
//! not enough.

use ff_core::partition::Partition;
use ff_sdk::{BackendConfig, Client, Connection, ExecutionId, ExecutionRef};

use crate::site::{Site, uuid_in};

const BARE: &str = "550e8400-e29b-41d4-a716-446655440000";

#[test]
fn what_is_printed_for_people_is_a_uuid_that_every_command_takes() {
    let site = Site::start();
    let keyed = site.submit(&["mail", "--idempotency-key", "order-1", "--delay", "10m"]);
    let many = site.run(&["submit", "mail", "--count", "3", "--delay", "10m"]).text();
    for id in many.lines().chain([keyed.as_str()]) {
        assert!(matches!(id.parse(), Ok(ExecutionRef::Bare(_))), "{id}");
        let got = site.run(&["get", "--json", id]).json().remove(0);
        assert_eq!(uuid_in(&got), id);
        let whole = got["execution_id"].as_str().expect("an id");
        assert!(site.run(&["get", whole]).text().contains(&format!("execution    {id}\n")));
        let early = site.run(&["result", whole]).complaint(4);
        assert!(early.contains(&format!("`flowfabric get {id}`")), "{early}");
        assert_eq!(site.run(&["cancel", whole]).text(), format!("{id} is cancelled"));
        let replayed = site.run(&["replay", "--json", id]).json().remove(0);
        assert_eq!(uuid_in(&replayed), id);
        assert!(site.run(&["ls"]).text().lines().any(|line| line.starts_with(id)));
    }
}

/// Submits an execution to a partition that its UUID does not hash to.
fn place_elsewhere(url: &str) -> ExecutionId {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let connection = Connection::open(BackendConfig::server(url, None)).await;
        let connection = connection.expect("connected");
        let name: ExecutionRef = BARE.parse().expect("a UUID");
        let home = connection.resolve(name).expect("an id");
        let elsewhere = u16::from(home.partition().index == 0);
        let id = ExecutionId::from_parts(Partition::flow(elsewhere), home.uuid());
        let submission = Client::new(&connection).submit("mail", "x").execution_id(id);
        submission.await.expect("submitted").execution_id()
    })
}

#[test]
fn what_was_placed_elsewhere_is_called_by_its_whole_id() {
    let site = Site::start();
    let id = place_elsewhere(&site.url).to_string();
    assert!(site.run(&["ls"]).text().lines().any(|line| line.starts_with(&id)));
    for command in ["get", "result", "cancel", "replay"] {
        let said = site.run(&[command, BARE]).complaint(1);
        assert!(said.contains(&format!("there is no execution {BARE}")), "{command}: {said}");
        assert!(said.contains("needs its whole id, {fp:N}:<uuid>"), "{command}: {said}");
    }
    assert!(site.run(&["get", &id]).text().contains(&format!("execution    {id}\n")));
    assert_eq!(site.run(&["cancel", &id]).text(), format!("{id} is cancelled"));
}
