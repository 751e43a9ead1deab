//! How many connections there may be, and whose is cut when there are too many.
//!
//! A connection is busy while the server works on its request, and silent while the server waits
//! for its client: for a request, for the rest of one, or for an answer to be read. Those that work
//! are never cut; how many there can be is limited elsewhere, below the number of places. So
//! there is always a silent one whose place a new client can have.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A client that sends nothing of a request it has begun for so long has stalled.
const STALLED: Duration = Duration::from_secs(1);

/// Of the silent connections, this part is cut at a time, so that looking for them is rare.
const CUT_PART: usize = 16;

/// The connections of a server.
pub(crate) struct ConnectionLimiter {
    max: usize,
    /// One address never has all of them.
    of_one_peer: usize,
    began: Instant,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Arc<Connection>>,
    peers: HashMap<IpAddr, usize>,
    next: u64,
}

impl ConnectionLimiter {
    pub(crate) fn new(max: u32) -> Arc<Self> {
        let max = max as usize;
        let of_one_peer = (max - max / 4).max(1);
        Arc::new(Self { max, of_one_peer, began: Instant::now(), open: Mutex::default() })
    }

    /// A place for a connection of this client. If none is free, silent connections lose theirs;
    /// none if there is not one of them.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let peer = peer(address);
        let mut open = self.lock();
        if open.of(peer) >= self.of_one_peer && !open.cut(|other| other.peer == peer) {
            return None;
        }
        if open.connections.len() >= self.max && !open.cut(|_| true) {
            return None;
        }
        let connection = Arc::new(Connection::new(peer, self.began));
        let number = open.add(Arc::clone(&connection));
        Some(ConnectionPermit { limiter: Arc::clone(self), number, connection })
    }

    /// Cuts some of those whose clients began a request and do not go on with it. False if there
    /// was none.
    pub(crate) fn cut_stalled(&self) -> bool {
        self.lock().cut(Connection::is_stalled)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn of(&self, peer: IpAddr) -> usize {
        self.peers.get(&peer).copied().unwrap_or(0)
    }

    fn add(&mut self, connection: Arc<Connection>) -> u64 {
        self.next += 1;
        *self.peers.entry(connection.peer).or_default() += 1;
        self.connections.insert(self.next, connection);
        self.next
    }

    fn remove(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else { return };
        if let Some(count) = self.peers.get_mut(&connection.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&connection.peer);
            }
        }
    }

    /// Cuts some of those that are silent: first those of clients with the most connections, of
    /// these the ones that were silent for longest. False if there was none.
    fn cut(&mut self, among: impl Fn(&Connection) -> bool) -> bool {
        let suitable = self.connections.iter().filter(|(_, connection)| among(connection));
        let mut silent: Vec<_> = suitable
            .filter_map(|(number, connection)| {
                let rank = (Reverse(self.of(connection.peer)), connection.silent_since()?);
                Some((rank, *number))
            })
            .collect();
        silent.sort_unstable();
        silent.truncate(silent.len().div_ceil(CUT_PART));
        let cut = |number: &u64| self.connections.get(number).is_some_and(|one| one.cut());
        let gone: Vec<_> = silent.into_iter().map(|(_, number)| number).filter(cut).collect();
        gone.iter().for_each(|number| self.remove(*number));
        !gone.is_empty()
    }
}

/// Who counts as one client: an address, or a network of them where everybody has a whole one.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(network).into()
        }
        address => address,
    }
}

/// The place of one connection, until it is dropped.
pub(crate) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    connection: Arc<Connection>,
}

impl ConnectionPermit {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.lock().remove(self.number);
    }
}

/// What a connection does at the moment.
pub(crate) struct Connection {
    peer: IpAddr,
    began: Instant,
    /// [`BUSY`], [`ANSWERED`], [`CUT`], or the microsecond since which it is silent.
    state: AtomicU64,
    /// A request was begun and is not answered.
    asked: AtomicBool,
    over: Notify,
}

/// The server works on a request.
const BUSY: u64 = 0;
/// The answer is there, but not sent yet.
const ANSWERED: u64 = 1;
/// The place was given to somebody else.
const CUT: u64 = u64::MAX;

impl Connection {
    fn new(peer: IpAddr, began: Instant) -> Self {
        let (state, asked) = (AtomicU64::new(BUSY), AtomicBool::new(false));
        let connection = Self { peer, began, state, asked, over: Notify::new() };
        connection.wait();
        connection
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros())
            .unwrap_or(CUT - 1)
            .clamp(ANSWERED + 1, CUT - 1)
    }

    /// The server works for it from now on. False if it was cut: then nothing may be begun.
    pub(crate) fn work(&self) -> bool {
        self.asked.store(true, Ordering::SeqCst);
        self.change(|_| Some(BUSY))
    }

    /// The server waits for the rest of the request, if it does not do so already.
    pub(crate) fn wait(&self) {
        self.change(|state| (state == BUSY).then(|| self.now()));
    }

    /// The request is answered; what is left is to send the answer.
    pub(crate) fn answer(&self) {
        self.asked.store(false, Ordering::SeqCst);
        self.change(|_| Some(ANSWERED));
    }

    /// What there was to send is sent, or the client does not take it: it is waited for.
    pub(crate) fn was_sent(&self) {
        self.change(|state| (state == ANSWERED).then(|| self.now()));
    }

    /// The client took something of an answer while it was waited for.
    pub(crate) fn was_active(&self) {
        self.change(|state| (state > ANSWERED).then(|| self.now()));
    }

    /// Returns when it was cut.
    pub(crate) async fn over(&self) {
        self.over.notified().await;
    }

    fn silent_since(&self) -> Option<u64> {
        let state = self.state.load(Ordering::SeqCst);
        (state > ANSWERED && state != CUT).then_some(state)
    }

    fn is_stalled(&self) -> bool {
        let long_ago = self.now().saturating_sub(STALLED.as_micros() as u64);
        let silent = self.silent_since().is_some_and(|since| since <= long_ago);
        silent && self.asked.load(Ordering::SeqCst)
    }

    /// Takes its place away, unless a request came in this moment.
    fn cut(&self) -> bool {
        let Some(since) = self.silent_since() else { return false };
        let cut = self.state.compare_exchange(since, CUT, Ordering::SeqCst, Ordering::SeqCst);
        if cut.is_ok() {
            self.over.notify_one();
        }
        cut.is_ok()
    }

    /// Changes the state as told; false if it was cut, which is final.
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> bool {
        let next = |state| if state == CUT { None } else { to(state) };
        match self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) {
            Ok(_) => true,
            Err(state) => state != CUT,
        }
    }
}

#[cfg(test)]
impl Connection {
    /// One that belongs to no server.
    pub(crate) fn alone() -> Arc<Self> {
        let nobody = IpAddr::from([127, 0, 0, 1]);
        Arc::new(Self::new(nobody, Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    async fn later() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }

    fn is_cut(permit: &ConnectionPermit) -> bool {
        !permit.connection().work()
    }

    /// So many places of one client, each silent for a little shorter than the one before.
    async fn enter(
        limiter: &Arc<ConnectionLimiter>,
        count: usize,
        last: u8,
    ) -> Vec<ConnectionPermit> {
        let mut entered = Vec::new();
        for _ in 0..count {
            later().await;
            entered.push(limiter.enter(address(last)).expect("a place"));
        }
        entered
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_was_silent_for_longest_makes_room() {
        let limiter = ConnectionLimiter::new(8);
        let mut first = enter(&limiter, 4, 1).await;
        let mut second = enter(&limiter, 4, 2).await;
        // Whoever works is left alone, and whoever was just heard is not the most silent one.
        assert!(first[0].connection().work());
        later().await;
        first[1].connection().was_active();
        later().await;
        let newcomer = limiter.enter(address(3)).expect("room is made");
        assert!(is_cut(&first.remove(2)), "the most silent one");
        assert!(first.iter().chain(&second).chain([&newcomer]).all(|permit| !is_cut(permit)));
        drop(second.pop());
        assert!(limiter.enter(address(3)).is_some(), "who leaves makes room, too");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_sent_yet_is_not_cut_off() {
        let limiter = ConnectionLimiter::new(1);
        let permit = limiter.enter(address(1)).expect("a place");
        let connection = permit.connection();
        assert!(connection.work());
        connection.was_sent();
        assert!(limiter.enter(address(2)).is_none(), "nothing was sent: it is at work");
        connection.answer();
        connection.was_active();
        assert!(limiter.enter(address(2)).is_none(), "the answer is on its way");
        connection.was_sent();
        assert!(limiter.enter(address(2)).is_some(), "its client is waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_never_has_all_places() {
        let limiter = ConnectionLimiter::new(16);
        let greedy = enter(&limiter, 60, 1).await;
        assert_eq!(limiter.lock().of(address(1)), 12);
        assert_eq!(greedy.iter().filter(|permit| !is_cut(permit)).count(), 12, "the latest ones");
        assert!(limiter.enter(address(1)).is_none(), "all its connections work now");
        let others = enter(&limiter, 4, 2).await;
        assert!(limiter.enter(address(3)).is_some_and(|_| is_cut(&others[0])));
        assert!(others[1..].iter().all(|permit| !is_cut(permit)));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_most_places_loses_them_first() {
        let limiter = ConnectionLimiter::new(8);
        let few = enter(&limiter, 2, 1).await;
        let many = enter(&limiter, 6, 2).await;
        let _newcomer = limiter.enter(address(3)).expect("room is made");
        assert!(is_cut(&many[0]) && few.iter().all(|permit| !is_cut(permit)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_cut_begins_nothing_and_is_told() {
        let limiter = ConnectionLimiter::new(1);
        let permit = limiter.enter(address(1)).expect("a place");
        let _next = limiter.enter(address(1)).expect("in its stead");
        permit.connection().over().await;
        permit.connection().wait();
        permit.connection().was_active();
        assert!(is_cut(&permit), "that is final");
        drop(permit);
        assert_eq!(limiter.lock().connections.len(), 1, "the next one keeps its place");
    }

    #[tokio::test(start_paused = true)]
    async fn only_requests_that_do_not_go_on_have_stalled() {
        let limiter = ConnectionLimiter::new(8);
        let idle = enter(&limiter, 2, 1).await;
        let working = limiter.enter(address(1)).expect("a place");
        let sending = limiter.enter(address(1)).expect("a place");
        assert!(working.connection().work() && sending.connection().work());
        sending.connection().wait();
        assert!(!limiter.cut_stalled(), "not yet");
        tokio::time::advance(STALLED).await;
        assert!(limiter.cut_stalled() && is_cut(&sending));
        assert!(!limiter.cut_stalled());
        assert!(idle.iter().chain([&working]).all(|permit| !is_cut(permit)));
    }

    #[test]
    fn a_network_of_addresses_is_one_client() {
        let of = |text: &str| peer(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
