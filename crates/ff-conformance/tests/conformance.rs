//! Runs every test of the suite on every host, and fails if a declared outcome never occurred.

mod suite;

use std::process::ExitCode;

use ff_conformance::{Case, Deployment, HostKind, coverage, run, stop_servers};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = HostKind::ALL.into_iter().flat_map(trials_on).chain(suite::trials());
    let whole = arguments.filter.is_none() && arguments.skip.is_empty();
    let mut failed = libtest_mimic::run(&arguments, trials.collect()).has_failed();
    if whole {
        let coverage = HostKind::ALL.into_iter().map(coverage_on).collect();
        failed |= libtest_mimic::run(&arguments, coverage).has_failed();
    }
    stop_servers();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
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

/// Runs after all other tests, and only after all of them.
fn coverage_on(kind: HostKind) -> Trial {
    Trial::test(format!("{kind}::every_declared_outcome_was_produced"), move || {
        let missing = coverage::missing(kind);
        if missing.is_empty() { Ok(()) } else { Err(missing.join("\n").into()) }
    })
}
