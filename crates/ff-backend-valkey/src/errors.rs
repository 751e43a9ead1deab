//! Every way a call can fail, classified in one table: what kind of trouble it is, whether the
//! call may be sent again, and what this host does about it first.

use std::error::Error as _;
use std::io;

use ff_core::backend_error::{BackendError, BackendErrorKind as Kind, Retry};
use redis::{ErrorKind, RedisError};

use crate::config::Address;

/// A failed attempt.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// What the caller is told if it stays at that.
    pub(crate) error: BackendError,
    /// What may help.
    pub(crate) remedy: Remedy,
    /// Where the server says the slot went.
    pub(crate) moved_to: Option<Address>,
}

/// What this host does before it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing: the caller must act.
    GiveUp,
    /// Wait.
    Wait,
    /// Replace the connection, and ask the cluster who serves the slot now.
    Reconnect,
    /// Ask the cluster who serves the slot now.
    Refresh,
    /// Check the library and load it.
    LoadLibrary,
}

/// When an attempt failed: a call that never left cannot have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before the call was sent.
    Connecting,
    /// Afterwards.
    Calling,
}

struct Row {
    /// The error's first word.
    code: &'static str,
    /// How the rest begins, where the first word alone does not decide.
    text: &'static str,
    kind: Kind,
    retry: Retry,
    remedy: Remedy,
}

const fn row(code: &'static str, kind: Kind, retry: Retry, remedy: Remedy) -> Row {
    Row { code, text: "", kind, retry, remedy }
}

const fn err(text: &'static str, kind: Kind, retry: Retry, remedy: Remedy) -> Row {
    Row { code: "ERR", text, kind, retry, remedy }
}

/// Answers of the server. All of these are given before a function starts.
///
/// Trouble with resources is not waited out here, although nothing was applied: it lasts longer
/// than a call can wait, and the caller must hear of it.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("LOADING",     Kind::BusyLoading, Retry::Safe,  Remedy::Wait),
    row("BUSY",        Kind::BusyLoading, Retry::Safe,  Remedy::Wait),
    row("MOVED",       Kind::Cluster,     Retry::Safe,  Remedy::Refresh),
    // A slot that is on its way. Its keys are in two places and a function would find only some
    // of them, so an ASK is not followed: the call waits until the slot has arrived.
    row("ASK",         Kind::Cluster,     Retry::Safe,  Remedy::Wait),
    row("TRYAGAIN",    Kind::Cluster,     Retry::Safe,  Remedy::Wait),
    row("CLUSTERDOWN", Kind::Cluster,     Retry::Safe,  Remedy::Refresh),
    row("MASTERDOWN",  Kind::Cluster,     Retry::Safe,  Remedy::Reconnect),
    row("READONLY",    Kind::Cluster,     Retry::Safe,  Remedy::Reconnect),
    row("OOM",         Kind::StoreFull,   Retry::Safe,  Remedy::GiveUp),
    row("MISCONF",     Kind::Resource,    Retry::Safe,  Remedy::GiveUp),
    row("NOREPLICAS",  Kind::Resource,    Retry::Safe,  Remedy::GiveUp),
    row("NOAUTH",      Kind::Auth,        Retry::Never, Remedy::GiveUp),
    row("WRONGPASS",   Kind::Auth,        Retry::Never, Remedy::GiveUp),
    row("NOPERM",      Kind::Auth,        Retry::Never, Remedy::GiveUp),
    row("DENIED",      Kind::Auth,        Retry::Never, Remedy::GiveUp),
    row("CROSSSLOT",   Kind::Protocol,    Retry::Never, Remedy::GiveUp),
    err("Function not found", Kind::ScriptNotLoaded, Retry::Safe, Remedy::LoadLibrary),
    err("max number of clients reached", Kind::Resource, Retry::Safe, Remedy::Reconnect),
];

/// What a person can do about it: the code, a part of the text, the advice.
#[rustfmt::skip]
const ADVICE: &[(&str, &str, &str)] = &[
    ("NOPERM", "", "docs/operating.md has the rules that the user needs"),
    ("WRONGPASS", "", "check user and password of the store's URL"),
    ("NOAUTH", "", "give user and password in the store's URL"),
    ("MISCONF", "", "the server cannot write to its disk: its log says why"),
    ("ERR", "Engine '", "the server cannot run Lua: load its Lua module or use a build with it"),
    ("ERR", "unknown command", "the server lacks this command, or hides it by rename-command: \
        Valkey 7.2 with its own names of commands is needed"),
    ("ERR", "unknown subcommand", "the server is too old: Valkey 7.2 is needed"),
];

const BUG: Row = row("", Kind::Protocol, Retry::Never, Remedy::GiveUp);

/// The longest error text of a server that is passed on.
const TEXT_MAX: usize = 300;

impl Failure {
    /// A failure of our own making.
    pub(crate) fn new(kind: Kind, retry: Retry, remedy: Remedy, message: String) -> Self {
        Self { error: BackendError::new(kind, retry, message), remedy, moved_to: None }
    }

    /// True if this host may try again: the call was not applied and there is something to do.
    pub(crate) fn may_retry_here(&self) -> bool {
        self.error.retry == Retry::Safe && self.remedy != Remedy::GiveUp
    }

    /// Puts what was being done before the message.
    pub(crate) fn context(mut self, doing: &str) -> Self {
        self.error.message = format!("{doing}: {}", self.error.message);
        self
    }
}

/// Classifies what the client library reports about a call to `address`.
pub(crate) fn classify(error: &RedisError, address: &Address, phase: Phase) -> Failure {
    match error.code() {
        Some(code) => of_answer(code, error, address),
        None => of_transport(error, address, phase),
    }
}

fn of_answer(code: &str, error: &RedisError, address: &Address) -> Failure {
    let text = error.detail().unwrap_or_default();
    let row = find(code, text);
    let mut message = format!("{address} answered {code} {}", shortened(text));
    if let Some((_, _, advice)) = ADVICE.iter().find(|row| row.0 == code && text.contains(row.1)) {
        message.push_str("; ");
        message.push_str(advice);
    }
    let moved_to = (code == "MOVED").then(|| moved_to(error, address)).flatten();
    Failure { moved_to, ..Failure::new(row.kind, row.retry, row.remedy, message) }
}

fn find(code: &str, text: &str) -> &'static Row {
    let of_code = |row: &&Row| row.code == code && text.starts_with(row.text);
    let found = TABLE.iter().find(of_code).unwrap_or(&BUG);
    // Raised by a command inside a function, perhaps after it wrote: no code makes that safe.
    let inside = text.contains(" script: ") && text.contains(", on @user_function");
    if inside && found.retry != Retry::Never { &BUG } else { found }
}

fn of_transport(error: &RedisError, address: &Address, phase: Phase) -> Failure {
    // A server that wants our certificate says so only when the first command is sent.
    let inner = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    if let Some(inner) = inner.filter(|inner| certificate_trouble(inner).is_some()) {
        return of_connecting(inner, address);
    }
    let (kind, retry, what) = match (error.kind(), phase) {
        (ErrorKind::AuthenticationFailed, _) => {
            (Kind::Auth, Retry::Never, "refused the user or the password".to_owned())
        }
        (ErrorKind::Io, Phase::Connecting) => {
            (Kind::Transport, Retry::Safe, format!("cannot be reached: {}", io_text(error)))
        }
        (ErrorKind::Io, Phase::Calling) if error.is_timeout() => {
            (Kind::Timeout, Retry::IfReplaySafe, "did not answer in time".to_owned())
        }
        (ErrorKind::Io, Phase::Calling) => {
            let what = format!("was lost before it answered: {}", io_text(error));
            (Kind::Transport, Retry::IfReplaySafe, what)
        }
        // What cannot be parsed is not repeated: it may hold payload bytes.
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => {
            (Kind::Transport, Retry::IfReplaySafe, "sent what is no reply".to_owned())
        }
        (other, _) => (Kind::Protocol, Retry::Never, format!("made the client fail: {other:?}")),
    };
    let remedy = if kind == Kind::Auth { Remedy::GiveUp } else { Remedy::Reconnect };
    Failure::new(kind, retry, remedy, format!("{address} {what}"))
}

/// A failure to connect or to agree on TLS. A certificate we do not trust stays untrusted.
pub(crate) fn of_connecting(error: &io::Error, address: &Address) -> Failure {
    match certificate_trouble(error) {
        Some(said) => {
            Failure::new(Kind::Auth, Retry::Never, Remedy::GiveUp, format!("{address}: {said}"))
        }
        None => {
            let message = format!("{address} cannot be reached: {error}");
            Failure::new(Kind::Transport, Retry::Safe, Remedy::Reconnect, message)
        }
    }
}

/// What is wrong with a certificate, the server's or ours, if it is that.
#[cfg(feature = "tls")]
fn certificate_trouble(error: &io::Error) -> Option<String> {
    use rustls::{AlertDescription as Alert, CertificateError, Error};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())?;
    match tls {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => Some(
            "its certificate is not trusted: nobody whom this machine trusts has signed it; name \
             who has (valkey_ca)"
                .to_owned(),
        ),
        Error::InvalidCertificate(wrong) => {
            Some(format!("its certificate is not trusted: {wrong}"))
        }
        Error::AlertReceived(Alert::CertificateRequired) => Some(
            "it wants to know its clients: name a certificate and its key (valkey_cert, \
             valkey_key)"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(not(feature = "tls"))]
fn certificate_trouble(_: &io::Error) -> Option<String> {
    None
}

fn io_text(error: &RedisError) -> String {
    error.source().map_or_else(|| "connection closed".to_owned(), ToString::to_string)
}

fn shortened(text: &str) -> &str {
    let end = (0..=TEXT_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The address in `MOVED 3999 127.0.0.1:6381`. An empty host is the one that answered.
fn moved_to(error: &RedisError, answered: &Address) -> Option<Address> {
    let (host, port) = error.redirect_node()?.0.rsplit_once(':')?;
    let host = if host.is_empty() { &answered.host } else { host };
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address { host: "h".to_owned(), port: 1 }
    }

    fn answer(line: &str) -> Failure {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
            .expect("an error line is a reply");
        let error = value.extract_error().expect_err("it is an error");
        classify(&error, &address(), Phase::Calling)
    }

    #[cfg(feature = "tls")]
    #[test]
    fn trouble_with_a_certificate_says_which_setting_helps() {
        use rustls::{AlertDescription, CertificateError, Error};
        for (error, part) in [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "(valkey_ca)"),
            (Error::InvalidCertificate(CertificateError::Expired), "not trusted: "),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                "valkey_cert, valkey_key",
            ),
        ] {
            let failure = of_connecting(&io::Error::other(error), &address()).error;
            assert_eq!((failure.kind, failure.retry), (Kind::Auth, Retry::Never), "{failure}");
            assert!(failure.message.contains(part), "{failure}");
        }
        let other = of_connecting(&io::Error::other("refused"), &address()).error;
        assert_eq!(other.kind, Kind::Transport);
    }

    #[test]
    fn an_answer_is_classified_by_its_code() {
        use Kind::*;
        use Retry::*;
        for (line, kind, retry, remedy) in [
            ("LOADING Valkey is loading", BusyLoading, Safe, Remedy::Wait),
            ("BUSY Valkey is busy running a script.", BusyLoading, Safe, Remedy::Wait),
            ("TRYAGAIN Multiple keys", Cluster, Safe, Remedy::Wait),
            ("ASK 7 127.0.0.1:7001", Cluster, Safe, Remedy::Wait),
            ("MOVED 7 127.0.0.1:7001", Cluster, Safe, Remedy::Refresh),
            ("CLUSTERDOWN Hash slot not served", Cluster, Safe, Remedy::Refresh),
            ("MASTERDOWN Link with MASTER is down", Cluster, Safe, Remedy::Reconnect),
            ("READONLY You can't write", Cluster, Safe, Remedy::Reconnect),
            ("OOM command not allowed", StoreFull, Safe, Remedy::GiveUp),
            ("MISCONF Errors writing to the AOF", Resource, Safe, Remedy::GiveUp),
            ("NOREPLICAS Not enough good replicas", Resource, Safe, Remedy::GiveUp),
            ("NOAUTH Authentication required.", Auth, Never, Remedy::GiveUp),
            ("WRONGPASS invalid username", Auth, Never, Remedy::GiveUp),
            ("NOPERM this user has no permissions", Auth, Never, Remedy::GiveUp),
            ("CROSSSLOT Keys in request", Protocol, Never, Remedy::GiveUp),
            ("ERR Function not found", ScriptNotLoaded, Safe, Remedy::LoadLibrary),
            ("ERR max number of clients reached", Resource, Safe, Remedy::Reconnect),
            ("ERR unknown command", Protocol, Never, Remedy::GiveUp),
            ("WHATEVER", Protocol, Never, Remedy::GiveUp),
        ] {
            let failure = answer(line);
            let got = (failure.error.kind, failure.error.retry, failure.remedy);
            assert_eq!(got, (kind, retry, remedy), "{line}");
        }
    }

    #[test]
    fn an_error_raised_inside_a_function_is_never_safe() {
        for code in ["OOM", "READONLY", "TRYAGAIN", "WRONGTYPE"] {
            let failure = answer(&format!("{code} text script: ff_x, on @user_function:2."));
            assert_eq!((failure.error.kind, failure.error.retry), (Kind::Protocol, Retry::Never));
        }
        assert_eq!(answer("NOPERM x script: f, on @user_function:2.").error.kind, Kind::Auth);
    }

    #[test]
    fn a_move_names_the_new_address() {
        let to = |line| answer(line).moved_to.map(|address| address.to_string());
        assert_eq!(to("MOVED 7 127.0.0.1:7001").as_deref(), Some("127.0.0.1:7001"));
        assert_eq!(to("MOVED 7 :7001").as_deref(), Some("h:7001"));
        assert_eq!(to("MOVED 7 2001:db8::1:7001").as_deref(), Some("[2001:db8::1]:7001"));
        assert_eq!(to("ASK 7 127.0.0.1:7001"), None);
    }

    #[test]
    fn a_lost_reply_is_safe_only_before_the_call_was_sent() {
        use io::ErrorKind::*;
        for (io, phase, kind, retry) in [
            (ConnectionRefused, Phase::Connecting, Kind::Transport, Retry::Safe),
            (TimedOut, Phase::Connecting, Kind::Transport, Retry::Safe),
            (BrokenPipe, Phase::Connecting, Kind::Transport, Retry::Safe),
            (BrokenPipe, Phase::Calling, Kind::Transport, Retry::IfReplaySafe),
            (ConnectionReset, Phase::Calling, Kind::Transport, Retry::IfReplaySafe),
            (UnexpectedEof, Phase::Calling, Kind::Transport, Retry::IfReplaySafe),
            (TimedOut, Phase::Calling, Kind::Timeout, Retry::IfReplaySafe),
        ] {
            let failure = classify(&io::Error::from(io).into(), &address(), phase);
            let got = (failure.error.kind, failure.error.retry);
            assert_eq!(got, (kind, retry), "{io:?} while {phase:?}");
            assert_eq!(failure.remedy, Remedy::Reconnect);
        }
    }

    #[test]
    fn garbage_is_not_repeated_in_the_message() {
        let error = redis::parse_redis_value(b"!canary\r\n").expect_err("that is no reply");
        let failure = classify(&error, &address(), Phase::Calling);
        assert_eq!(failure.error.retry, Retry::IfReplaySafe);
        assert!(!failure.error.message.contains("canary"), "{}", failure.error);
    }

    #[test]
    fn a_long_answer_is_cut() {
        let failure = answer(&format!("ERR {}", "é".repeat(1000)));
        assert!(failure.error.message.len() < TEXT_MAX + 40);
    }
}
