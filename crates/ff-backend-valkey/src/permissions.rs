//! What the user of a connection must be allowed to do. A right that lacks would otherwise be found
//! in the middle of a function.

use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::error::EngineError;
use ff_script::call::{Call, open_reply};
use ff_script::calls::library::{CheckRights, CheckRightsReply};

use crate::connection::Connection;
use crate::errors::{Failure, Remedy};

/// The rules that give a user all that is needed.
pub(crate) const RULES: &str = "~ff:* &ff:* +@read +@write +@scripting +@pubsub +@connection \
    -@dangerous +time +info +config|get +cluster|slots";

/// Missing rights that are named; if everything is missing, a few say it.
const NAMED_MAX: usize = 5;

/// Asks the library, which asks the server about every command that it runs.
pub(crate) async fn check(connection: &Connection, user: &str) -> Result<(), Failure> {
    let mut command = redis::cmd("FCALL_RO");
    command.arg(CheckRights::FUNCTION.wire_name).arg(0);
    let reply = connection.run(&command).await?;
    let read = || {
        let (status, values) = open_reply(CheckRights::CONTRACT.name, reply)?;
        CheckRights::decode(&status, values)
    };
    let CheckRightsReply::Rights { missing } =
        read().map_err(|error| strange(connection, &error))?;
    if missing.0.is_empty() {
        return Ok(());
    }
    let more = if missing.0.len() > NAMED_MAX { " and more" } else { "" };
    let named: Vec<&str> = missing.0.iter().take(NAMED_MAX).map(String::as_str).collect();
    let message = format!(
        "{} does not allow the user {user} what the function library does ({}{more}): \
         ACL SETUSER {user} {RULES}",
        connection.address,
        named.join(", "),
    );
    Err(Failure::new(BackendErrorKind::Auth, Retry::Never, Remedy::GiveUp, message))
}

fn strange(connection: &Connection, error: &EngineError) -> Failure {
    let message = format!("{} cannot tell the rights of its users: {error}", connection.address);
    Failure::new(BackendErrorKind::ScriptNotLoaded, Retry::Never, Remedy::GiveUp, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_the_same_rules() {
        assert!(include_str!("../../../docs/operating.md").contains(RULES));
    }
}
