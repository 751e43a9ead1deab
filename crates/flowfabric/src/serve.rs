//! `flowfabric serve` and `flowfabric config show`.

mod self_signed;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use ff_backend_embedded::SyncMode;
use ff_script::backend::{FirstSecret, WaitpointSecrets};
use ff_server::{
    Authority, Limits, RunningServer, Server, ServerConfig, StartError, StoreConfig, TlsFiles,
    Token,
};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use crate::kind::built_in;
use crate::settings::{self, Settings};
use crate::signals::{self, Signals};
use crate::table::Table;
use crate::time;

/// Settings that can be given on the command line. Each can also stand in the environment as
/// `FLOWFABRIC_<NAME>` or in the file.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// File with settings [default: ./flowfabric.toml if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:7480].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// A directory, `valkey://user:pass@host:port`, `valkeys://…`, `valkey-cluster://…`, `memory:`
    /// [default: ./flowfabric-data].
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// When a call counts as done on an embedded store: always, everysec or off [default: always].
    #[arg(long, value_name = "WHEN")]
    journal: Option<String>,
    /// How much memory the keys and values of an embedded store may take: auto, none, or a size as
    /// in 6GiB [default: auto].
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Refuse a store that may lose acknowledged work when it restarts.
    #[arg(long)]
    require_durable: bool,
    /// When a call counts as done on Valkey: primary, or replica, when one has confirmed it
    /// [default: primary].
    #[arg(long, value_name = "WHERE")]
    durability: Option<String>,
    /// Number of partitions of a new deployment [default: 256].
    #[arg(long, value_name = "NUMBER")]
    partitions: Option<String>,
    /// Bearer tokens that are accepted, separated by commas; better in the environment or the file.
    #[arg(long, value_name = "TOKENS")]
    tokens: Option<String>,
    /// Further host names by which the server may be reached, separated by commas.
    #[arg(long, value_name = "HOSTS")]
    allowed_hosts: Option<String>,
    /// The server's address as people see it, for links that are sent to them.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Certificate file; with --tls-key the server speaks TLS.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Key file of the certificate.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Speak TLS with a certificate that is made for a first try, and kept in
    /// ./flowfabric-cert.pem and ./flowfabric-key.pem.
    #[arg(long)]
    tls_self_signed: bool,
    /// Listen beyond loopback without any token.
    #[arg(long)]
    allow_insecure: bool,
    /// What to log, as in info or ff_server=debug [default: info].
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How to log: text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log every request: method, path, status, time taken and request id.
    #[arg(long)]
    access_log: bool,
    /// Answer /metrics without a token.
    #[arg(long)]
    open_metrics: bool,
    /// How long a shutdown waits for requests under way [default: 10s].
    #[arg(long, value_name = "TIME")]
    drain: Option<String>,
    /// File with the first secret of waitpoint tokens in hex digits, for a deployment that has none
    /// [default: one is made that nobody knows].
    #[arg(long, value_name = "FILE")]
    waitpoint_secret_file: Option<String>,
    /// How long a replaced key of tokens or links is accepted unless the rotation says otherwise
    /// [default: 1d].
    #[arg(long, value_name = "TIME")]
    waitpoint_grace: Option<String>,
    /// File with the certificate authorities to trust of a Valkey that speaks TLS.
    #[arg(long, value_name = "FILE")]
    valkey_ca: Option<String>,
    /// Certificate file to show to a Valkey that wants to know its clients.
    #[arg(long, value_name = "FILE")]
    valkey_cert: Option<String>,
    /// Key file of that certificate.
    #[arg(long, value_name = "FILE")]
    valkey_key: Option<String>,
    /// Any setting by its name, as in limits.requests=2000; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_set)]
    set: Vec<(String, String)>,
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is written NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Options {
    fn settings(&self) -> Result<Settings, Failure> {
        let given = [
            ("listen", self.listen.clone()),
            ("store", self.store.clone()),
            ("journal", self.journal.clone()),
            ("memory_limit", self.memory_limit.clone()),
            ("require_durable", self.require_durable.then(|| "true".to_owned())),
            ("durability", self.durability.clone()),
            ("partitions", self.partitions.clone()),
            ("tokens", self.tokens.clone()),
            ("allowed_hosts", self.allowed_hosts.clone()),
            ("public_url", self.public_url.clone()),
            ("tls_cert", self.tls_cert.clone()),
            ("tls_key", self.tls_key.clone()),
            ("allow_insecure", self.allow_insecure.then(|| "true".to_owned())),
            ("log", self.log.clone()),
            ("log_format", self.log_format.clone()),
            ("access_log", self.access_log.then(|| "true".to_owned())),
            ("open_metrics", self.open_metrics.then(|| "true".to_owned())),
            ("drain", self.drain.clone()),
            ("waitpoint_secret_file", self.waitpoint_secret_file.clone()),
            ("waitpoint_grace", self.waitpoint_grace.clone()),
            ("tls_self_signed", self.tls_self_signed.then(|| "true".to_owned())),
            ("valkey_ca", self.valkey_ca.clone()),
            ("valkey_cert", self.valkey_cert.clone()),
            ("valkey_key", self.valkey_key.clone()),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let flags: BTreeMap<_, _> = self.set.iter().cloned().chain(given).collect();
        Settings::resolve(&flags, self.config.as_deref(), |name| std::env::var(name).ok())
    }
}

/// Prints every setting, its value and where it came from.
pub(crate) fn show(options: &Options, json: bool) -> Result<(), Failure> {
    let mut settings = options.settings()?;
    server_config(&settings)?;
    settings.resolve_memory_limit()?;
    settings.duration("drain")?;
    if json {
        let rows: serde_json::Map<_, _> = settings
            .rows()
            .map(|(name, value, source)| {
                (name.to_owned(), serde_json::json!({ "value": value, "source": source }))
            })
            .collect();
        say!("{}", serde_json::Value::Object(rows));
        return Ok(());
    }
    let mut table = Table::new(&["setting", "value", "from"]);
    settings.rows().for_each(|(name, value, source)| table.row([name.to_owned(), value, source]));
    say!("{table}");
    mistyped_variables().iter().for_each(|line| note!("{line}"));
    note!("of executions, where nobody says anything: {}", built_in());
    Ok(())
}

/// What to say about variables that somebody mistyped.
fn mistyped_variables() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let line = |name| format!("{name} is no setting; `flowfabric config show` lists all of them");
    settings::mistyped(names).into_iter().map(line).collect()
}

/// How long a server whose store has stopped goes on telling its clients so.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves until it is told to stop, or has to.
pub(crate) fn run(options: &Options, json: bool) -> Result<(), Failure> {
    let settings = options.settings()?;
    let logs_json = settings.text("log_format") == "json";
    start(options, &settings, json).map_err(|failure| failure.told_as_json(logs_json))
}

fn start(options: &Options, settings: &Settings, json: bool) -> Result<(), Failure> {
    let config = server_config(settings)?;
    let drain = settings.duration("drain")?;
    log_to_stderr(settings)?;
    if settings.parse("tls_self_signed", "true or false")? {
        self_signed::prepare(&config)?;
    }
    mistyped_variables().iter().for_each(|line| tracing::warn!("{line}"));
    let logs_json = settings.text("log_format") == "json";
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut signals, mut hangups) = (Signals::listen()?, signals::hangups()?);
        let server = Server::start(config).await.map_err(not_started)?;
        greet(&server, settings, json);
        let stopped = loop {
            tokio::select! {
                () = signals.next() => break None,
                _ = hangups.recv() => tell(json, logs_json, reload(options, settings, &server)),
                reason = server.stopped() => break Some(reason),
            }
        };
        if let Some(reason) = stopped {
            server.shutdown(drain.min(LAST_ANSWERS)).await;
            return Err(format!("the store has stopped: {reason}: start again to recover").into());
        }
        let time = settings.text("drain");
        notice(logs_json, &format!("stopping: requests under way have {time} to end"));
        if !server.shutdown(drain).await {
            notice(logs_json, "some requests did not end in time and were cut off");
        }
        Ok(())
    })
}

/// What is wrong with a setting was not understood; anything else could not be done.
fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Config(rule) => Failure::not_understood(rule),
        error => Failure::from(error),
    }
}

/// Tells the person, or the program that reads its logs, where the server is.
fn greet(server: &RunningServer, settings: &Settings, json: bool) {
    let url = server.url();
    if json {
        say!("{}", serde_json::json!({ "event": "listening", "url": url }));
    } else if settings.text("log_format") == "json" {
        let store = settings.shown("store");
        tracing::info!(url, store, version = env!("CARGO_PKG_VERSION"), "listening");
    } else {
        if settings.text("tls_self_signed") == "true" {
            say!("{}", self_signed::trusting(server.banner()));
            say!("  trust       {}", self_signed::advice(&url));
        } else {
            say!("{}", server.banner());
        }
    }
}

/// A line for the person at the terminal, or a line of the log where all lines are JSON.
fn notice(logs_json: bool, text: &str) {
    if logs_json {
        tracing::info!("{text}");
    } else {
        eprintln!("{text}");
    }
}

/// Takes over what may change while the server runs. If anything is wrong, nothing changes. Answers
/// the settings that changed, too, but are taken over only by a restart.
fn reload(
    options: &Options,
    started_with: &Settings,
    server: &RunningServer,
) -> Result<Vec<&'static str>, Failure> {
    let settings = options.settings()?;
    server.reload(&server_config(&settings)?)?;
    Ok(settings.waiting_for_a_restart(started_with))
}

fn tell(json: bool, logs_json: bool, reloaded: Result<Vec<&'static str>, Failure>) {
    let event = match reloaded {
        Ok(waiting) => {
            notice(logs_json, "tokens, allowed hosts and certificate were read again");
            if !waiting.is_empty() {
                let waiting = waiting.join(", ");
                notice(logs_json, &format!("changed, but only a restart takes it over: {waiting}"));
            }
            serde_json::json!({ "event": "reloaded", "waiting_for_a_restart": waiting })
        }
        Err(failure) => {
            notice(logs_json, &format!("nothing was read again: {}", failure.message));
            serde_json::json!({ "event": "not_reloaded", "reason": failure.message })
        }
    };
    if json {
        say!("{event}");
    }
}

fn server_config(settings: &Settings) -> Result<ServerConfig, Failure> {
    let wrong_host = |error| Failure::not_understood(format!("allowed_hosts: {error}"));
    let hosts = list(settings, "allowed_hosts").map(|text| text.parse().map_err(wrong_host));
    let public_url = Some(settings.text("public_url")).filter(|text| !text.is_empty());
    let public_url = public_url.map(|text| text.parse().map_err(Failure::from)).transpose()?;
    Ok(ServerConfig {
        listen: settings.parse("listen", "an address like 127.0.0.1:7480")?,
        store: store_config(settings)?,
        tokens: list(settings, "tokens").map(|text| Token(text.to_owned())).collect(),
        allowed_hosts: hosts.collect::<Result<Vec<Authority>, _>>()?,
        public_url,
        tls: tls_files(settings)?,
        limits: limits(settings)?,
        partitions: partitions(settings)?,
        allow_insecure: settings.parse("allow_insecure", "true or false")?,
        open_metrics: settings.parse("open_metrics", "true or false")?,
        access_log: settings.parse("access_log", "true or false")?,
        waitpoint_secrets: waitpoint_secrets(settings)?,
    })
}

/// How many, if that was said: otherwise it is as many as there are.
fn partitions(settings: &Settings) -> Result<Option<u16>, Failure> {
    let count = settings.parse("partitions", "a number from 1 to 65535")?;
    Ok(settings.is_said("partitions").then_some(count))
}

fn tls_files(settings: &Settings) -> Result<Option<TlsFiles>, Failure> {
    let self_signed: bool = settings.parse("tls_self_signed", "true or false")?;
    let together = "tls_cert and tls_key go together, and without tls_self_signed";
    let files = |certificate: &str, key: &str| {
        Some(TlsFiles { certificate_file: certificate.into(), key_file: key.into() })
    };
    match (settings.text("tls_cert"), settings.text("tls_key")) {
        ("", "") if self_signed => Ok(files(self_signed::CERTIFICATE, self_signed::KEY)),
        ("", "") => Ok(None),
        ("", _) | (_, "") => Err(Failure::not_understood(together)),
        _ if self_signed => Err(Failure::not_understood(together)),
        (certificate, key) => Ok(files(certificate, key)),
    }
}

fn limits(settings: &Settings) -> Result<Limits, Failure> {
    let count = |name| settings.parse(name, "a number");
    let bytes = |name| settings.parse(name, "a number of bytes");
    let millis = |name| settings.duration(name).map(time::millis);
    Ok(Limits {
        connections: count("limits.connections")?,
        requests: count("limits.requests")?,
        waiting: count("limits.waiting")?,
        large_body_bytes: bytes("limits.large_body_bytes")?,
        bulk_body_bytes: bytes("limits.bulk_body_bytes")?,
        header_timeout_ms: millis("limits.header_timeout")?,
        body_timeout_ms: millis("limits.body_timeout")?,
        write_timeout_ms: millis("limits.write_timeout")?,
        request_timeout_ms: millis("limits.request_timeout")?,
    })
}

fn waitpoint_secrets(settings: &Settings) -> Result<WaitpointSecrets, Failure> {
    let (secret, file) =
        (settings.text("waitpoint_secret"), settings.text("waitpoint_secret_file"));
    let (name, hex) = match (secret, file) {
        ("", "") => ("", None),
        (secret, "") => ("waitpoint_secret", Some(secret.to_owned())),
        ("", file) => {
            let read = std::fs::read_to_string(file);
            let hex = read.map_err(|error| format!("waitpoint_secret_file {file}: {error}"))?;
            ("waitpoint_secret_file", Some(hex))
        }
        _ => return Err("waitpoint_secret and waitpoint_secret_file: only one can be given".into()),
    };
    let first = hex.map(|hex| FirstSecret::parse(hex.trim())).transpose();
    Ok(WaitpointSecrets {
        first: first.map_err(|rule| format!("{name} {rule}"))?.unwrap_or_else(FirstSecret::random),
        grace_ms: time::millis(settings.duration("waitpoint_grace")?),
    })
}

/// The parts of a setting that are separated by commas.
fn list<'a>(settings: &'a Settings, name: &'static str) -> impl Iterator<Item = &'a str> {
    settings.text(name).split(',').map(str::trim).filter(|text| !text.is_empty())
}

fn store_config(settings: &Settings) -> Result<StoreConfig, Failure> {
    let journal: SyncMode = settings.parse("journal", "always, everysec or off")?;
    let store = StoreConfig::parse(settings.text("store"))
        .map_err(|error| Failure::not_understood(format!("store: {error}")))?;
    let limit = settings.parse("memory_limit", "auto, none, or a size like 6GiB")?;
    let file = |name| Some(settings.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from);
    let store = store
        .with_sync(journal)
        .with_memory_limit(limit)
        .with_durability(settings.parse("durability", "primary or replica")?)
        .map_err(Failure::not_understood)?
        .with_backup_directory(file("backup_dir"))
        .with_valkey_files(file("valkey_ca"), file("valkey_cert"), file("valkey_key"))
        .map_err(Failure::not_understood)?;
    let required: bool = settings.parse("require_durable", "true or false")?;
    if required { store.require_durable().map_err(Failure::from) } else { Ok(store) }
}

fn log_to_stderr(settings: &Settings) -> Result<(), Failure> {
    let filter: Targets = settings.parse("log", "a filter like info or ff_server=debug")?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let logs = tracing_subscriber::registry().with(filter);
    match settings.text("log_format") {
        "text" => logs.with(lines).init(),
        "json" => logs.with(lines.json()).init(),
        _ => return Err(Failure::not_understood("log_format must be text or json")),
    }
    Ok(())
}
