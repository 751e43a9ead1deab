//! One Valkey server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::certificates::Certificates;
use crate::control::{Control, Reply};
use crate::ports::Port;
use crate::process;

const START_TIMEOUT: Duration = Duration::from_secs(30);
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// How a server is to be started.
#[derive(Clone, Debug, Default)]
pub struct ValkeyOptions {
    /// Keep an append-only file, so that data outlives a kill.
    pub append_only: bool,
    /// `always`, `everysec` or `no`; the server's default if absent.
    pub append_fsync: Option<String>,
    /// A directory that stays afterwards; a temporary one if absent.
    pub dir: Option<PathBuf>,
    /// Password of the default user, or of `username` if that is given.
    pub password: Option<String>,
    /// An ACL user that may do everything; the default user is then switched off.
    pub username: Option<String>,
    /// Speak TLS only, with certificates made for this server.
    pub tls: bool,
    /// Further words for the command line, as in `["--maxmemory", "64mb"]`.
    pub args: Vec<String>,
}

impl ValkeyOptions {
    /// Adds words to the command line.
    pub fn with_args(mut self, words: &[&str]) -> Self {
        self.args.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }
}

/// A running server. Dropping it kills the server and removes its temporary directory.
pub struct Valkey {
    options: ValkeyOptions,
    port: Port,
    bus_port: Option<Port>,
    dir: PathBuf,
    certificates: Option<Certificates>,
    child: Option<Child>,
}

impl Valkey {
    /// Starts a server and waits until it answers.
    pub fn start(options: ValkeyOptions) -> io::Result<Self> {
        let dir = options.dir.clone().unwrap_or_else(temporary_directory);
        fs::create_dir_all(&dir)?;
        let certificates = options.tls.then(|| Certificates::create(&dir)).transpose()?;
        let server = Self::launch(options, dir, certificates, None)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts a replica of a server that it reaches by this port, its own or that of a link, and
    /// waits until it confirms what the server sends.
    pub fn start_replica(of: &Self, through: u16, options: ValkeyOptions) -> io::Result<Self> {
        let following = ["--replicaof", "127.0.0.1", &through.to_string()];
        let replica = Self::start(options.with_args(&following))?;
        // A replica that is new confirms nothing for up to a second. What is published is sent to
        // replicas, too, and changes nothing there.
        wait_for(START_TIMEOUT, || {
            of.command(&["PUBLISH", "start", ""])?;
            let told = of.command(&["INFO", "replication"])?;
            Ok(told.text().lines().any(|line| has_confirmed(line, replica.port())))
        })?;
        Ok(replica)
    }

    /// Makes a replica a primary, as an operator does when its own is gone.
    pub fn promote(&self) -> io::Result<()> {
        self.command(&["REPLICAOF", "NO", "ONE"]).map(drop)
    }

    /// Starts a member of a cluster, without waiting. Members share their certificates: each must
    /// trust the others.
    pub(crate) fn launch_member(
        options: ValkeyOptions,
        certificates: Option<Certificates>,
    ) -> io::Result<Self> {
        let dir = temporary_directory();
        fs::create_dir_all(&dir)?;
        Self::launch(options, dir, certificates, Some(Port::take()?))
    }

    fn launch(
        options: ValkeyOptions,
        dir: PathBuf,
        certificates: Option<Certificates>,
        bus_port: Option<Port>,
    ) -> io::Result<Self> {
        process::find("valkey-server")?;
        let port = Port::take()?;
        let mut server = Self { options, port, bus_port, dir, certificates, child: None };
        server.spawn()?;
        Ok(server)
    }

    /// Where clients connect: `valkey://127.0.0.1:port/`, `valkeys://` with TLS. Credentials are
    /// part of it if the server wants some.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls { "valkeys" } else { "valkey" };
        let user = self.options.username.as_deref().unwrap_or_default();
        let credentials = match &self.options.password {
            Some(password) => format!("{user}:{password}@"),
            None => String::new(),
        };
        format!("{scheme}://{credentials}{}/", self.address())
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// The port clients connect to.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.bus_port.as_ref().map(|port| port.number)
    }

    /// The server's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The certificate authority that signed the server's certificate, if it speaks TLS.
    pub fn ca_file(&self) -> Option<&Path> {
        self.certificates.as_ref().map(|files| files.ca.as_path())
    }

    /// Process id of the running server, for those who measure it.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Runs one command, over a connection of its own that nothing else uses.
    pub fn command(&self, words: &[&str]) -> io::Result<Reply> {
        let mut control = Control::connect(&self.socket())?;
        if let Some(password) = &self.options.password {
            let user = self.options.username.as_deref().unwrap_or("default");
            control.run(&["AUTH", user, password])?;
        }
        control.run(words)
    }

    /// Kills the server the hard way. Its directory and its port are kept.
    pub fn kill9(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Starts the server again on the same port and directory, and waits until it answers.
    pub fn restart(&mut self) -> io::Result<()> {
        self.restart_without_waiting()?;
        self.wait_until_ready()
    }

    /// Starts the server again but does not wait, so that it can be met while it loads its data.
    pub fn restart_without_waiting(&mut self) -> io::Result<()> {
        self.kill9()?;
        self.spawn()
    }

    /// Stops the process where it is (SIGSTOP): connections stay open and nothing answers.
    pub fn pause(&self) -> io::Result<()> {
        self.signal("STOP")
    }

    /// Lets a paused process go on.
    pub fn resume(&self) -> io::Result<()> {
        self.signal("CONT")
    }

    fn signal(&self, name: &str) -> io::Result<()> {
        let child = self.child.as_ref().ok_or_else(|| io::Error::other("the server is down"))?;
        process::signal(child, name)
    }

    fn spawn(&mut self) -> io::Result<()> {
        // A socket left over by a killed server would be taken for the new one's.
        match fs::remove_file(self.socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.child = Some(process::start("valkey-server", &self.arguments())?);
        Ok(())
    }

    /// Waits until the server answers PING, or says why it does not.
    pub fn wait_until_ready(&self) -> io::Result<()> {
        wait_for(START_TIMEOUT, || {
            Ok(self.command(&["PING"]).is_ok_and(|reply| reply.text() == "PONG"))
        })
        .map_err(|error| io::Error::other(format!("{error}; its log says:\n{}", self.log())))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("valkey.log")).unwrap_or_default()
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("control.sock")
    }

    fn arguments(&self) -> Vec<String> {
        let mut words = Words::default();
        words.add("--bind 127.0.0.1 --daemonize no --save").push("");
        words.add("--enable-debug-command local --repl-diskless-sync-delay 0");
        words.add("--dir").push(self.dir.display());
        words.add("--logfile").push(self.dir.join("valkey.log").display());
        words.add("--unixsocket").push(self.socket().display());
        self.add_network(&mut words);
        self.add_persistence(&mut words);
        self.add_users(&mut words);
        words.0.extend(self.options.args.iter().cloned());
        words.0
    }

    fn add_network(&self, words: &mut Words) {
        let port = self.port.number;
        match &self.certificates {
            None => words.add(&format!("--port {port}")),
            Some(files) => {
                words.add(&format!("--port 0 --tls-port {port} --tls-auth-clients no"));
                words.add("--tls-replication yes --tls-cluster yes");
                words.add("--tls-ca-cert-file").push(files.ca.display());
                words.add("--tls-cert-file").push(files.certificate.display());
                words.add("--tls-key-file").push(files.key.display())
            }
        };
        if let Some(bus) = self.bus_port() {
            words.add("--cluster-enabled yes --cluster-node-timeout 1000");
            words.add("--cluster-replica-validity-factor 0 --cluster-config-file nodes.conf");
            words.add(&format!("--cluster-port {bus}"));
        }
    }

    fn add_persistence(&self, words: &mut Words) {
        words.add(if self.options.append_only { "--appendonly yes" } else { "--appendonly no" });
        if let Some(when) = &self.options.append_fsync {
            words.add("--appendfsync").push(when);
        }
    }

    fn add_users(&self, words: &mut Words) {
        let Some(password) = &self.options.password else { return };
        match &self.options.username {
            None => {
                words.add("--requirepass").push(password);
            }
            Some(user) => {
                words.add("--user default off --user").push(user).push("on");
                words.push(format!(">{password}")).add("~* &* +@all");
            }
        }
        words.add("--primaryauth").push(password);
        if let Some(user) = &self.options.username {
            words.add("--primaryuser").push(user);
        }
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the kernel kills the server with this process.
        let _ = self.kill9();
        if self.options.dir.is_none() {
            // A child that the server forked to save its data may write for a moment longer.
            let _ = wait_for(REMOVE_TIMEOUT, || Ok(fs::remove_dir_all(&self.dir).is_ok()));
        }
    }
}

/// True for a line like `slave0:ip=127.0.0.1,port=7,state=online,offset=28,lag=0,type=replica` of
/// the replica on this port, once it has confirmed something.
fn has_confirmed(line: &str, port: u16) -> bool {
    let parts: Vec<&str> = line.trim().split([':', ',']).collect();
    let offset = parts.iter().find_map(|part| part.strip_prefix("offset="));
    parts.contains(&format!("port={port}").as_str()) && offset.is_some_and(|it| it != "0")
}

/// The words of a command line.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn add(&mut self, words: &str) -> &mut Self {
        self.0.extend(words.split_ascii_whitespace().map(str::to_owned));
        self
    }

    fn push(&mut self, word: impl ToString) -> &mut Self {
        self.0.push(word.to_string());
        self
    }
}

pub(crate) fn temporary_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ff-valkey-{}-{count}", std::process::id()))
}

/// Asks until the answer is yes, or the time is up.
pub(crate) fn wait_for(
    timeout: Duration,
    mut ready: impl FnMut() -> io::Result<bool>,
) -> io::Result<()> {
    let deadline = Instant::now() + timeout;
    while !ready()? {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server is not ready in time"));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
