//! A cluster of Valkey servers, built by direct commands (faster than `valkey-cli --cluster`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::certificates::Certificates;
use crate::control::Reply;
use crate::server::{Valkey, ValkeyOptions, temporary_directory, wait_for};

const SLOTS: usize = 16_384;
const FORM_TIMEOUT: Duration = Duration::from_secs(60);

/// A running cluster. Dropping it kills all of its servers.
pub struct ValkeyCluster {
    nodes: Vec<Valkey>,
    masters: usize,
    options: ValkeyOptions,
    dir: PathBuf,
}

impl ValkeyCluster {
    /// Starts `masters` masters with `replicas_per_master` replicas each, and waits until every
    /// node sees all slots covered and all replicas in step.
    pub fn start(masters: usize, replicas_per_master: usize) -> io::Result<Self> {
        Self::start_with(masters, replicas_per_master, ValkeyOptions::default())
    }

    /// The same, with options for every node (`dir` is ignored: each node has its own).
    pub fn start_with(
        masters: usize,
        replicas_per_master: usize,
        mut options: ValkeyOptions,
    ) -> io::Result<Self> {
        options.dir = None;
        let count = masters * (1 + replicas_per_master);
        let dir = temporary_directory();
        fs::create_dir_all(&dir)?;
        let mut cluster = Self { nodes: Vec::new(), masters, options, dir };
        let tls = cluster.options.tls;
        let certificates = tls.then(|| Certificates::create(&cluster.dir)).transpose()?;
        for _ in 0..count {
            let node = Valkey::launch_member(cluster.options.clone(), certificates.clone())?;
            cluster.nodes.push(node);
        }
        cluster.form()?;
        Ok(cluster)
    }

    /// Where clients connect: `valkey-cluster://` with all nodes.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls { "valkeys-cluster" } else { "valkey-cluster" };
        let user = self.options.username.as_deref().unwrap_or_default();
        let credentials = match &self.options.password {
            Some(password) => format!("{user}:{password}@"),
            None => String::new(),
        };
        let addresses: Vec<String> = self.nodes.iter().map(Valkey::address).collect();
        format!("{scheme}://{credentials}{}/", addresses.join(","))
    }

    /// The nodes: first the initial masters, then their replicas, in the masters' order.
    pub fn nodes(&self) -> &[Valkey] {
        &self.nodes
    }

    /// One node, to kill, pause or restart it.
    pub fn node_mut(&mut self, index: usize) -> &mut Valkey {
        &mut self.nodes[index]
    }

    /// Index of the running node that serves this slot now, by the word of the first node that
    /// knows of one: after a failover, some nodes know later than others.
    pub fn master_of(&self, slot: u16) -> io::Result<usize> {
        for node in self.running() {
            let (_, owner) = view(node)?;
            let bus = owner[usize::from(slot)];
            let serves = |node: &Valkey| node.bus_port() == bus && node.pid().is_some();
            if let Some(index) = self.nodes.iter().position(serves) {
                return Ok(index);
            }
        }
        Err(io::Error::other(format!("no running node serves slot {slot}")))
    }

    /// Waits until every node that is up reports a whole cluster.
    pub fn wait_until_whole(&self) -> io::Result<()> {
        wait_for(FORM_TIMEOUT, || Ok(self.is_whole().unwrap_or(false)))
    }

    fn form(&self) -> io::Result<()> {
        self.nodes.iter().try_for_each(Valkey::wait_until_ready)?;
        for (index, node) in self.nodes.iter().enumerate() {
            expect_ok(node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?)?;
        }
        self.meet()?;
        self.assign_slots()?;
        wait_for(FORM_TIMEOUT, || Ok(self.all_know_all().unwrap_or(false)))?;
        self.attach_replicas()?;
        self.wait_until_whole()
    }

    fn meet(&self) -> io::Result<()> {
        let first = &self.nodes[0];
        for node in &self.nodes[1..] {
            let port = node.port().to_string();
            let bus = node.bus_port().unwrap_or_default().to_string();
            expect_ok(first.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?)?;
        }
        Ok(())
    }

    fn assign_slots(&self) -> io::Result<()> {
        for index in 0..self.masters {
            let start = (SLOTS * index / self.masters).to_string();
            let end = (SLOTS * (index + 1) / self.masters - 1).to_string();
            let words = ["CLUSTER", "ADDSLOTSRANGE", &start, &end];
            expect_ok(self.nodes[index].command(&words)?)?;
        }
        Ok(())
    }

    fn all_know_all(&self) -> io::Result<bool> {
        for node in &self.nodes {
            let known = node.command(&["CLUSTER", "NODES"])?;
            let ready = known.text().lines().filter(|line| !line.contains("handshake")).count();
            if ready != self.nodes.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn attach_replicas(&self) -> io::Result<()> {
        let replicas_per_master = (self.nodes.len() / self.masters).saturating_sub(1).max(1);
        for (place, replica) in self.nodes[self.masters..].iter().enumerate() {
            let id = self.nodes[place / replicas_per_master].command(&["CLUSTER", "MYID"])?;
            expect_ok(replica.command(&["CLUSTER", "REPLICATE", id.text()])?)?;
        }
        Ok(())
    }

    fn is_whole(&self) -> io::Result<bool> {
        let mut views = BTreeSet::new();
        for node in self.running() {
            let info = node.command(&["CLUSTER", "INFO"])?;
            if !info.text().contains("cluster_state:ok") {
                return Ok(false);
            }
            let (replicas, owner) = view(node)?;
            views.insert((replicas, owner));
            let replication = node.command(&["INFO", "replication"])?;
            if replication.text().contains("master_link_status:down") {
                return Ok(false);
            }
        }
        let agreed = views.len() == 1;
        Ok(agreed && views.iter().all(|(_, owner)| owner.iter().all(Option::is_some)))
    }

    fn running(&self) -> impl Iterator<Item = &Valkey> {
        self.nodes.iter().filter(|node| node.pid().is_some())
    }
}

impl Drop for ValkeyCluster {
    fn drop(&mut self) {
        // A directory that cannot be removed is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// How many replicas a node knows, and the bus port of each slot's master. (The other ports depend
/// on who asks: a client without TLS is not told the TLS port.)
type View = (usize, Vec<Option<u16>>);

fn view(node: &Valkey) -> io::Result<View> {
    let mut owner = vec![None; SLOTS];
    let mut replicas = 0;
    // id, ip:port@bus, flags, master, ping, pong, epoch, link state, slot ranges
    for line in node.command(&["CLUSTER", "NODES"])?.text().lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.len() < 8 || words[2].contains("fail") {
            continue;
        }
        replicas += usize::from(words[2].contains("slave"));
        let bus = words[1].split(['@', ',']).nth(1).and_then(|port| port.parse().ok());
        for (start, end) in words[8..].iter().filter_map(|range| slots_of(range)) {
            owner[start..=end].fill(bus);
        }
    }
    Ok((replicas, owner))
}

/// The ends of a range such as `0-5460` or `7`; slots on the move (`[7-<-…]`) are none.
fn slots_of(range: &str) -> Option<(usize, usize)> {
    let (start, end) = range.split_once('-').unwrap_or((range, range));
    Some((start.parse().ok()?, end.parse().ok()?)).filter(|(_, end)| *end < SLOTS)
}

fn expect_ok(reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Error(text) => Err(io::Error::other(text)),
        _ => Ok(()),
    }
}
