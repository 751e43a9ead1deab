//! Every example runs with the one command that it names, and prints what it promises.

use std::process::Command;

/// Runs an example as its reader would.
fn output(example: &str) -> Vec<String> {
    let run = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "-p", "ff-sdk", "--example", example])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{example} failed:\n{errors}");
    String::from_utf8_lossy(&run.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn hello_greets_and_gets_the_greetings_back() {
    assert_eq!(
        output("hello"),
        [
            "attempt 1: greeting Ada",
            "result: hello, Ada",
            "attempt 1: greeting Grace",
            "result: hello, Grace",
        ]
    );
}

#[test]
fn retries_and_timeouts_end_as_their_policies_say() {
    let lines = output("retries_and_timeouts");
    let expected = [
        "flaky              3 attempt(s), completed: \"worked at attempt 3\"",
        "slow               2 attempt(s), completed: \"quick at last\"",
        "charge of -5       1 attempt(s), failed as bad_request: a charge cannot be negative",
        "charge of \"five\"   1 attempt(s), failed as invalid_input: input: invalid type: string \"five\", expected i64 at line 1 column 6",
        "buggy              4 attempt(s), failed as panic: the handler panicked: index out of bounds: the len is 3 but the index is 3",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn an_agent_s_answer_is_streamed_whole_although_its_worker_is_killed() {
    let thought = "I need the forecast to know how warm will it be in Lisbon?";
    let answer = "The forecast says 21 degrees, so take a light jacket along.";
    assert_eq!(
        output("agent"),
        [
            "attempt 1",
            thought,
            "[forecast(Lisbon)]",
            "The forecast says 21 degrees, ",
            "(the worker is killed)",
            "attempt 2",
            thought,
            "[forecast(Lisbon)]",
            answer,
            &format!("result: {answer}"),
        ]
    );
}

#[test]
fn a_flow_of_a_clip_ends_with_a_film() {
    assert_eq!(
        output("flow"),
        [
            "the thumbnail is cat.mp4.0.png",
            "the film is 9 seconds of cat.mp4.0.webm, cat.mp4.1.webm, cat.mp4.2.webm",
            "the flow is completed",
            "7 were created, 6 freed, 7 ended",
        ]
    );
}

#[test]
fn a_task_goes_on_with_the_results_of_the_children_it_added() {
    assert_eq!(
        output("children"),
        ["chapter 1: 7 words", "chapter 2: 9 words", "chapter 3: 3 words", "the book: 19 words",]
    );
}

#[test]
fn a_batch_of_ten_thousand_runs_each_once() {
    let lines = output("batch");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("submitted 10000 executions in "), "{lines:?}");
    assert!(lines[1].starts_with("completed 10000 executions in "), "{lines:?}");
    assert_eq!(lines[2], "the squares of 1 to 10000 add up to 333383335000");
    assert_eq!(lines[3], "handlers ran 10000 times");
}

#[test]
fn an_agent_with_a_token_budget_stops_asks_is_approved_and_goes_on() {
    assert_eq!(
        output("token_budget"),
        [
            "step 1: 300 tokens",
            "step 2: 300 tokens",
            "step 3: 300 tokens",
            "asked: Raise the budget of the agents? 1200 of 1000 tokens are used.",
            "mia approves",
            "step 5: 300 tokens",
            "result: What is six times seven? 42",
            "1500 of 2000 tokens are used",
        ]
    );
}
