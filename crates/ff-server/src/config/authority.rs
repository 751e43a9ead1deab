//! A host as requests, origins and settings name it: a name or an address, and perhaps a port.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host and perhaps a port, in one form however they were written: in lower case, without the
/// dot that may end a name, an address as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    pub(crate) host: HostName,
    pub(crate) port: Option<u16>,
}

/// What names a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostName {
    Name(String),
    Address(IpAddr),
}

impl Authority {
    /// Its name or address, without the port.
    pub fn host(&self) -> String {
        match &self.host {
            HostName::Name(name) => name.clone(),
            HostName::Address(address) => address.to_string(),
        }
    }

    /// True if the other one is the same host at the same port. One without a port stands for all.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.host == other.host && (self.port.is_none() || self.port == other.port)
    }
}

impl FromStr for Authority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text).ok_or_else(|| {
            format!("{text:?} is no host: write it like flow.example.com, flow:7480 or [::1]:7480")
        })
    }
}

fn read(text: &str) -> Option<Authority> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inside) => {
            let (address, rest) = inside.split_once(']')?;
            (address_of(address.parse::<Ipv6Addr>().ok()?.into()), rest)
        }
        None => {
            let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (name_or_address(host)?, rest)
        }
    };
    Some(Authority { host, port: read_port(rest)? })
}

/// What follows the host: nothing, or a colon and a number, which may be missing.
fn read_port(text: &str) -> Option<Option<u16>> {
    let Some(digits) = text.strip_prefix(':') else { return text.is_empty().then_some(None) };
    if digits.is_empty() {
        return Some(None);
    }
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten().map(Some)
}

fn name_or_address(text: &str) -> Option<HostName> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address_of(address));
    }
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = !text.is_empty() && text.bytes().all(of_a_name);
    is_name.then(|| HostName::Name(text.to_ascii_lowercase()))
}

/// An IPv4 address inside an IPv6 one is that address.
fn address_of(address: IpAddr) -> HostName {
    HostName::Address(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<(String, Option<u16>)> {
        read(text).map(|authority| {
            let host = match authority.host {
                HostName::Name(name) => name,
                HostName::Address(address) => format!("<{address}>"),
            };
            (host, authority.port)
        })
    }

    #[test]
    fn one_host_has_one_form_however_it_is_written() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("LocalHost:7480", "localhost", Some(7480)),
            ("localhost.", "localhost", None),
            ("Flow.Example.COM.:443", "flow.example.com", Some(443)),
            ("flow_1:", "flow_1", None),
            ("127.0.0.1:7480", "<127.0.0.1>", Some(7480)),
            ("127.0.0.1.", "<127.0.0.1>", None),
            ("[::1]", "<::1>", None),
            ("[::1]:7480", "<::1>", Some(7480)),
            ("[0:0::0001]:", "<::1>", None),
            ("[::ffff:127.0.0.1]:1", "<127.0.0.1>", Some(1)),
            ("0177.0.0.1", "0177.0.0.1", None),
            ("127.1", "127.1", None),
            ("2130706433", "2130706433", None),
        ] {
            assert_eq!(shown(text), Some((host.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_not_read_as_one() {
        for text in [
            "",
            ".",
            ":80",
            "a b",
            "a,b",
            "a@b",
            "user@localhost",
            "a/b",
            "localhost:+80",
            "localhost:80:80",
            "localhost:99999",
            "localhost:x",
            "[::1",
            "[::1]80",
            "[127.0.0.1]",
            "[localhost]",
            "[fe80::1%25eth0]",
            "::1",
            "local%68ost",
            "lócalhost",
            "localhost\0",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn a_host_without_a_port_stands_for_every_port() {
        let of = |text: &str| text.parse::<Authority>().expect("a host");
        assert!(of("flow").covers(&of("flow:1")) && of("flow:1").covers(&of("FLOW.:1")));
        assert!(!of("flow:1").covers(&of("flow:2")) && !of("flow:1").covers(&of("flow")));
        assert!(!of("flow").covers(&of("a.flow")));
    }
}
