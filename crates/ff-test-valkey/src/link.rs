//! A way to a server that can be held up, cut and led elsewhere.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::ports::Port;

/// Carries TCP connections from a port of its own to a server's. Dropping it ends all of them.
pub struct Link {
    port: Port,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    target: u16,
    held: bool,
    closed: bool,
    /// Counts the cuts: a connection from before the last one carries nothing any more.
    cuts: u32,
    ends: Vec<TcpStream>,
}

impl Link {
    /// A way to the server on this port.
    pub fn to(target: u16) -> io::Result<Self> {
        let port = Port::take()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number))?;
        let shared = Arc::new(Shared::default());
        shared.state().target = target;
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.state().closed {
                    return;
                }
                // A server that is down is what a client is to find here.
                let _ = accepting.carry(client);
            }
        });
        Ok(Self { port, shared })
    }

    /// The port to connect to instead of the server's.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Passes nothing on from now on; what is sent stays here until it is released or cut.
    pub fn hold(&self) {
        self.shared.change(|state| state.held = true);
    }

    /// Passes on what was held, and what comes.
    pub fn release(&self) {
        self.shared.change(|state| state.held = false);
    }

    /// Ends all connections, what was held is gone with them, and leads new ones to another server.
    pub fn lead_to(&self, target: u16) {
        self.shared.change(|state| {
            state.cut();
            (state.target, state.held) = (target, false);
        });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.cut();
            state.closed = true;
        });
        // The one who accepts looks up when somebody comes; if nobody can, it is gone already.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number));
    }
}

impl State {
    fn cut(&mut self) {
        self.cuts += 1;
        for end in self.ends.drain(..) {
            // One that is closed already is as it should be.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn carry(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let mut state = self.state();
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, state.target))?;
        for (from, to) in [(&client, &server), (&server, &client)] {
            from.set_nodelay(true)?;
            state.ends.push(from.try_clone()?);
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            let (shared, cuts) = (Arc::clone(self), state.cuts);
            thread::spawn(move || shared.pass_on(from, to, cuts));
        }
        Ok(())
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream, cuts: u32) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if !self.may_pass(cuts) || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // The other end may be closed already.
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Waits while everything is held. False if the connection was cut meanwhile.
    fn may_pass(&self, cuts: u32) -> bool {
        let waiting = |state: &mut State| state.held && state.cuts == cuts;
        let state = self.changed.wait_while(self.state(), waiting);
        state.unwrap_or_else(PoisonError::into_inner).cuts == cuts
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.state());
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
