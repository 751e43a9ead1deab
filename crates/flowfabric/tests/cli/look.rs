//! `get`, `ls` and `watch`.

use crate::site::{Running, Site, run, uuid_in};
use crate::terminal;

fn ids(ran: crate::site::Ran) -> Vec<String> {
    ran.json().iter().map(|row| uuid_in(row).to_owned()).collect()
}

#[test]
fn a_list_is_newest_first_and_filtered() {
    let site = Site::start();
    let old = site.submit(&["mail", "--delay", "10m"]);
    let young = site.submit(&[
        "print",
        "--lane",
        "paper",
        "--namespace",
        "shop",
        "--tag",
        "team.name=print",
    ]);
    let json = |filter: &[&str]| ids(site.run(&[&["ls", "--json"], filter].concat()));
    assert_eq!(json(&[]), [young.as_str(), old.as_str()]);
    assert_eq!(json(&["--limit", "1"]), [young.as_str()]);
    for only_young in [
        ["--kind", "print"],
        ["--lane", "paper"],
        ["--namespace", "shop"],
        ["--tag", "team.name"],
        ["--tag", "team.name=print"],
    ] {
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
    assert!(lines[0].starts_with("EXECUTION ") && lines[0].ends_with(" AGE"), "{text}");
    assert!(lines[1].starts_with(&young) && lines[1].contains("waiting"), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    let wide = site.run(&["ls", "--wide"]).text();
    assert!(wide.contains(" CREATED") && wide.contains("  paper  "), "{wide}");
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
    assert!(ran.stderr.contains("the first 3 executions"), "{ran:?}");
    let ran = site.run(&["ls", "--limit", "50", "--kind", "late"]);
    assert!(ran.stderr.contains("40 executions"), "{ran:?}");
    let waiting = ids(site.run(&["ls", "--json", "--limit", "4000", "--state", "waiting"]));
    let mut behind: Vec<&str> = waiting[3000..].iter().map(String::as_str).collect();
    behind.sort_unstable();
    assert_eq!(behind, last, "what waits comes by kind, in all partitions alike");
    let idle = ids(site.run(&["ls", "--json", "--limit", "5", "--kind", "idle"]));
    assert_eq!(idle, all[40..45]);
}

#[test]
fn a_description_says_who_did_what() {
    let site = Site::start();
    let id = site.submit(&["mail"]);
    site.run(&["hold", &id, "--by", "mia"]).text();
    site.run(&["cancel", &id]).text();
    let cancelled = site.run(&["get", &id]).text();
    assert!(cancelled.contains("no reason was given (by an operator)"), "{cancelled}");
    run(site.command(&["replay", &id]).env("USER", "eve")).text();
    let text = site.run(&["get", &id]).text();
    assert!(text.contains("input        (empty)"), "{text}");
    let history = site.run(&["history", &id]).text();
    assert!(text.ends_with(&history), "{text}");
    let by = |event: &str| {
        let line = history.lines().find(|line| line.contains(event)).expect("an event");
        line.split_once(event).expect("it").1.trim().to_owned()
    };
    assert_eq!(by("created  "), "cli");
    assert_eq!(by("parked  "), "mia  paused by operator");
    assert_eq!(by("replayed  "), "eve");
}

#[test]
fn the_id_of_a_flow_is_told_from_that_of_an_execution() {
    let site = Site::start();
    let file = b"flow: f\ntasks: { a: {} }\n";
    let flow = site.run_with(file, &["flow", "submit", "-"]).text();
    let flow = flow.lines().last().expect("an id");
    let said = site.run(&["get", flow]).complaint(1);
    assert!(
        said.contains(&format!("{flow} is a flow: see `flowfabric flow show {flow}`")),
        "{said}"
    );
    let said = site.run(&["flow", "show", &site.submit(&["mail"])]).complaint(1);
    assert!(said.contains("`flowfabric get` shows executions"), "{said}");
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

/// How many requests the server has answered on the API.
fn answered(site: &Site) -> u64 {
    let metrics = site.text("/metrics");
    let counts = metrics.lines().filter(|line| {
        line.starts_with("ff_http_requests_total{") && line.contains("route=\"/v1/")
    });
    let last = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok());
    counts.filter_map(last).sum()
}

#[test]
fn a_list_costs_two_requests_however_many_there_are() {
    let site = Site::start();
    site.run(&["submit", "idle", "--count", "3000"]).text();
    for arguments in [&["ls"][..], &["ls", "--state", "waiting", "--limit", "1000"]] {
        let before = answered(&site);
        site.run(arguments).text();
        assert_eq!(answered(&site) - before, 2, "{arguments:?}: the deployment and the list");
    }
}

#[test]
fn everything_about_an_execution_is_shown() {
    let site = Site::start();
    let _worker = site.worker(&["--kind", "flaky"], &["sh", "-c", FLAKY]);
    let retries = ["--retries", "1", "--backoff", "10ms", "--wait"];
    let ran = site.run(&[&["submit", "flaky", "--input", "the input"], &retries[..]].concat());
    assert_eq!(ran.text(), "the output");
    let id = site.run(&["ls", "-q"]).text();
    let text = site.run(&["get", &id]).text();
    for part in ["the input", "the output", "creator      cli", "not yet", "ATTEMPT", "claimed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = &site.run(&["get", "--json", &id]).json()[0];
    assert_eq!(
        (&json["input_text"], &json["result_text"]),
        (&"the input".into(), &"the output".into())
    );
    assert_eq!(json["attempts"][0]["failure_reason"], "not yet");

    let attempts = site.run(&["attempts", &id]).text();
    let lines: Vec<&str> = attempts.lines().collect();
    assert!(lines[1].starts_with("1 ") && lines[1].contains(" failed "), "{attempts}");
    assert!(lines[2].starts_with("2 ") && lines[2].contains(" completed "), "{attempts}");
    let history = site.run(&["history", &id]).text();
    let events = ["created", "claimed", "retry scheduled", "promoted", "claimed", "ended"];
    for (line, event) in history.lines().skip(1).zip(events) {
        assert!(line.contains(event), "{history}");
    }
    assert!(history.lines().last().is_some_and(|line| line.contains("completed")), "{history}");
    for table in [attempts, history] {
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }
    for command in ["attempts", "history"] {
        assert!(!site.run(&[command, "--json", &id]).json().is_empty());
        let wrong = site.run(&[command, "01a1ee41-e8fb-74e1-b5ba-d25c37a6856f"]).complaint(1);
        assert!(wrong.contains("there is no execution"), "{wrong}");
    }
}

const FLAKY: &str =
    "[ $FLOWFABRIC_ATTEMPT = 2 ] && echo -n the output || { echo not yet >&2; false; }";

#[test]
fn priority_is_changed_and_told() {
    let site = Site::start();
    let id = site.submit(&["mail"]);
    assert_eq!(site.run(&["priority", &id, "7"]).text(), format!("{id} has priority 7, before 0"));
    assert_eq!(site.field(&id, "priority"), 7);
    assert!(site.run(&["priority", &id, "9001"]).complaint(2).contains("9000"));
}

#[test]
fn stats_count_by_state_kind_and_lane() {
    let site = Site::start();
    assert_eq!(site.run(&["stats"]).text(), "no executions");
    site.run(&["submit", "mail", "--count", "30"]).text();
    site.run(&["submit", "film", "--lane", "slow", "--delay", "1h"]).text();
    let id = site.submit(&["mail"]);
    site.run(&["cancel", &id]).text();
    let text = site.run(&["stats"]).text();
    assert!(text.starts_with("30 waiting, 1 delayed, 1 cancelled\n"), "{text}");
    for line in ["mail  30       0 ", "film  0        1 ", "default  30 ", "slow     0"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json = &site.run(&["stats", "--json"]).json()[0];
    assert_eq!(json["totals"]["cancelled"], 1);
    assert_eq!(json["kinds_exact"], true);
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
    assert!(seen.contains("KIND  WAITING  DELAYED  ACTIVE"), "{seen:?}");
    assert!(seen.contains("\x1b[31mcancelled\x1b[0m"), "{seen:?}");
    assert!(seen.trim_end().ends_with("\x1b[?25h\x1b[?1049l"), "the screen comes back: {seen:?}");
}

#[test]
fn of_a_list_quiet_leaves_the_ids_alone() {
    let site = Site::start();
    let id = site.submit(&["mail"]);
    site.run(&["hold", &id]).text();
    let flow =
        site.run_with(b"flow: m\ntasks: { a: { lane: default } }\n", &["flow", "submit", "-"]);
    let flow = flow.text();
    let quota = site.run(&["quota", "create", "--concurrent", "1"]).text();
    site.run(&["kind", "set", "mail", "--retries", "5", "--timeout", "30s"]).text();
    for (list, only) in [
        (["held"].as_slice(), id.as_str()),
        (&["flow", "ls"], &flow),
        (&["quota", "ls"], &quota),
        (&["kind", "ls"], "mail"),
        (&["lane", "ls"], "default"),
        (&["waits"], ""),
        (&["worker", "ls"], ""),
    ] {
        assert_eq!(site.run(&[list, &["-q"]].concat()).text(), only, "{list:?}");
    }
    let kinds = site.run(&["kind", "ls"]).text();
    assert!(kinds.contains("--retries 5 --backoff 1s..1m --timeout 30s"), "{kinds}");
    assert!(kinds.lines().all(|line| line.chars().count() <= 80), "{kinds}");
}
