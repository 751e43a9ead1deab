//! Who serves which slot. A standalone server serves them all.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ff_core::backend_error::{BackendErrorKind, Retry};
use ff_core::partition::Partition;
use ff_core::slot::SLOTS;
use ff_script::value::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::config::Address;
use crate::connection::Connector;
use crate::errors::{Failure, Remedy};
use crate::node::Node;
use crate::retry::random_u64;

const ALL_SLOTS: (u16, u16) = (0, SLOTS - 1);

/// A node that does not say who serves what in this time is passed over for the next one.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// The servers and the slots they serve.
pub(crate) struct Topology {
    pub(crate) connector: Arc<Connector>,
    map: RwLock<Arc<SlotMap>>,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    /// Held by the one who refreshes. Remembers when and how the last refresh ended.
    refreshing: tokio::sync::Mutex<Option<(Instant, Result<(), Failure>)>>,
    changes: watch::Sender<u64>,
}

/// The slot ranges of the masters, in order, and all addresses that may know better.
#[derive(Default)]
struct SlotMap {
    ranges: Vec<(u16, u16, Arc<Node>)>,
    known: BTreeSet<Address>,
}

impl SlotMap {
    fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let place = self.ranges.partition_point(|(_, end, _)| *end < slot);
        self.ranges.get(place).filter(|(start, _, _)| *start <= slot).map(|(_, _, node)| node)
    }

    fn same_as(&self, other: &Self) -> bool {
        let key = |range: &(u16, u16, Arc<Node>)| (range.0, range.1, range.2.address.clone());
        self.ranges.iter().map(key).eq(other.ranges.iter().map(key))
    }
}

impl Topology {
    /// A standalone server is known at once; a cluster must be asked by a refresh.
    pub(crate) fn new(connector: Arc<Connector>) -> Self {
        let cluster = connector.config.cluster;
        let topology = Self {
            connector,
            map: RwLock::default(),
            nodes: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            changes: watch::channel(0).0,
        };
        if !cluster {
            let address = topology.connector.config.addresses[0].clone();
            topology.install(vec![(ALL_SLOTS.0, ALL_SLOTS.1, address)], BTreeSet::new());
        }
        topology
    }

    /// The server that serves a partition.
    pub(crate) fn master_of(&self, partition: Partition) -> Result<Arc<Node>, Failure> {
        // Under the lock rather than on a clone: every call comes through here.
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let owner = match map.ranges.as_slice() {
            [(start, end, only)] if (*start, *end) == ALL_SLOTS => Some(only),
            _ => map.owner(partition.slot()),
        };
        owner.cloned().ok_or_else(|| {
            let message = format!("no node of the cluster serves the slot of {partition}");
            Failure::new(BackendErrorKind::Cluster, Retry::Safe, Remedy::Refresh, message)
        })
    }

    /// The last of the flow partitions that a server serves: the one of its marks, so that the
    /// first, which holds what concerns the whole deployment, is left alone.
    pub(crate) fn last_partition_of(&self, address: &Address) -> Result<Partition, Failure> {
        let served = |partition: &Partition| {
            self.master_of(*partition).is_ok_and(|node| node.address == *address)
        };
        let count = self.connector.config.partitions.num_flow_partitions;
        let all = (0..count).rev().map(Partition::flow);
        { all }.find(served).ok_or_else(|| {
            let message = format!("{address} serves no partition any more");
            Failure::new(BackendErrorKind::Cluster, Retry::Safe, Remedy::Refresh, message)
        })
    }

    /// Every master once.
    pub(crate) fn masters(&self) -> Vec<Arc<Node>> {
        let map = self.map();
        let mut seen = BTreeSet::new();
        let nodes = map.ranges.iter().map(|(_, _, node)| node);
        nodes.filter(|node| seen.insert(&node.address)).cloned().collect()
    }

    /// Tells when the map changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes the word of a server that a partition is served elsewhere.
    pub(crate) fn note_move(&self, partition: Partition, to: &Address) {
        let slot = partition.slot();
        let map = self.map();
        let known = map.owner(slot).is_some_and(|owner| owner.address == *to);
        if known || !self.connector.config.cluster {
            return;
        }
        let mut ranges = Vec::new();
        for (start, end, node) in &map.ranges {
            let address = &node.address;
            if slot < *start || slot > *end {
                ranges.push((*start, *end, address.clone()));
                continue;
            }
            if *start < slot {
                ranges.push((*start, slot - 1, address.clone()));
            }
            if slot < *end {
                ranges.push((slot + 1, *end, address.clone()));
            }
        }
        ranges.push((slot, slot, to.clone()));
        self.install(ranges, map.known.clone());
    }

    /// Asks the cluster who serves what. Those who come while somebody asks share the answer.
    pub(crate) async fn refresh(&self) -> Result<(), Failure> {
        if !self.connector.config.cluster {
            return Ok(());
        }
        let asked_at = Instant::now();
        let mut last = self.refreshing.lock().await;
        if let Some((_, result)) = last.as_ref().filter(|(at, _)| *at >= asked_at) {
            return result.clone();
        }
        let result = self.ask_nodes().await;
        *last = Some((Instant::now(), result.clone()));
        result
    }

    /// Refreshes without keeping the caller waiting, unless somebody is at it already.
    pub(crate) fn refresh_soon(self: &Arc<Self>) {
        if self.connector.config.cluster && self.refreshing.try_lock().is_ok() {
            let topology = Arc::clone(self);
            tokio::spawn(async move { topology.refresh().await });
        }
    }

    async fn ask_nodes(&self) -> Result<(), Failure> {
        let mut last = None;
        for address in self.candidates() {
            match self.ask(&address).await {
                Ok((ranges, known)) => {
                    self.install(ranges, known);
                    return Ok(());
                }
                Err(failure) => last = Some(failure),
            }
        }
        Err(last.unwrap_or_else(|| {
            let message = "the configuration names no node of the cluster".to_owned();
            Failure::new(BackendErrorKind::Cluster, Retry::Never, Remedy::GiveUp, message)
        }))
    }

    /// All nodes that may know, in random order: no single one with an old view is believed
    /// again and again.
    fn candidates(&self) -> Vec<Address> {
        let map = self.map();
        let mut all: Vec<Address> = map.known.iter().cloned().collect();
        let seeds = &self.connector.config.addresses;
        all.extend(seeds.iter().filter(|seed| !map.known.contains(seed)).cloned());
        all.sort_by_cached_key(|_| random_u64());
        all
    }

    async fn ask(&self, address: &Address) -> Result<(Ranges, BTreeSet<Address>), Failure> {
        let answer = timeout(ASK_TIMEOUT, async {
            let connection = self.node(address).connection().await?;
            connection.run(redis::cmd("CLUSTER").arg("SLOTS")).await
        });
        let refused = |message: String, retry| {
            Failure::new(BackendErrorKind::Cluster, retry, Remedy::Refresh, message)
        };
        let reply = answer.await.unwrap_or_else(|_| {
            Err(refused(format!("{address} did not say who serves what"), Retry::Safe))
        });
        let reply = reply.map_err(|failure| {
            if failure.error.message.contains("cluster support disabled") {
                let advice = "is not part of a cluster: use valkey:// or valkeys://";
                return refused(format!("{address} {advice}"), Retry::Never);
            }
            failure
        })?;
        let (ranges, known) = parse_slots(&reply, address).ok_or_else(|| {
            let message = format!("{address} answered CLUSTER SLOTS with something else");
            Failure::new(BackendErrorKind::Protocol, Retry::Never, Remedy::GiveUp, message)
        })?;
        if ranges.is_empty() {
            return Err(refused(format!("{address} knows of no served slot"), Retry::Safe));
        }
        Ok((ranges, known))
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Node::new(address.clone(), Arc::clone(&self.connector)));
        Arc::clone(nodes.entry(address.clone()).or_insert_with(new))
    }

    fn install(&self, mut ranges: Ranges, mut known: BTreeSet<Address>) {
        ranges.sort();
        known.extend(ranges.iter().map(|(_, _, address)| address.clone()));
        let serving =
            |(start, end, address): (u16, u16, Address)| (start, end, self.node(&address));
        let map = SlotMap { ranges: ranges.into_iter().map(serving).collect(), known };
        let changed = !map.same_as(&self.map());
        self.forget_all_but(&map);
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        if changed {
            self.changes.send_modify(|generation| *generation += 1);
        }
    }

    /// Nodes that left are forgotten, and with them their connections.
    fn forget_all_but(&self, map: &SlotMap) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|address, _| map.ranges.iter().any(|(_, _, node)| node.address == *address));
    }

    fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }
}

type Ranges = Vec<(u16, u16, Address)>;

/// Reads the answer to CLUSTER SLOTS: ranges with their master, and every node that was named.
fn parse_slots(reply: &Value, asked: &Address) -> Option<(Ranges, BTreeSet<Address>)> {
    let Value::Array(entries) = reply else { return None };
    let mut ranges = Ranges::new();
    let mut known = BTreeSet::new();
    for entry in entries {
        let Value::Array(parts) = entry else { return None };
        let [Value::Int(start), Value::Int(end), nodes @ ..] = parts.as_slice() else {
            return None;
        };
        let nodes: Vec<Address> = nodes.iter().filter_map(|node| parse_node(node, asked)).collect();
        let master = nodes.first()?.clone();
        ranges.push((u16::try_from(*start).ok()?, u16::try_from(*end).ok()?, master));
        known.extend(nodes);
    }
    Some((ranges, known))
}

/// A node without a host is on the host that was asked.
fn parse_node(node: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::Bytes(host) if !matches!(host.as_slice(), b"" | b"?") => {
            String::from_utf8(host.clone()).ok()?
        }
        _ => asked.host.clone(),
    };
    Some(Address { host, port: u16::try_from(*port).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ValkeyConfig;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    fn cluster_of(ranges: &[(u16, u16, u16)]) -> Topology {
        let config = ValkeyConfig::parse("valkey-cluster://seed").expect("the URL is right");
        let connector = Connector::new(config).expect("no file is needed");
        let topology = Topology::new(Arc::new(connector));
        let ranges = ranges.iter().map(|(start, end, port)| (*start, *end, address("h", *port)));
        topology.install(ranges.collect(), BTreeSet::new());
        topology
    }

    fn ports(topology: &Topology) -> Vec<(u16, u16, u16)> {
        let map = topology.map();
        map.ranges.iter().map(|(start, end, node)| (*start, *end, node.address.port)).collect()
    }

    #[test]
    fn a_slot_without_a_master_is_an_error_that_a_refresh_may_cure() {
        let topology = cluster_of(&[(0, 99, 1)]);
        let far = (0..).map(Partition::flow).find(|it| it.slot() > 99).expect("most are");
        let failure = topology.master_of(far).err().expect("nobody serves it");
        assert_eq!((failure.error.retry, failure.remedy), (Retry::Safe, Remedy::Refresh));
    }

    #[test]
    fn a_move_takes_one_slot_out_of_its_range() {
        let partition = Partition::flow(0);
        let slot = partition.slot();
        let topology = cluster_of(&[(0, 16_383, 1)]);
        let mut changes = topology.changes();
        topology.note_move(partition, &address("h", 2));
        assert_eq!(ports(&topology), [(0, slot - 1, 1), (slot, slot, 2), (slot + 1, 16_383, 1)]);
        assert!(changes.has_changed().expect("the topology is alive"));
        changes.mark_unchanged();
        topology.note_move(partition, &address("h", 2));
        assert!(!changes.has_changed().expect("the topology is alive"), "nothing is new");
        assert_eq!(topology.masters().len(), 2);
    }

    #[test]
    fn the_answer_names_masters_replicas_and_nodes_without_a_host() {
        let bytes = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let node =
            |host: &str, port| Value::Array(vec![bytes(host), Value::Int(port), bytes("id")]);
        let range = |start, end, nodes: &[Value]| {
            Value::Array([&[Value::Int(start), Value::Int(end)], nodes].concat())
        };
        let reply = Value::Array(vec![
            range(0, 5, &[node("a", 1), node("b", 2)]),
            range(6, 16_383, &[node("", 3)]),
        ]);
        let (ranges, known) = parse_slots(&reply, &address("asked", 9)).expect("it is an answer");
        assert_eq!(ranges, [(0, 5, address("a", 1)), (6, 16_383, address("asked", 3))]);
        assert_eq!(known.len(), 3);
        assert_eq!(parse_slots(&Value::Int(1), &address("asked", 9)), None);
    }
}
