//! Settings: one table, one precedence. A flag wins over the environment, the environment over the
//! file, the file over the default; `flowfabric config show` tells which one it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ff_backend_embedded::MemoryLimit;

use crate::failure::Failure;
use crate::time;

/// One setting. The flag is `--name-with-dashes`, or `--set name=value`, the variable
/// `FLOWFABRIC_NAME` with an underscore for each dot, the key of the file `name`; those with a dot
/// stand in a table of the file.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    /// Never shown.
    pub(crate) secret: bool,
    /// Read again on SIGHUP; all others at the start only.
    pub(crate) reloaded: bool,
}

const fn setting(name: &'static str, default: &'static str) -> Setting {
    Setting { name, default, secret: false, reloaded: false }
}

const fn reloaded(name: &'static str) -> Setting {
    Setting { reloaded: true, ..setting(name, "") }
}

/// Every setting of the server.
pub(crate) const SETTINGS: &[Setting] = &[
    setting("listen", "127.0.0.1:7480"),
    setting("store", "./flowfabric-data"),
    setting("journal", "always"),
    setting("memory_limit", "auto"),
    setting("backup_dir", ""),
    setting("require_durable", "false"),
    setting("durability", "primary"),
    setting("partitions", "256"),
    Setting { secret: true, ..reloaded("tokens") },
    reloaded("allowed_hosts"),
    setting("public_url", ""),
    reloaded("tls_cert"),
    reloaded("tls_key"),
    setting("tls_self_signed", "false"),
    setting("allow_insecure", "false"),
    setting("log", "info"),
    setting("log_format", "text"),
    setting("access_log", "false"),
    setting("open_metrics", "false"),
    setting("drain", "10s"),
    Setting { secret: true, ..setting("waitpoint_secret", "") },
    setting("waitpoint_secret_file", ""),
    setting("waitpoint_grace", "1d"),
    setting("valkey_ca", ""),
    setting("valkey_cert", ""),
    setting("valkey_key", ""),
    setting("limits.connections", "8192"),
    setting("limits.requests", "1024"),
    setting("limits.waiting", "4096"),
    setting("limits.large_body_bytes", "268435456"),
    setting("limits.bulk_body_bytes", "33554432"),
    setting("limits.header_timeout", "1m"),
    setting("limits.body_timeout", "30s"),
    setting("limits.write_timeout", "30s"),
    setting("limits.request_timeout", "30s"),
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Flag,
    Environment,
    File(PathBuf),
    Default,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment => f.write_str("environment"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The value of every setting, and where it came from.
pub(crate) struct Settings {
    values: BTreeMap<&'static str, (String, Source)>,
}

/// The file that is read if it is there and no other was named.
const DEFAULT_FILE: &str = "flowfabric.toml";

impl Settings {
    /// Resolves every setting. `flags` has those that were given on the command line.
    pub(crate) fn resolve(
        flags: &BTreeMap<String, String>,
        file: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let (path, from_file) = read_file(file)?;
        if let Some(name) = flags.keys().find(|name| !is_known(name)) {
            return Err(unknown(name));
        }
        let values = SETTINGS.iter().map(|setting| {
            let name = setting.name;
            let variable = variable(name);
            let value = if let Some(value) = flags.get(name) {
                (value.clone(), Source::Flag)
            } else if let Some(value) = environment(&variable).filter(|value| !value.is_empty()) {
                (value, Source::Environment)
            } else if let Some(value) = from_file.get(name) {
                (value.clone(), Source::File(path.clone()))
            } else {
                (setting.default.to_owned(), Source::Default)
            };
            (name, value)
        });
        Ok(Self { values: values.collect() })
    }

    /// The text of a setting.
    pub(crate) fn text(&self, name: &'static str) -> &str {
        &self.values[name].0
    }

    /// Whether somebody said it.
    pub(crate) fn is_said(&self, name: &'static str) -> bool {
        self.values[name].1 != Source::Default
    }

    /// A setting that is something else than text.
    pub(crate) fn parse<T: std::str::FromStr>(
        &self,
        name: &'static str,
        rule: &str,
    ) -> Result<T, Failure> {
        let (text, source) = &self.values[name];
        let wrong = |_| Failure::not_understood(format!("{name} ({source}) must be {rule}"));
        text.parse().map_err(wrong)
    }

    /// A setting that says how long.
    pub(crate) fn duration(&self, name: &'static str) -> Result<Duration, Failure> {
        let (text, source) = &self.values[name];
        let wrong = |rule| Failure::not_understood(format!("{name} ({source}) {rule}"));
        time::duration(text).map_err(wrong)
    }

    /// Puts the number of bytes in the place of `auto`, to be shown.
    pub(crate) fn resolve_memory_limit(&mut self) -> Result<(), Failure> {
        let limit: MemoryLimit = self.parse("memory_limit", "auto, none, or a size like 6GiB")?;
        if let Some((value, _)) = self.values.get_mut("memory_limit")
            && value == "auto"
        {
            *value = format!("auto: {limit}");
        }
        Ok(())
    }

    /// The settings whose values differ from earlier ones and that only a restart would change.
    pub(crate) fn waiting_for_a_restart(&self, earlier: &Self) -> Vec<&'static str> {
        let fixed = SETTINGS.iter().filter(|setting| !setting.reloaded).map(|setting| setting.name);
        fixed.filter(|name| self.text(name) != earlier.text(name)).collect()
    }

    /// A value as it may be shown.
    pub(crate) fn shown(&self, name: &'static str) -> String {
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        setting.map(|setting| shown(setting, self.text(name))).unwrap_or_default()
    }

    /// Name, value as it may be shown, and source of every setting.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, String, String)> + '_ {
        SETTINGS.iter().map(|setting| {
            let (value, source) = &self.values[setting.name];
            (setting.name, shown(setting, value), source.to_string())
        })
    }
}

/// Variables that are ours and no settings of the server: those of commands and of programs that a
/// worker runs.
const OTHER_VARIABLES: [&str; 11] = [
    "URL",
    "TOKEN",
    "CA",
    "EXECUTION_ID",
    "KIND",
    "ATTEMPT",
    "FENCE",
    "SUSPEND",
    "SIGNALS",
    "RESUMED_BY",
    "INPUTS",
];

/// What Kubernetes tells every container of a service that is called `flowfabric`.
const OF_SERVICES: [&str; 2] = ["PORT", "SERVICE_"];

/// Those of these variables that look like settings and are none: somebody mistyped them.
pub(crate) fn mistyped(variables: impl Iterator<Item = String>) -> Vec<String> {
    let known = |name: &str| {
        OTHER_VARIABLES.contains(&name)
            || OF_SERVICES.iter().any(|begin| name.starts_with(begin))
            || SETTINGS.iter().any(|setting| variable(setting.name)[PREFIX.len()..] == *name)
    };
    let wrong = |name: &String| name.strip_prefix(PREFIX).is_some_and(|rest| !known(rest));
    let mut names: Vec<String> = variables.filter(wrong).collect();
    names.sort_unstable();
    names
}

/// The environment variable of a setting.
pub(crate) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('.', "_").to_uppercase())
}

const PREFIX: &str = "FLOWFABRIC_";

fn is_known(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.name == name)
}

fn unknown(name: &str) -> Failure {
    let known = "`flowfabric config show` lists all of them";
    Failure::not_understood(format!("there is no setting {name:?}; {known}"))
}

/// Secrets, and passwords inside addresses, are never shown.
fn shown(setting: &Setting, value: &str) -> String {
    if setting.secret && !value.is_empty() {
        return "(hidden)".to_owned();
    }
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    match rest.rsplit_once('@') {
        Some((credentials, host)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:(hidden)@{host}")
        }
        None => value.to_owned(),
    }
}

fn read_file(named: Option<&Path>) -> Result<(PathBuf, BTreeMap<String, String>), Failure> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE)).to_owned();
    if named.is_none() && !path.exists() {
        return Ok((path, BTreeMap::new()));
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::from(format!("{}: {error}", path.display())))?;
    let table: toml::Table =
        text.parse().map_err(|error| Failure::not_understood(broken(&path, &text, &error)))?;
    let mut values = BTreeMap::new();
    for (name, value) in table {
        for (name, value) in flat(name, value) {
            if !is_known(&name) {
                let said = format!("{}: {}", path.display(), unknown(&name).message);
                return Err(Failure::not_understood(said));
            }
            values.insert(name, plain(&value));
        }
    }
    Ok((path, values))
}

/// The settings of a table have its name and a dot in front.
fn flat(name: String, value: toml::Value) -> Vec<(String, toml::Value)> {
    match value {
        toml::Value::Table(table) => {
            table.into_iter().map(|(inner, value)| (format!("{name}.{inner}"), value)).collect()
        }
        value => vec![(name, value)],
    }
}

/// Where the file is broken and how. The line itself is not shown: it may hold a token.
fn broken(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    format!("{}, line {line}: {}", path.display(), error.message())
}

fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(flag: Option<&str>, variable: Option<&str>, file: Option<&str>) -> Settings {
        let flags = flag.map(|value| ("listen".to_owned(), value.to_owned())).into_iter().collect();
        let dir = std::env::temp_dir().join(format!("ff-settings-{}", std::process::id()));
        let path = file.map(|text| {
            std::fs::create_dir_all(&dir).expect("a directory");
            let path = dir.join(format!("{:?}.toml", std::thread::current().id()));
            std::fs::write(&path, text).expect("a file");
            path
        });
        let environment = |name: &str| {
            (name == "FLOWFABRIC_LISTEN").then(|| variable.map(str::to_owned)).flatten()
        };
        Settings::resolve(&flags, path.as_deref(), environment).expect("resolves")
    }

    #[test]
    fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
        let file = Some("listen = '1.1.1.1:1'");
        assert_eq!(resolve(Some("f"), Some("e"), file).text("listen"), "f");
        assert_eq!(resolve(None, Some("e"), file).text("listen"), "e");
        assert_eq!(resolve(None, None, file).text("listen"), "1.1.1.1:1");
        assert_eq!(resolve(None, None, Some("")).text("listen"), "127.0.0.1:7480");
    }

    #[test]
    fn a_table_of_the_file_is_a_prefix() {
        let settings = resolve(None, None, Some("[limits]\nrequests = 7\nbody_timeout = '5s'"));
        assert_eq!(settings.text("limits.requests"), "7");
        let timeout = settings.duration("limits.body_timeout").expect("a time");
        assert_eq!(timeout, Duration::from_secs(5));
        assert_eq!(variable("limits.requests"), "FLOWFABRIC_LIMITS_REQUESTS");
    }

    #[test]
    fn a_mistyped_variable_is_found() {
        let variables = [
            "FLOWFABRIC_LISTN",
            "FLOWFABRIC_LISTEN",
            "FLOWFABRIC_LIMITS_REQUESTS",
            "FLOWFABRIC_URL",
            "FLOWFABRIC_RESUMED_BY",
            "FLOWFABRIC_SERVICE_HOST",
            "FLOWFABRIC_PORT_7480_TCP_ADDR",
            "HOME",
        ];
        let found = mistyped(variables.into_iter().map(str::to_owned));
        assert_eq!(found, ["FLOWFABRIC_LISTN"]);
    }

    #[test]
    fn secrets_are_never_shown() {
        let settings = resolve(None, None, Some("tokens = ['s3cret', 'other']"));
        assert_eq!(settings.text("tokens"), "s3cret,other");
        let shown: String = settings.rows().map(|(_, value, _)| value).collect();
        assert!(!shown.contains("s3cret"));
        let password = shown_store("valkey://ada:s3cret@db:6379/");
        assert_eq!(password, "valkey://ada:(hidden)@db:6379/");
    }

    #[test]
    fn a_broken_file_is_named_by_its_line_which_is_not_shown() {
        let text = "listen = '1.1.1.1:1'\ntokens = ['s3cret";
        let error = text.parse::<toml::Table>().expect_err("broken");
        let said = broken(Path::new("settings.toml"), text, &error);
        assert!(said.starts_with("settings.toml, line 2: "), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }

    fn shown_store(value: &str) -> String {
        let setting = SETTINGS.iter().find(|setting| setting.name == "store").expect("there");
        shown(setting, value)
    }
}
