//! One request, on a thread of its own: looking up a name, connecting, shaking hands and waiting for bytes can each
//! take as long as the other side likes, and whoever asked may want to stop meanwhile.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode, header};

/// How often whoever waits is asked whether to go on.
const ROUND: Duration = Duration::from_millis(100);
/// Bytes of a block.
const BLOCK: usize = 1 << 16;
/// Blocks that may arrive before they are fetched.
const AHEAD: usize = 4;

/// What comes from the server, in this order.
pub(crate) enum Message {
    /// No answer came.
    Unreachable(ureq::Error),
    /// The answer begins.
    Head(StatusCode, HeaderMap),
    /// Some of its body.
    Block(Vec<u8>),
    /// The body is complete, as far as the server is concerned.
    End,
    /// The body broke off.
    Broken(io::Error),
}

/// A request under way. Dropping it ends the thread with its next block or timeout.
pub(crate) struct Transfer {
    messages: Receiver<Message>,
}

impl Transfer {
    /// Asks for a file from the given byte on.
    pub fn begin(agent: &Agent, url: &str, offset: u64) -> Transfer {
        let (sender, messages) = mpsc::sync_channel(AHEAD);
        let (agent, url) = (agent.clone(), url.to_owned());
        let failed = sender.clone();
        let thread = thread::Builder::new().name("transfer".into());
        if let Err(error) = thread.spawn(move || talk(&agent, &url, offset, &sender)) {
            // The channel is empty, so this does not block.
            let _ = failed.send(Message::Broken(error));
        }
        Transfer { messages }
    }

    /// The next message, or `None` if `waiting`, which is called every tenth of a second, asked to stop.
    pub fn next(&self, waiting: &mut dyn FnMut() -> ControlFlow<()>) -> Option<Message> {
        loop {
            match self.messages.recv_timeout(ROUND) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) if waiting().is_break() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                // The thread says how it ended unless it panicked.
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(Message::Broken(io::Error::other("the transfer ended early")));
                }
            }
        }
    }
}

/// Waits, unless `waiting` asks to stop before the time is over.
pub(crate) fn pause(time: Duration, waiting: &mut dyn FnMut() -> ControlFlow<()>) -> ControlFlow<()> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return ControlFlow::Continue(());
        }
        waiting()?;
        thread::sleep(left.min(ROUND));
    }
}

/// The thread's side. Sending fails when nobody listens any more: then there is nothing left to do.
fn talk(agent: &Agent, url: &str, offset: u64, to: &SyncSender<Message>) {
    let mut request = agent.get(url);
    if offset > 0 {
        request = request.header(header::RANGE, format!("bytes={offset}-"));
    }
    let response = match request.call() {
        Ok(response) => response,
        Err(error) => {
            let _ = to.send(Message::Unreachable(error));
            return;
        }
    };
    if to.send(Message::Head(response.status(), response.headers().clone())).is_err() {
        return;
    }
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; BLOCK];
    loop {
        let message = match body.read(&mut buffer) {
            Ok(0) => Message::End,
            Ok(count) => Message::Block(buffer[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Message::Broken(error),
        };
        let last = !matches!(message, Message::Block(_));
        if to.send(message).is_err() || last {
            return;
        }
    }
}
