//! A certificate for a first try with TLS: made once, kept in files, good for this machine.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ff_server::ServerConfig;

use crate::failure::Failure;

pub(super) const CERTIFICATE: &str = "flowfabric-cert.pem";
pub(super) const KEY: &str = "flowfabric-key.pem";

/// Makes certificate and key unless they are there.
pub(super) fn prepare(config: &ServerConfig) -> Result<(), Failure> {
    match (Path::new(CERTIFICATE).exists(), Path::new(KEY).exists()) {
        (true, true) => return Ok(()),
        (false, false) => {}
        _ => return Err(format!("of {CERTIFICATE} and {KEY} one is missing").into()),
    }
    let made = rcgen::generate_simple_self_signed(names(config))?;
    write(KEY, &made.signing_key.serialize_pem(), 0o600)?;
    write(CERTIFICATE, &made.cert.pem(), 0o644)
}

/// By which names and addresses clients may reach it.
fn names(config: &ServerConfig) -> Vec<String> {
    let mut names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let address = config.listen.ip();
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let hosts = config.allowed_hosts.iter().map(|host| host.host());
    names.extend(hosts);
    names
}

fn write(file: &str, text: &str, mode: u32) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
    written.map_err(|error| format!("{file}: {error}").into())
}

/// What clients must be told.
pub(super) fn advice(url: &str) -> String {
    format!("flowfabric --url {url} --ca {CERTIFICATE} ls")
}

/// The first lines of a server, with the command to try as it works here.
pub(super) fn trusting(banner: &str) -> String {
    banner.replace(" curl ", &format!(" curl --cacert {CERTIFICATE} "))
}
