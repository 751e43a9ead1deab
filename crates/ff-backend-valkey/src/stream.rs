//! The way to a server: TCP, with TLS on top if asked for.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::config::{Address, ValkeyConfig};

/// What a connection reads from and writes to.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Opens streams, and remembers whom to trust so that files are read once.
pub(crate) struct Dialer {
    #[cfg(feature = "tls")]
    tls: Option<tokio_rustls::TlsConnector>,
}

#[cfg(not(feature = "tls"))]
impl Dialer {
    pub(crate) fn new(config: &ValkeyConfig) -> io::Result<Self> {
        match config.tls {
            Some(_) => Err(io::Error::other("this program was built without the feature `tls`")),
            None => Ok(Self {}),
        }
    }

    pub(crate) async fn open(&self, address: &Address) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(open_tcp(address).await?))
    }
}

#[cfg(feature = "tls")]
impl Dialer {
    pub(crate) fn new(config: &ValkeyConfig) -> io::Result<Self> {
        Ok(Self { tls: config.tls.as_ref().map(tls::connector).transpose()? })
    }

    pub(crate) async fn open(&self, address: &Address) -> io::Result<Box<dyn Stream>> {
        let stream = open_tcp(address).await?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(connector) => {
                let name = tls::server_name(&address.host)?;
                Ok(Box::new(connector.connect(name, stream).await?))
            }
        }
    }
}

async fn open_tcp(address: &Address) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    // Calls are small and wait for their answer: a delayed segment would delay everything.
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(feature = "tls")]
mod tls {
    use std::fs;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
    use tokio_rustls::TlsConnector;

    use crate::config::TlsOptions;

    pub(super) fn connector(options: &TlsOptions) -> io::Result<TlsConnector> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = if options.insecure {
            let verifier = Arc::new(TrustEveryone(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        } else {
            builder.with_root_certificates(roots(options)?)
        };
        let config = match (&options.certificate_file, &options.key_file) {
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(io::Error::other)?,
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(io::Error::other("a client certificate and its key go together")),
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    pub(super) fn server_name(host: &str) -> io::Result<ServerName<'static>> {
        ServerName::try_from(host.to_owned()).map_err(io::Error::other)
    }

    fn roots(options: &TlsOptions) -> io::Result<RootCertStore> {
        let trusted = match &options.ca_file {
            Some(file) => certificates(file)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(trusted);
        if added == 0 {
            return Err(io::Error::other("there is no certificate authority to trust"));
        }
        Ok(roots)
    }

    fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
        let pem = fs::read(file).map_err(|error| in_file(file, &error))?;
        CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| in_file(file, &error))
    }

    fn private_key(file: &Path) -> io::Result<PrivateKeyDer<'static>> {
        let pem = fs::read(file).map_err(|error| in_file(file, &error))?;
        PrivateKeyDer::from_pem_slice(&pem).map_err(|error| in_file(file, &error))
    }

    fn in_file(file: &Path, error: &dyn std::fmt::Display) -> io::Error {
        io::Error::other(format!("{}: {error}", file.display()))
    }

    /// Accepts every certificate, but still checks that the peer holds its key.
    #[derive(Debug)]
    struct TrustEveryone(Arc<CryptoProvider>);

    impl ServerCertVerifier for TrustEveryone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.0.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signed, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.0.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signed, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}
