//! Ports that no other test, in this process or another, will take.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Below the ephemeral range: an outgoing connection must not take the port of a server that is
/// down for a restart, and must not connect to itself.
const PORTS: Range<u16> = 10_000..32_000;

/// A port that stays ours, also while its server is down, because its lock file is held.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    /// Takes some free port.
    pub(crate) fn take() -> io::Result<Self> {
        let start = RandomState::new().build_hasher().finish();
        let count = u64::from(PORTS.end - PORTS.start);
        (0..count)
            .map(|step| PORTS.start + u16::try_from((start % count + step) % count).unwrap_or(0))
            .find_map(|number| Self::try_take(number).transpose())
            .unwrap_or_else(|| Err(io::Error::other("no free port between 10000 and 32000")))
    }

    fn try_take(number: u16) -> io::Result<Option<Self>> {
        let folder = std::env::temp_dir().join("ff-test-valkey-ports");
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join(number.to_string()))?;
        let free =
            lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
        Ok(free.then_some(Self { number, _lock: lock }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_not_given_away_again() {
        let port = Port::take().expect("a port is free");
        assert!(Port::try_take(port.number).expect("the lock file can be opened").is_none());
    }
}
