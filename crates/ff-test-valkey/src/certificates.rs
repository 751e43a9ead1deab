//! A certificate authority and a server certificate, made on the fly by the `openssl` program
//! (Debian's `ca-certificates` brings it along).

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::find;

/// The files a server needs for TLS.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Makes a new authority and a certificate for the loopback address in `folder`.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let made = Self {
            ca: folder.join("ca.crt"),
            certificate: folder.join("server.crt"),
            key: folder.join("server.key"),
        };
        let new_key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        openssl(
            folder,
            &format!("{new_key} -subj /CN=ff-test-authority -keyout ca.key -out ca.crt"),
        )?;
        openssl(
            folder,
            &format!(
                "{new_key} -subj /CN=localhost -keyout server.key -out server.crt \
                 -CA ca.crt -CAkey ca.key -addext basicConstraints=CA:FALSE \
                 -addext subjectAltName=IP:127.0.0.1,DNS:localhost"
            ),
        )?;
        Ok(made)
    }
}

fn openssl(folder: &Path, words: &str) -> io::Result<()> {
    let output = Command::new(find("openssl")?)
        .args(words.split_ascii_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("openssl {words} failed: {text}")))
}
