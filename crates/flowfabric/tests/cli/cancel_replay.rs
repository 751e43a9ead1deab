//! `cancel` and `replay`.

use crate::site::Site;

#[test]
fn what_waits_is_cancelled_and_can_be_run_again() {
    let site = Site::start();
    let id = site.submit(&["upper", "--input", "x", "--delay", "10m"]);
    let said = site.run(&["cancel", &id, "--reason", "a mistake"]).text();
    assert_eq!(said, format!("{id} is cancelled"));
    let again = site.run(&["cancel", "--json", &id]).json().remove(0);
    assert_eq!(again["public_state"], "cancelled");
    assert!(site.run(&["get", &id]).text().contains("cancelled    a mistake"));

    assert_eq!(site.run(&["replay", &id]).text(), format!("{id} is waiting"));
    let _worker = site.worker(&["--kind", "upper"], &["tr", "a-z", "A-Z"]);
    assert_eq!(site.run(&["result", &id, "--wait"]).text(), "X");
    let done = site.run(&["cancel", &id]).complaint(1);
    assert!(done.contains(&id) && done.contains("it has ended"), "{done}");
    let replayed = site.run(&["replay", "--json", &id]).json().remove(0);
    assert_eq!(replayed["public_state"], "waiting");
}

#[test]
fn only_what_has_ended_can_be_replayed() {
    let site = Site::start();
    let id = site.submit(&["mail", "--delay", "10m"]);
    let refused = site.run(&["replay", &id]).complaint(1);
    assert!(refused.contains("only what has ended"), "{refused}");
}

#[test]
fn several_are_cancelled_with_one_command() {
    let site = Site::start();
    let ids = site.run(&["submit", "mail", "--count", "3"]).text();
    let ids: Vec<&str> = ids.lines().collect();
    site.run(&[&["cancel"], &ids[..]].concat()).text();
    let left = site.run(&["ls", "--json", "--state", "waiting"]).json();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn all_that_pass_a_filter_are_cancelled_and_replayed() {
    let site = Site::start();
    site.run(&["submit", "mail", "--count", "1200", "--tag", "team.name=a"]).text();
    site.run(&["submit", "film", "--count", "3", "--tag", "team.name=b"]).text();
    let count = |arguments: &[&str]| site.run(arguments).text();
    let mail = ["--kind", "mail"];
    let dry = count(&[&["cancel", "--dry-run"], &mail[..]].concat());
    assert_eq!(dry, "1200 would be cancelled");
    assert_eq!(site.run(&["stats", "--json"]).json()[0]["totals"]["cancelled"], 0);

    assert_eq!(count(&["cancel", "--tag", "team.name=b", "--reason", "no"]), "3 cancelled");
    assert_eq!(count(&["cancel", "--state", "waiting", "--since", "1h"]), "1200 cancelled");
    assert_eq!(count(&["cancel", "--all"]), "0 cancelled");
    let film = ["--state", "cancelled", "--kind", "film"];
    assert_eq!(count(&[&["replay", "--dry-run"], &film[..]].concat()), "3 would be replayed");
    assert_eq!(count(&[&["replay"], &film[..]].concat()), "3 replayed");
    let json = site.run(&[&["replay", "--json"], &film[..]].concat()).json().remove(0);
    assert_eq!((&json["found"], &json["changed"]), (&0.into(), &0.into()));
    let left = site.run(&["ls", "--json", "--state", "waiting"]).json();
    assert!(left.len() == 3 && left.iter().all(|one| one["kind"] == "film"), "{left:?}");
}

#[test]
fn many_are_changed_only_if_somebody_says_which() {
    let site = Site::start();
    let id = site.submit(&["mail"]);
    for (arguments, rule) in [
        (&["cancel"][..], "say which"),
        (&["replay"], "say which"),
        (&["cancel", &id, "--kind", "mail"], "give ids, or"),
        (&["cancel", &id, "--dry-run"], "--dry-run goes with"),
        (&["cancel", "--state", "completed"], "not over"),
        (&["replay", "--kind", "mail"], "--state completed, failed"),
        (&["replay", "--state", "waiting"], "--state completed, failed"),
        (&["cancel", "--tag", "team"], "lower-case word"),
    ] {
        let said = site.run(arguments).complaint(2);
        assert!(said.contains(rule), "{arguments:?}: {said}");
    }
    assert_eq!(site.field(&id, "public_state"), "waiting");
}
