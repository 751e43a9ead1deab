//! `get`, `ls` and `watch`.

use crate::site::{Running, Site, uuid_in};
use crate::terminal;

fn ids(ran: crate::site::Ran) -> Vec<String> {
    ran.json().iter().map(|row| uuid_in(row).to_owned()).collect()
}

#[test]
fn a_list_is_newest_first_and_filtered() {
    let site = Site::start();
    let old = site.submit(&["mail", "--delay", "10m"]);
    let young = site.submit(&["print", "--lane", "paper", "--namespace", "shop"]);
    let json = |filter: &[&str]| ids(site.run(&[&["ls", "--json"], filter].concat()));
    assert_eq!(json(&[]), [young.as_str(), old.as_str()]);
    assert_eq!(json(&["--limit", "1"]), [young.as_str()]);
    for only_young in [["--kind", "print"], ["--lane", "paper"], ["--namespace", "shop"]] {
        assert_eq!(json(&only_young), [young.as_str()], "{only_young:?}");
    }
    assert_eq!(json(&["--state", "delayed"]), [old.as_str()]);
    assert_eq!(json(&["--since", "1h"]).len(), 2);
    assert_eq!(json(&["--until", "1h"]).len(), 0);
    assert_eq!(json(&["--since", "2020-01-01", "--until", "2020-01-02"]).len(), 0);

    let ran = site.run(&["ls"]);
    assert!(ran.stderr.contains("2 executions"), "{ran:?}");
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("EXECUTION ") && lines[0].ends_with(" CREATED"), "{text}");
    assert!(lines[1].starts_with(&young) && lines[1].contains("waiting"), "{text}");
    assert!(!text.contains('\x1b'), "no colours where nobody sees them");
    let none = site.run(&["ls", "--kind", "nothing"]);
    assert!(none.stdout.is_empty() && none.stderr.contains("nothing found"), "{none:?}");
}

#[test]
fn the_newest_of_many_are_found_without_looking_at_all() {
    let site = Site::start();
    site.run(&["submit", "idle", "--count", "3000"]).text();
    let last = site.run(&["submit", "late", "--count", "40", "--priority", "5"]).text();
    let mut last: Vec<&str> = last.lines().collect();
    let all = ids(site.run(&["ls", "--json", "--limit", "30000"]));
    assert_eq!(all.len(), 3040);
    for limit in [1, 25, 100] {
        let some = ids(site.run(&["ls", "--json", "--limit", &limit.to_string()]));
        assert_eq!(some, all[..limit], "the newest {limit}");
    }
    let mut newest: Vec<&str> = all[..40].iter().map(String::as_str).collect();
    newest.sort_unstable();
    last.sort_unstable();
    assert_eq!(newest, last);

    let ran = site.run(&["ls", "--limit", "3"]);
    assert!(ran.stderr.contains("the newest 3 executions"), "{ran:?}");
    let ran = site.run(&["ls", "--limit", "3", "--state", "waiting"]);
    assert!(ran.stderr.contains("3 of 3040 executions"), "{ran:?}");
    let ran = site.run(&["ls", "--limit", "3", "--kind", "late"]);
    assert!(ran.stderr.contains("3 of 40 executions"), "{ran:?}");
    let idle = ids(site.run(&["ls", "--json", "--limit", "5", "--kind", "idle"]));
    assert_eq!(idle, all[40..45]);
}

#[test]
fn wrong_filters_are_refused_by_name() {
    let site = Site::start();
    for (arguments, rule) in [
        (["ls", "--state", "sleeping"], "--state"),
        (["ls", "--since", "yesterday"], "an age like 10m"),
        (["ls", "--limit", "0"], "from 1"),
        (["get", "", "bogus"], "partition"),
    ] {
        let said = site.run(&arguments).complaint(2);
        assert!(said.contains(rule), "{arguments:?}: {said}");
    }
}

#[test]
fn several_executions_are_shown_together() {
    let site = Site::start();
    let ids = [site.submit(&["a"]), site.submit(&["b"])];
    let text = site.run(&["get", &ids[0], &ids[1]]).text();
    for id in &ids {
        assert!(text.contains(&format!("execution    {id}\n")), "{text}");
    }
    assert_eq!(site.run(&["get", "--json", &ids[0], &ids[1]]).json().len(), 2);
}

#[test]
fn watching_tells_every_change_until_it_is_interrupted() {
    let site = Site::start();
    let id = site.submit(&["upper", "--input", "x"]);
    let mut watch = Running::start(&mut site.command(&["watch", "--json", "--every", "100ms"]));
    assert_eq!(watch.event()["public_state"], "waiting");
    let _worker = site.worker(&["--kind", "upper"], &["tr", "a-z", "A-Z"]);
    let ended = std::iter::repeat_with(|| watch.event())
        .find(|change| change["public_state"] == "completed")
        .expect("endless");
    assert_eq!(uuid_in(&ended), id);
    watch.signal("-INT");
    assert_eq!(watch.wait(), Some(0));
}

fn on_a_terminal(site: &Site, line: &str) -> String {
    terminal::run(&site.url, line, "")
}

#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let site = Site::start();
    let id = site.submit(&["mail", "--delay", "10m"]);
    let line = format!("result {id} --wait=1300ms");
    let seen = on_a_terminal(&site, &line);
    assert!(seen.contains("waiting  1 s  delayed, attempt 0"), "{seen:?}");
    assert!(!on_a_terminal(&site, &format!("{line} --json")).contains("waiting  1 s"));
    let piped = site.run(&["result", &id, "--wait=1300ms"]).complaint(4);
    assert!(!piped.contains("waiting"), "{piped}");
}

#[test]
fn a_terminal_gets_a_live_table_with_colours() {
    let site = Site::start();
    let id = site.submit(&["mail"]);
    site.run(&["cancel", &id]).text();
    let seen = on_a_terminal(&site, "watch --every 100ms & sleep 1; kill -INT $!; wait $!");
    assert!(seen.contains("1 cancelled\x1b[K"), "{seen:?}");
    assert!(seen.contains("\x1b[31mcancelled\x1b[0m"), "{seen:?}");
    assert!(seen.trim_end().ends_with("\x1b[?25h\x1b[?1049l"), "the screen comes back: {seen:?}");
}
