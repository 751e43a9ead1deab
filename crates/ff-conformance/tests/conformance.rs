//! Runs every test of the suite on every host, and fails if a declared outcome never occurred.

mod suite;

use std::process::ExitCode;

use ff_conformance::{Case, Deployment, HostKind, coverage, run, stop_servers};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = HostKind::ALL.into_iter().flat_map(trials_on).collect();
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    let missing = if whole { check_coverage() } else { 0 };
    stop_servers();
    if conclusion.has_failed() || missing > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn trials_on(kind: HostKind) -> impl Iterator<Item = Trial> {
    suite::cases().map(move |case| {
        let file = case.file.rsplit("::").next().unwrap_or(case.file);
        Trial::test(format!("{kind}::{file}::{}", case.name), move || {
            run(run_case(kind, case));
            Ok(())
        })
    })
}

async fn run_case(kind: HostKind, case: Case) {
    let deployment = Deployment::start(kind).await;
    (case.run)(&deployment).await;
    deployment.finish().await;
}

/// Says what was declared and never seen; gives how much that is.
fn check_coverage() -> usize {
    let mut total = 0;
    for kind in HostKind::ALL {
        let missing = coverage::missing(kind);
        println!("{kind}: {} outcomes produced, {} missing", coverage::produced(kind), missing.len());
        missing.iter().for_each(|line| println!("    never seen: {line}"));
        total += missing.len();
    }
    total
}
