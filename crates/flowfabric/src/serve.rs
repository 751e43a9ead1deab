//! `flowfabric serve` and `flowfabric config show`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ff_backend_embedded::SyncMode;
use ff_script::backend::{FirstSecret, WaitpointSecrets};
use ff_server::{Authority, RunningServer, Server, ServerConfig, StoreConfig, TlsFiles, Token};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::table::Table;

/// Settings that can be given on the command line. Each can also stand in the environment as
/// `FLOWFABRIC_<NAME>` or in the file.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// File with settings [default: ./flowfabric.toml if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// A directory, `valkey://user:pass@host:port`, `valkeys://…`, `valkey-cluster://…`, `memory:`.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// When a call counts as done on an embedded store: always, everysec or off.
    #[arg(long, value_name = "WHEN")]
    journal: Option<String>,
    /// Refuse a store that may lose acknowledged work when it restarts.
    #[arg(long)]
    require_durable: bool,
    /// Number of partitions of a new deployment.
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
    /// Listen beyond loopback without any token.
    #[arg(long)]
    allow_insecure: bool,
    /// What to log, as in info or ff_server=debug.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How to log: text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// How long a shutdown waits for requests under way.
    #[arg(long, value_name = "MS")]
    drain_ms: Option<String>,
    /// File with the first secret of waitpoint tokens in hex digits, for a deployment that has none
    /// [default: one is made that nobody knows].
    #[arg(long, value_name = "FILE")]
    waitpoint_secret_file: Option<String>,
    /// How long a replaced key of tokens or links is accepted unless the rotation says otherwise.
    #[arg(long, value_name = "MS")]
    waitpoint_grace_ms: Option<String>,
}

impl Options {
    fn settings(&self) -> Result<Settings, Failure> {
        let given = [
            ("listen", self.listen.clone()),
            ("store", self.store.clone()),
            ("journal", self.journal.clone()),
            ("require_durable", self.require_durable.then(|| "true".to_owned())),
            ("partitions", self.partitions.clone()),
            ("tokens", self.tokens.clone()),
            ("allowed_hosts", self.allowed_hosts.clone()),
            ("public_url", self.public_url.clone()),
            ("tls_cert", self.tls_cert.clone()),
            ("tls_key", self.tls_key.clone()),
            ("allow_insecure", self.allow_insecure.then(|| "true".to_owned())),
            ("log", self.log.clone()),
            ("log_format", self.log_format.clone()),
            ("drain_ms", self.drain_ms.clone()),
            ("waitpoint_secret_file", self.waitpoint_secret_file.clone()),
            ("waitpoint_grace_ms", self.waitpoint_grace_ms.clone()),
        ];
        let flags: BTreeMap<_, _> =
            given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        Settings::resolve(&flags, self.config.as_deref(), |name| std::env::var(name).ok())
    }
}

/// Prints every setting, its value and where it came from.
pub(crate) fn show(options: &Options, json: bool) -> Result<(), Failure> {
    let settings = options.settings()?;
    server_config(&settings)?;
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
    Ok(())
}

/// How long a server whose store has stopped goes on telling its clients so.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves until it is told to stop, or has to.
pub(crate) fn run(options: &Options, json: bool) -> Result<(), Failure> {
    let settings = options.settings()?;
    let config = server_config(&settings)?;
    let drain = Duration::from_millis(settings.parse("drain_ms", "a number of milliseconds")?);
    log_to_stderr(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut signals, mut hangups) = (Signals::listen()?, signals::hangups()?);
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let server = Server::start(config).await?;
        if json {
            let url = format!("{scheme}://{}", server.local_addr());
            say!("{}", serde_json::json!({ "event": "listening", "url": url }));
        } else {
            say!("{}", server.banner());
        }
        let stopped = loop {
            tokio::select! {
                () = signals.next() => break None,
                _ = hangups.recv() => tell(json, reload(options, &settings, &server)),
                reason = server.stopped() => break Some(reason),
            }
        };
        if let Some(reason) = stopped {
            server.shutdown(drain.min(LAST_ANSWERS)).await;
            return Err(format!("the store has stopped: {reason}: start again to recover").into());
        }
        eprintln!("stopping: requests under way have {} ms to end", drain.as_millis());
        if !server.shutdown(drain).await {
            eprintln!("some requests did not end in time and were cut off");
        }
        Ok(())
    })
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

fn tell(json: bool, reloaded: Result<Vec<&'static str>, Failure>) {
    let event = match reloaded {
        Ok(waiting) => {
            eprintln!("tokens, allowed hosts and certificate were read again");
            if !waiting.is_empty() {
                eprintln!("changed, but only a restart takes it over: {}", waiting.join(", "));
            }
            serde_json::json!({ "event": "reloaded", "waiting_for_a_restart": waiting })
        }
        Err(failure) => {
            eprintln!("nothing was read again: {}", failure.message);
            serde_json::json!({ "event": "not_reloaded", "reason": failure.message })
        }
    };
    if json {
        say!("{event}");
    }
}

fn server_config(settings: &Settings) -> Result<ServerConfig, Failure> {
    let tls = match (settings.text("tls_cert"), settings.text("tls_key")) {
        ("", "") => None,
        ("", _) | (_, "") => return Err("tls_cert and tls_key go together".into()),
        (cert, key) => {
            Some(TlsFiles { certificate_file: PathBuf::from(cert), key_file: PathBuf::from(key) })
        }
    };
    let hosts = list(settings, "allowed_hosts")
        .map(|text| text.parse().map_err(|error| Failure::from(format!("allowed_hosts: {error}"))));
    let public_url = Some(settings.text("public_url")).filter(|text| !text.is_empty());
    let public_url = public_url.map(|text| text.parse().map_err(Failure::from)).transpose()?;
    Ok(ServerConfig {
        listen: settings.parse("listen", "an address like 127.0.0.1:7480")?,
        store: store_config(settings)?,
        tokens: list(settings, "tokens").map(|text| Token(text.to_owned())).collect(),
        allowed_hosts: hosts.collect::<Result<Vec<Authority>, _>>()?,
        public_url,
        tls,
        partitions: settings.parse("partitions", "a number from 1 to 65535")?,
        allow_insecure: settings.parse("allow_insecure", "true or false")?,
        waitpoint_secrets: waitpoint_secrets(settings)?,
        ..ServerConfig::default()
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
        grace_ms: settings.parse("waitpoint_grace_ms", "a number of milliseconds")?,
    })
}

/// The parts of a setting that are separated by commas.
fn list<'a>(settings: &'a Settings, name: &'static str) -> impl Iterator<Item = &'a str> {
    settings.text(name).split(',').map(str::trim).filter(|text| !text.is_empty())
}

fn store_config(settings: &Settings) -> Result<StoreConfig, Failure> {
    let journal: SyncMode = settings.parse("journal", "always, everysec or off")?;
    let store = StoreConfig::parse(settings.text("store"))
        .map_err(|error| Failure::from(format!("store: {error}")))?;
    let store = store.with_sync(journal);
    let required: bool = settings.parse("require_durable", "true or false")?;
    if required { store.require_durable().map_err(Failure::from) } else { Ok(store) }
}

fn log_to_stderr(settings: &Settings) -> Result<(), Failure> {
    let filter: Targets = settings.parse("log", "a filter like info or ff_server=debug")?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = tracing_subscriber::registry().with(filter);
    match settings.text("log_format") {
        "text" => logs.with(lines).init(),
        "json" => logs.with(lines.json()).init(),
        _ => return Err("log_format must be text or json".into()),
    }
    Ok(())
}
