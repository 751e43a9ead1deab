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
