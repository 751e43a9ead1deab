//! A TCP proxy that cuts a connection at the worst moment: after a request was passed on and its
//! answer came back, before that answer is delivered.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy in front of a server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    plan: Arc<Mutex<Plan>>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Plan {
    /// Cuts the connection whose next request contains this text.
    cut_after: Option<Vec<u8>>,
    cuts: u32,
    /// Refuses everything, and has ended what there was.
    down: bool,
}

impl Proxy {
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let plan = Arc::new(Mutex::new(Plan::default()));
        let accepting = tokio::spawn(accept(listener, target, Arc::clone(&plan)));
        Self { address, plan, accepting }
    }

    /// The next request with this text is passed on, and its answer is kept back for ever.
    pub(crate) fn cut_after(&self, text: &str) {
        self.plan.lock().expect("no panic").cut_after = Some(text.as_bytes().to_vec());
    }

    /// How often a connection was cut that way.
    pub(crate) fn cuts(&self) -> u32 {
        self.plan.lock().expect("no panic").cuts
    }

    /// Ends every connection at its next byte and accepts no more, or lets them pass again.
    pub(crate) fn set_down(&self, down: bool) {
        self.plan.lock().expect("no panic").down = down;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, target: String, plan: Arc<Mutex<Plan>>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        if plan.lock().expect("no panic").down {
            continue;
        }
        let (target, plan) = (target.clone(), Arc::clone(&plan));
        tokio::spawn(async move {
            // A connection that ends is what the proxy is for.
            let _ = carry(client, &target, &plan).await;
        });
    }
}

async fn carry(client: TcpStream, target: &str, plan: &Mutex<Plan>) -> io::Result<()> {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // Both directions run in one task: an answer is never read between a write and its note.
    let cutting = AtomicBool::new(false);
    tokio::select! {
        sent = pass_requests(&mut from_client, &mut to_server, plan, &cutting) => sent,
        answered = pass_answers(&mut from_server, &mut to_client, plan, &cutting) => answered,
    }
}

async fn pass_requests(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    plan: &Mutex<Plan>,
    cutting: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 || plan.lock().expect("no panic").down {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
        let mut plan = plan.lock().expect("no panic");
        let wanted = plan.cut_after.clone().unwrap_or_default();
        if !wanted.is_empty() && buffer[..count].windows(wanted.len()).any(|part| part == wanted) {
            plan.cut_after = None;
            cutting.store(true, Ordering::Relaxed);
        }
    }
}

/// Passes answers on until the one that must not arrive.
async fn pass_answers(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    plan: &Mutex<Plan>,
    cutting: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 || plan.lock().expect("no panic").down {
            return Ok(());
        }
        if cutting.load(Ordering::Relaxed) {
            plan.lock().expect("no panic").cuts += 1;
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
    }
}
