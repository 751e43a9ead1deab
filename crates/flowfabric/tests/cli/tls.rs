//! TLS for a first try, and what is said where it does not fit.

use std::process::Command;

use crate::site::{Scratch, Site, flowfabric};

/// A server in a directory of its own, where its certificate is made.
fn start(scratch: &Scratch, options: &[&str]) -> (Site, String) {
    let mut command = flowfabric();
    command.current_dir(scratch.path());
    let options = [&["--store", "memory:"], options].concat();
    let site = Site::start_as(command, "127.0.0.1:0", &options);
    let certificate = scratch.path().join("flowfabric-cert.pem").display().to_string();
    (site, certificate)
}

#[test]
fn a_server_makes_its_own_certificate_which_its_clients_are_told_to_trust() {
    let scratch = Scratch::new("self-signed");
    let (site, certificate) = start(&scratch, &["--tls-self-signed"]);
    assert!(site.url.starts_with("https://"), "{}", site.url);
    let untrusted = site.run(&["ls"]).complaint(6);
    for part in ["its certificate is not trusted", "--ca or FLOWFABRIC_CA"] {
        assert!(untrusted.contains(part), "{untrusted}");
    }
    let id = site.submit(&["mail", "--ca", &certificate]);
    let mut by_environment = site.command(&["ls", "-q"]);
    by_environment.env("FLOWFABRIC_CA", &certificate);
    assert_eq!(crate::site::run(&mut by_environment).text(), id);
    let by_name = site.url.replace("127.0.0.1", "localhost");
    site.run(&["ls", "--url", &by_name, "--ca", &certificate]).text();

    let kept = std::fs::read(&certificate).expect("a certificate");
    drop(site);
    let (site, _) = start(&scratch, &["--tls-self-signed"]);
    assert_eq!(std::fs::read(&certificate).expect("a certificate"), kept);
    site.run(&["ls", "--ca", &certificate]).text();
}

#[test]
fn the_usual_self_signed_certificate_can_be_trusted() {
    let scratch = Scratch::new("openssl");
    let line = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out \
        flowfabric-cert.pem -days 1 -subj /CN=here -addext subjectAltName=IP:127.0.0.1";
    let mut shell = Command::new("sh");
    let made = shell.args(["-c", line]).current_dir(scratch.path()).output().expect("openssl");
    assert!(made.status.success(), "{made:?}");
    let files = ["--tls-cert", "flowfabric-cert.pem", "--tls-key", "key.pem"];
    let (site, certificate) = start(&scratch, &files);
    let untrusted = site.run(&["ls"]).complaint(6);
    assert!(untrusted.contains("it is signed by itself; name it to trust it"), "{untrusted}");
    site.run(&["ls", "--ca", &certificate]).text();
    let other_name = site.url.replace("127.0.0.1", "localhost");
    let wrong = site.run(&["ls", "--url", &other_name, "--ca", &certificate]).complaint(6);
    assert!(wrong.contains("certificate is not trusted"), "{wrong}");
}

#[test]
fn an_address_with_the_wrong_scheme_is_said_as_such() {
    let site = Site::start();
    let secure = site.url.replace("http://", "https://");
    let said = site.run(&["ls", "--url", &secure]).complaint(6);
    assert!(said.contains("not TLS; does the address begin with http://?"), "{said}");
    let scratch = Scratch::new("wrong-scheme");
    let (site, _) = start(&scratch, &["--tls-self-signed"]);
    let plain = site.url.replace("https://", "http://");
    let said = site.run(&["ls", "--url", &plain]).complaint(6);
    assert!(said.contains("not HTTP; does the address begin with https://?"), "{said}");
}

#[test]
fn whoever_knows_several_servers_goes_on_with_the_next() {
    let site = Site::start();
    let both = format!("http://127.0.0.1:1,{}", site.url);
    let id = site.submit(&["mail", "--url", &both]);
    assert_eq!(site.run(&["ls", "-q", "--url", &both]).text(), id);
    let said = site.run(&["ls", "--url", "http://127.0.0.1:1,http://127.0.0.1:2"]).complaint(6);
    assert!(said.contains("no server answers at http://127.0.0.1:1,http://127.0.0.1:2"), "{said}");
}
