//! A TCP proxy that does what goes wrong on the way: it cuts a connection at the worst moment,
//! after a request was passed on and its answer came back; or answers itself, with a page of its
//! own.

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
    /// Where the next requests with this text get this page, so many of them.
    pages: Option<(Vec<u8>, String, u32)>,
    /// Where connections go from now on, if not to the first target.
    target: Option<String>,
    /// Bytes of answers that were passed on.
    answered: usize,
    /// Keeps new connections waiting.
    held: bool,
    /// Refuses everything, and has ended what there was.
    down: bool,
}

/// What ended the carrying of a connection.
enum Ended {
    /// One of the two ends.
    Closed,
    /// A request that is not passed on but answered with a page.
    Page(String),
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

    /// The next so many requests with this text are not passed on but answered with this page.
    pub(crate) fn answer_with(&self, text: &str, count: u32, page: String) {
        let pages = Some((text.as_bytes().to_vec(), page, count));
        self.plan.lock().expect("no panic").pages = pages;
    }

    /// How many of them are still to come.
    pub(crate) fn pages_left(&self) -> u32 {
        self.plan.lock().expect("no panic").pages.as_ref().map_or(0, |(_, _, count)| *count)
    }

    /// New connections go elsewhere.
    pub(crate) fn retarget(&self, target: String) {
        self.plan.lock().expect("no panic").target = Some(target);
    }

    /// Keeps new connections waiting, or lets them go.
    pub(crate) fn set_held(&self, held: bool) {
        self.plan.lock().expect("no panic").held = held;
    }

    /// How many bytes of answers were passed on so far.
    pub(crate) fn answered_bytes(&self) -> usize {
        self.plan.lock().expect("no panic").answered
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
        let target = {
            let plan = plan.lock().expect("no panic");
            if plan.down {
                continue;
            }
            plan.target.clone().unwrap_or_else(|| target.clone())
        };
        let plan = Arc::clone(&plan);
        tokio::spawn(async move {
            while plan.lock().expect("no panic").held {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
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
    let ended = tokio::select! {
        sent = pass_requests(&mut from_client, &mut to_server, plan, &cutting) => sent?,
        answered = pass_answers(&mut from_server, &mut to_client, plan, &cutting) => answered?,
    };
    if let Ended::Page(page) = ended {
        to_client.write_all(page.as_bytes()).await?;
        to_client.shutdown().await?;
        // What is left of the request: closing over it could take the page away again.
        tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await?;
    }
    Ok(())
}

/// A page of somebody who is no FlowFabric server.
pub(crate) fn page(status: u16) -> String {
    let body = "<html>this is not what you are looking for</html>";
    answer(status, "text/html", body)
}

/// An answer that ends its connection.
pub(crate) fn answer(status: u16, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Odd\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

impl Plan {
    /// The page that a request is to be answered with.
    fn page_for(&mut self, request: &[u8]) -> Option<String> {
        let (text, page, count) = self.pages.as_mut()?;
        if *count == 0 || !contains(request, text) {
            return None;
        }
        *count -= 1;
        Some(page.clone())
    }
}

fn contains(request: &[u8], text: &[u8]) -> bool {
    !text.is_empty() && request.windows(text.len()).any(|part| part == text)
}

async fn pass_requests(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    plan: &Mutex<Plan>,
    cutting: &AtomicBool,
) -> io::Result<Ended> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 || plan.lock().expect("no panic").down {
            return Ok(Ended::Closed);
        }
        let page = plan.lock().expect("no panic").page_for(&buffer[..count]);
        if let Some(page) = page {
            return Ok(Ended::Page(page));
        }
        to.write_all(&buffer[..count]).await?;
        let mut plan = plan.lock().expect("no panic");
        let wanted = plan.cut_after.clone().unwrap_or_default();
        if contains(&buffer[..count], &wanted) {
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
) -> io::Result<Ended> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 || plan.lock().expect("no panic").down {
            return Ok(Ended::Closed);
        }
        if cutting.load(Ordering::Relaxed) {
            plan.lock().expect("no panic").cuts += 1;
            return Ok(Ended::Closed);
        }
        plan.lock().expect("no panic").answered += count;
        to.write_all(&buffer[..count]).await?;
    }
}
