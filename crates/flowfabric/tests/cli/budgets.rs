//! `budget`.

use crate::site::Site;

#[test]
fn a_budget_is_made_shown_with_a_bar_changed_and_removed() {
    let site = Site::start();
    assert!(site.run(&["budget", "ls"]).text().is_empty());
    let make = ["budget", "create", "kind=agent", "--name", "Agents", "--hard", "tokens=1_000"];
    let id =
        site.run(&[&make[..], &["--soft", "tokens=800", "--reset-every", "1d"]].concat()).text();
    let id = id.trim();
    let shown = site.run(&["budget", "show", id]).text();
    assert!(shown.contains("tokens       [....................]   0 % 0 of 1000"), "{shown}");
    assert!(shown.contains("begins anew"), "{shown}");
    let listed = site.run(&["budget", "ls"]).text();
    assert!(listed.contains("kind=agent") && listed.contains("[........]   0 %"), "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    assert_eq!(site.run(&["budget", "ls", "-q"]).text().trim(), id);
    let set = site.run(&["budget", "set", id, "--hard", "tokens=2000", "--json"]).json().remove(0);
    assert_eq!(set["dimensions"]["tokens"]["hard"], 2000);
    assert_eq!(set["dimensions"]["tokens"]["soft"], 800, "what is not said stays");
    site.run(&["budget", "reset", id]).text();
    assert_eq!(site.run(&["budget", "usage", id]).text(), "");
    site.run(&["budget", "rm", id]).text();
    let gone = site.run(&["budget", "show", id]).complaint(1);
    assert!(gone.contains("budget does not exist"), "{gone}");
    site.run(&["budget", "create", "team=a", "--hard", "a=1"]).complaint(2);
    site.run(&["budget", "create", "kind=a", "--hard", "a"]).complaint(2);
    let said = site.run(&["budget", "create", "kind=a"]).complaint(2);
    assert!(said.contains("--hard DIMENSION=N"), "{said}");
    let twice = ["budget", "create", "kind=a", "--hard", "a=1", "--hard", "a=2"];
    let said = site.run(&twice).complaint(2);
    assert!(said.contains("give a one hard limit"), "{said}");
    assert!(site.run(&["budget", "ls"]).text().is_empty(), "nothing was made");
    let said = site.run(&["quota", "create"]).complaint(2);
    assert!(said.contains("--concurrent N"), "{said}");
}
