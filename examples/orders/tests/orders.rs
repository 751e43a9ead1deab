//! The shop does what it promises, in one process and in two.

use std::process::{Command, Output};

use ff_test_valkey::{Valkey, ValkeyOptions};

const PRINTED: &str = "\
    order 1: shoes, 7900 cents, attempt 2\n\
    order 2: the execution failed (bad_order): a free lunch costs -100 cents\n\
    order 3: tea, 450 cents, attempt 2\n";

fn orders(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orders"));
    command.args(arguments);
    command
}

fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn orders_are_charged_as_their_kind_says() {
    assert_eq!(printed(orders(&[]).output().expect("it runs")), PRINTED);
}

#[test]
fn a_worker_apart_charges_them_too() {
    let valkey = Valkey::start(ValkeyOptions::default()).expect("valkey-server starts");
    let store = valkey.url();
    let mut worker = orders(&["worker", &store]).spawn().expect("it starts");
    let shop = orders(&["shop", &store]).output();
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
    assert_eq!(printed(shop.expect("it runs")), PRINTED);
}
