//! The same calls on every host: the same replies and the same state.

use ff_conformance::{Answer, Deployment, HostKind, dump, run};
use ff_core::partition::Partition;
use ff_script::calls;
use ff_script::dump::Dump;
use libtest_mimic::Trial;

use super::scenario::prepare;

/// Partitions that no other test is given: the ids must be the same on every host.
const FIRST: u16 = 50_000;

/// What these functions answer depends on the host: its library has another clock and therefore
/// another hash, and a server names log entries by a clock of its own.
const DIFFER: [&str; 2] = ["ff_version", "ff_read_events"];

/// One test for each function.
pub(crate) fn trials() -> Vec<Trial> {
    let names = calls::contracts().map(|contract| contract.name);
    names
        .filter(|name| !DIFFER.contains(name))
        .enumerate()
        .map(|(number, name)| {
            Trial::test(format!("hosts::{name}_does_the_same_on_every_host"), move || {
                run(compare(name, FIRST + 4 * number as u16));
                Ok(())
            })
        })
        .collect()
}

async fn compare(name: &str, first: u16) {
    let partitions = [0, 1, 2, 3].map(|offset| Partition::flow(first + offset));
    let mut expected: Option<(Vec<Answer>, Dump)> = None;
    for kind in HostKind::ALL {
        let d = Deployment::start_on(kind, partitions).await;
        let seen = play(&d, name).await;
        match &expected {
            None => expected = Some(seen),
            Some((answers, state)) => {
                assert_eq!(seen.0, *answers, "{kind}");
                let here = dump::common_end(state.clone(), &seen.1);
                let there = dump::common_end(seen.1, state);
                let difference = dump::difference(&here, &there);
                assert!(here == there, "{kind} differs from embedded:\n{difference}");
            }
        }
        d.finish().await;
    }
}

/// A call, its repetition, and both once more in another state.
async fn play(d: &Deployment, name: &str) -> (Vec<Answer>, Dump) {
    let mut answers = Vec::new();
    for step in [0, 1000, 100_000] {
        d.advance(step).await;
        let args = prepare(d, name).await;
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        for _ in 0..2 {
            answers.push(d.raw(name, &args).await);
        }
        d.tick().await;
    }
    (answers, d.portable_dump().await)
}
