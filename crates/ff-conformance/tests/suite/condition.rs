//! Conditions: what each form counts, when it is satisfied and by which signals, what is refused.

use ff_conformance::{Answer, Deployment, conformance};
use ff_script::args::Args;
use ff_script::host::{Function, Host};

const TEST: Function = Function { wire_name: "ff_test_condition_v1", read_only: false };

/// Plays signals, given as `name` or `name/type` or `name/type/source`, against a condition. Gives
/// which counted and which satisfied it: `1,2 -> 1,2`, or `1 -> open`.
async fn play(d: &Deployment, condition: &str, signals: &str) -> String {
    let mut args = Args::default();
    args.push(condition.as_bytes());
    for signal in signals.split_whitespace() {
        let mut parts = signal.split('/');
        for default in ["", "test", "tester"] {
            args.push(parts.next().unwrap_or(default).as_bytes());
        }
    }
    let reply = d.host().call(TEST, d.home(), args).await.expect("the library has an answer");
    let answer = Answer::open(reply);
    if !answer.done {
        return answer.text(0);
    }
    format!("{} -> {}", answer.text(0), answer.text(1))
}

const ANY: &str = r#"{"type":"any","signals":["yes","no"]}"#;
const WILD: &str = r#"{"type":"any","signals":["*"]}"#;
const ALL: &str = r#"{"type":"all","signals":["a","b","a"]}"#;
const WILD_FIRST: &str = r#"{"type":"all","signals":["*","a"]}"#;
const COUNT: &str = r#"{"type":"count","count":3,"signals":["a","b"]}"#;
const DISTINCT: &str =
    r#"{"type":"count","count":2,"signals":["ok"],"distinct_sources":true,"source_type":"human"}"#;
const N_OF_M: &str = r#"{"type":"any_of","conditions":[
    {"type":"count","count":2,"signals":["approved"],"distinct_sources":true,
        "source_type":"approver"},
    {"type":"any","signals":["rejected"],"source_type":"approver"}]}"#;
const BOTH: &str = r#"{"type":"all_of","conditions":[
    {"type":"any","signals":["paid"]},
    {"type":"any_of","conditions":[{"type":"any","signals":["packed"]},
        {"type":"all","signals":["p1","p2"]}]}]}"#;
const SHARED: &str = r#"{"type":"all_of","conditions":[
    {"type":"any","signals":["a"]},{"type":"count","count":2,"signals":["*"]}]}"#;

conformance! {
    async fn every_form_counts_what_fits_and_says_what_satisfied_it(d: &Deployment) {
        for (condition, signals, expected) in [
            (ANY, "maybe", " -> open"),
            (ANY, "maybe no", "2 -> 2"),
            (WILD, "x", "1 -> 1"),
            (ALL, "a b", "1,2 -> open"),
            (ALL, "a x b b a", "1,3,5 -> 1,3,5"),
            (WILD_FIRST, "a a", "1,2 -> 1,2"),
            (WILD_FIRST, "x x a", "1,3 -> 1,3"),
            (COUNT, "a a", "1,2 -> open"),
            (COUNT, "a a x b", "1,2,4 -> 1,2,4"),
            (DISTINCT, "ok/human/ann ok/human/ann ok/robot/bob", "1 -> open"),
            (DISTINCT, "ok/human/ann ok/human/ann ok/human/bob", "1,3 -> 1,3"),
            (N_OF_M, "approved/approver/ann approved/approver/ann", "1 -> open"),
            (N_OF_M, "approved/approver/ann approved/approver/bob", "1,2 -> 1,2"),
            (N_OF_M, "approved/approver/ann rejected/approver/bob", "1,2 -> 2"),
            (N_OF_M, "approved/webhook/ann rejected/webhook/bob", " -> open"),
            (BOTH, "paid p1", "1,2 -> open"),
            (BOTH, "paid p1 p2", "1,2,3 -> 1,2,3"),
            (BOTH, "p1 packed p2 paid", "1,2,3,4 -> 2,4"),
            (SHARED, "x a", "1,2 -> 1,2"),
            (SHARED, "a x", "1,2 -> 1,2"),
        ] {
            assert_eq!(play(d, condition, signals).await, expected, "{condition} {signals}");
        }
    }

    async fn the_flat_form_means_what_it_says(d: &Deployment) {
        for (condition, signals, expected) in [
            (r#"{"required_signal_names":["a","b"]}"#, "b", "1 -> 1"),
            (r#"{"required_signal_names":["a","b"],"signal_match_mode":"all"}"#, "b b a",
                "1,3 -> 1,3"),
            (r#"{"required_signal_names":["a","b","c"],"signal_match_mode":"any",
                "minimum_signal_count":2}"#, "a a c", "1,3 -> 1,3"),
            (r#"{"condition_type":"signal_set","required_signal_names":[""],
                "signal_match_mode":"count","minimum_signal_count":3,"timeout_behavior":"fail",
                "allow_operator_override":true}"#, "x x y", "1,2,3 -> 1,2,3"),
            (r#"{"condition_type":"operator_only"}"#, "a b", " -> open"),
            (r#"{"condition_type":"timeout_only","required_signal_names":["a"]}"#, "a",
                " -> open"),
        ] {
            assert_eq!(play(d, condition, signals).await, expected, "{condition} {signals}");
        }
    }

    async fn what_is_no_condition_is_refused_by_its_place(d: &Deployment) {
        let deep = r#"{"type":"all_of","conditions":["#;
        let nested = format!("{}{ANY}{}", deep.repeat(4), "]}".repeat(4));
        let many = format!(r#"{{"type":"any","signals":[{}"a"]}}"#, r#""a","#.repeat(64));
        let long = format!(r#"{{"type":"any","signals":["{}"]}}"#, "a".repeat(129));
        for (condition, rule) in [
            ("", "unexpected character"),
            ("7", "must be an object"),
            ("[]", "must be an object"),
            (r#"{"type":"some","signals":["a"]}"#, "condition.type: unknown type"),
            (r#"{"type":"any"}"#, "condition.signals: must be a list"),
            (r#"{"type":"any","signals":[]}"#, "condition.signals: must be a list"),
            (r#"{"type":"any","signals":null}"#, "condition.signals: must be a list"),
            (r#"{"type":"any","signals":["a"],"count":2}"#, "condition.count: unknown field"),
            (r#"{"type":"any","signals":[""]}"#, "names must be"),
            (r#"{"type":"any","signals":[7]}"#, "names must be"),
            (r#"{"type":"any","signals":["é"]}"#, "names must be"),
            (r#"{"type":"any","signals":["a"],"source_type":null}"#, "source_type: must be"),
            (r#"{"type":"count","count":0,"signals":["a"]}"#, "must be a whole number from 1"),
            (r#"{"type":"count","count":101,"signals":["a"]}"#, "must be a whole number from 1"),
            (r#"{"type":"count","count":1.5,"signals":["a"]}"#, "must be a whole number from 1"),
            (r#"{"type":"count","signals":["a"]}"#, "condition.count: must be"),
            (r#"{"type":"count","count":1,"signals":["a"],"distinct_sources":1}"#,
                "distinct_sources: must be true or false"),
            (r#"{"type":"all_of","conditions":[]}"#, "conditions: must be a list"),
            (r#"{"type":"all_of","conditions":[7]}"#, "condition.conditions[0]: must be an object"),
            (r#"{"type":"all_of","conditions":[{"type":"operator_only"}]}"#,
                "condition.conditions[0]: stands alone"),
            (r#"{"type":"any_of","conditions":[{"type":"any","signals":["a"],
                "allow_operator_override":true}]}"#, "belongs to the outermost"),
            (r#"{"type":"any","signals":["a"],"allow_operator_override":"no"}"#,
                "allow_operator_override: must be true or false"),
            (&nested, "must be nested at most 4 deep"),
            (&many, "must have at most 64 names"),
            (&long, "names must be 1 to 128"),
            (r#"{}"#, "required_signal_names: must be a list"),
            (r#"{"required_signal_names":{}}"#, "required_signal_names: must be a list"),
            (r#"{"required_signal_names":["a"],"minimum_signal_count":2}"#, "from 1 to 1"),
            (r#"{"required_signal_names":["a"],"minimum_signal_count":null}"#, "from 1 to 1"),
            (r#"{"required_signal_names":["a"],"signal_match_mode":"most"}"#,
                "must be any, all or count"),
            (r#"{"condition_type":"other"}"#, "condition_type: unknown type"),
        ] {
            let told = play(d, condition, "").await;
            assert!(told.contains(rule), "{condition}: {told}");
        }
    }

    async fn a_condition_of_the_largest_size_is_taken(d: &Deployment) {
        let names = r#""a","#.repeat(63);
        let condition = format!(r#"{{"type":"all","signals":[{names}"b"]}}"#);
        let signals = "a ".repeat(63) + "b";
        assert!(play(d, &condition, &signals).await.ends_with(",64"));
        let distinct = r#"{"type":"count","count":100,"signals":["*"],"distinct_sources":true}"#;
        let signals: Vec<String> = (0..100).map(|number| format!("s/t/{number}")).collect();
        assert!(play(d, distinct, &signals.join(" ")).await.ends_with(",100"));
    }
}
