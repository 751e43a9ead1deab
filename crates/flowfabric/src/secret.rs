//! `flowfabric secret`: the keys that waitpoint tokens are signed with.

use std::time::Duration;

use ff_script::ids::{IdSource, SystemIds};
use ff_sdk::RotateWaitpointSecretRequest;

use crate::failure::Failure;
use crate::input;
use crate::remote::{Remote, block_on};
use crate::time;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Sign waitpoint tokens with another key; those that are out stay good for a while.
    Rotate(Options),
}

/// The new key.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A file with the key in hex digits, 16 to 128 bytes, or - for standard input [default: one is
    /// made that nobody knows].
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
    /// The key's id; it stands at the beginning of every token [default: made of the time].
    #[arg(long, value_name = "NAME")]
    kid: Option<String>,
    /// How long tokens under the key before are accepted [default: as the
    /// server was told, a day unless it was].
    #[arg(long, value_name = "TIME", value_parser = time::duration)]
    grace: Option<Duration>,
}

pub(crate) fn run(remote: &Remote, json: bool, command: &Command) -> Result<(), Failure> {
    let Command::Rotate(options) = command;
    let request = RotateWaitpointSecretRequest {
        new_kid: options.kid.clone().unwrap_or_else(kid_of_now),
        new_secret_hex: secret(options)?,
        grace_ms: options.grace.map(time::millis),
    };
    let rotated =
        block_on(async { Ok(remote.client().await?.rotate_waitpoint_secret(request).await?) })?;
    if json {
        say!("{}", serde_json::to_string(&rotated)?);
    } else {
        say!("{} signs waitpoint tokens in {} partitions", rotated.new_kid, rotated.rotated);
    }
    for failure in &rotated.errors {
        eprintln!("partition {}: {}", failure.partition, failure.reason);
    }
    match rotated.failed.as_slice() {
        [] => Ok(()),
        failed => {
            let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
            Err(format!("not in partitions {}: do it again", failed.join(", ")).into())
        }
    }
}

fn secret(options: &Options) -> Result<String, Failure> {
    let Some(file) = &options.secret_file else { return Ok(fresh()) };
    let bytes = input::read("--secret-file", &input::of_file(file))?;
    // The bytes themselves are never part of a message.
    let text = String::from_utf8(bytes).map_err(|_| "--secret-file: must be hex digits")?;
    Ok(text.trim().to_owned())
}

/// Forty-eight bytes, more than the digest has.
fn fresh() -> String {
    (0..3).map(|_| SystemIds.random().simple().to_string()).collect()
}

fn kid_of_now() -> String {
    let digits = time::moment(time::now());
    format!("k{}", digits.chars().filter(char::is_ascii_digit).collect::<String>())
}
