//! One file over HTTP: resuming, retrying, falling back, verifying.

use std::io;
use std::path::Path;
use std::time::Duration;

use ureq::http::{HeaderMap, StatusCode, header};
use ureq::{Agent, Proxy};

use crate::origin::{Origin, RemoteFile};
use crate::partial::Partial;
use crate::transfer::{Message, Transfer, pause};
use crate::{DataError, FetchEvent, OnEvent};

/// How patient to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Attempts in a row that get no further before a place is given up.
    pub attempts: u32,
    /// Pause before the second attempt, doubled before each further one.
    pub pause: Duration,
    /// Longest silence of the server before an attempt is given up.
    pub silence: Duration,
}

/// How an attempt ended that did not fail.
enum Ended {
    Complete,
    Stopped,
}

/// How far a failure reaches.
enum Setback {
    /// Asking the same place again may help.
    Attempt(DataError),
    /// Only another place may help.
    Place(DataError),
    /// Nothing on the network helps: our own disk failed.
    Everything(DataError),
}

/// What came of asking one place.
enum Asked {
    Verified,
    Stopped,
    Failed(DataError),
}

/// Downloads `remote` from the first place of `source` that delivers it.
///
/// The result is verified but still bears its partial name, to be renamed or
/// unpacked by the caller. It is `None` if `progress` asked to stop.
pub(crate) fn download(
    source: &Origin,
    remote: &RemoteFile,
    target: &Path,
    patience: Patience,
    progress: &mut OnEvent<'_>,
) -> Result<Option<Partial>, DataError> {
    let mut partial = Partial::open(target)?;
    let mut ask = |base: &str, progress: &mut OnEvent<'_>| {
        let url = &remote.address(base);
        let agent = agent(url, patience.silence);
        let mut place = Place { agent, url, remote, patience, progress };
        place.ask(&mut partial)
    };
    let mut asked = ask(&source.base, progress)?;
    for base in &source.fallbacks {
        let Asked::Failed(reason) = &asked else {
            break;
        };
        let name = remote.name();
        if progress(FetchEvent::Retrying { name, reason }).is_break() {
            return Ok(None);
        }
        asked = ask(base, progress)?;
    }
    match asked {
        Asked::Verified => Ok(Some(partial)),
        Asked::Stopped => Ok(None),
        Asked::Failed(error) => {
            if partial.len() == 0 {
                partial.delete()?;
            }
            Err(error)
        }
    }
}

/// A client for one address.
fn agent(url: &str, silence: Duration) -> Agent {
    let config = Agent::config_builder()
        // A total limit would punish slow connections; only silence is a fault.
        .timeout_resolve(Some(silence))
        .timeout_connect(Some(silence))
        .timeout_recv_response(Some(silence))
        .timeout_per_read(Some(silence))
        .http_status_as_error(false)
        // The checksums are those of the files as stored.
        .accept_encoding("identity")
        .user_agent(concat!("gains/", env!("CARGO_PKG_VERSION")));
    // A server on this very machine is not to be looked for behind a proxy,
    // whatever the environment says about proxies.
    let host = url.split_once("://").map_or("", |(_, rest)| rest);
    let local = ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host.starts_with(name));
    let proxy = if local { None } else { Proxy::try_from_env() };
    config.proxy(proxy).build().new_agent()
}

/// One address of the file.
struct Place<'a> {
    agent: Agent,
    url: &'a str,
    remote: &'a RemoteFile,
    patience: Patience,
    progress: &'a mut OnEvent<'a>,
}

impl Place<'_> {
    /// Transfers and verifies. Only failures of our own disk are errors; what
    /// is the fault of this place comes back as a value, as the next may do.
    fn ask(&mut self, partial: &mut Partial) -> Result<Asked, DataError> {
        match self.transfer(partial) {
            Ok(Ended::Complete) => self.verify(partial),
            Ok(Ended::Stopped) => Ok(Asked::Stopped),
            Err(Setback::Everything(error)) => Err(error),
            Err(Setback::Attempt(error) | Setback::Place(error)) => Ok(Asked::Failed(error)),
        }
    }

    /// Tries until the file is complete or attempts stop getting further.
    ///
    /// Only progress beyond the best so far counts as progress: against a server
    /// that drops connections *and* cannot resume, the loop must end.
    fn transfer(&mut self, partial: &mut Partial) -> Result<Ended, Setback> {
        let mut furthest = partial.len();
        let mut failures = 0;
        loop {
            let error = match self.attempt(partial) {
                Err(Setback::Attempt(error)) => error,
                otherwise => return otherwise,
            };
            if partial.len() > furthest {
                furthest = partial.len();
                failures = 0;
            }
            failures += 1;
            if failures >= self.patience.attempts {
                return Err(Setback::Place(error));
            }
            let (name, reason) = (self.remote.name(), &error);
            if (self.progress)(FetchEvent::Retrying { name, reason }).is_break() {
                return Ok(Ended::Stopped);
            }
            let doublings = 2_u32.saturating_pow(failures - 1);
            let time = self.patience.pause.saturating_mul(doublings);
            if pause(time, &mut || (self.progress)(FetchEvent::Waiting { name })).is_break() {
                return Ok(Ended::Stopped);
            }
        }
    }

    /// One request, and the body as far as it comes.
    fn attempt(&mut self, partial: &mut Partial) -> Result<Ended, Setback> {
        let total = self.remote.bytes;
        if partial.len() > total {
            partial.restart().map_err(Setback::Everything)?;
        }
        if partial.len() == total {
            return Ok(Ended::Complete);
        }
        let offset = partial.len();
        let transfer = Transfer::begin(&self.agent, self.url, offset);
        let (status, headers) = match self.next(&transfer) {
            None => return Ok(Ended::Stopped),
            Some(Message::Head(status, headers)) => (status, headers),
            Some(Message::Unreachable(error)) => return Err(self.unreachable(error)),
            Some(Message::Broken(error)) => return Err(self.interrupted(partial, error)),
            Some(Message::Block(_) | Message::End) => return Err(self.ended_early(partial)),
        };
        match status {
            StatusCode::PARTIAL_CONTENT if offset > 0 && range_start(&headers) == Some(offset) => {}
            StatusCode::OK => partial.restart().map_err(Setback::Everything)?,
            // The server has another idea of the file than the partial one:
            // begin anew, which cannot lead back here.
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if offset > 0 => {
                partial.restart().map_err(Setback::Everything)?;
                return self.attempt(partial);
            }
            _ => return Err(self.refused(status)),
        }
        if let Some(announced) = content_length(&headers)
            && partial.len().saturating_add(announced) != total
        {
            let found = partial.len().saturating_add(announced);
            return Err(self.wrong_size(partial, found));
        }
        self.receive(partial, &transfer)
    }

    /// What comes next; `None` if the caller asked to stop while it was waited for.
    fn next(&mut self, transfer: &Transfer) -> Option<Message> {
        let name = self.remote.name();
        transfer.next(&mut || (self.progress)(FetchEvent::Waiting { name }))
    }

    /// Copies the body to disk, reporting after every block.
    fn receive(&mut self, partial: &mut Partial, transfer: &Transfer) -> Result<Ended, Setback> {
        let total = self.remote.bytes;
        loop {
            let progress = FetchEvent::Progress { name: self.remote.name(), received: partial.len(), total };
            if (self.progress)(progress).is_break() {
                return Ok(Ended::Stopped);
            }
            if partial.len() == total {
                return Ok(Ended::Complete);
            }
            let block = match self.next(transfer) {
                None => return Ok(Ended::Stopped),
                Some(Message::Block(block)) => block,
                Some(Message::Broken(error)) => return Err(self.interrupted(partial, error)),
                Some(Message::Unreachable(error)) => return Err(self.unreachable(error)),
                Some(Message::Head(..) | Message::End) => return Err(self.ended_early(partial)),
            };
            let found = partial.len() + block.len() as u64;
            if found > total {
                return Err(self.wrong_size(partial, found));
            }
            partial.append(&block).map_err(Setback::Everything)?;
        }
    }

    /// Compares the checksum. A file with the wrong one is emptied, for there
    /// is nothing in it to go on from.
    fn verify(&self, partial: &mut Partial) -> Result<Asked, DataError> {
        let found = partial.md5()?;
        if found.eq_ignore_ascii_case(&self.remote.md5) {
            return Ok(Asked::Verified);
        }
        partial.restart()?;
        Ok(Asked::Failed(DataError::WrongChecksum {
            url: self.url.to_owned(),
            expected: self.remote.md5.clone(),
            found,
        }))
    }

    fn unreachable(&self, error: ureq::Error) -> Setback {
        let passing =
            matches!(error, ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed);
        let error = DataError::Connection { url: self.url.to_owned(), source: Box::new(error) };
        if passing { Setback::Attempt(error) } else { Setback::Place(error) }
    }

    fn refused(&self, status: StatusCode) -> Setback {
        let error = DataError::Status { url: self.url.to_owned(), status: status.as_u16() };
        let passing = status.is_server_error()
            || status == StatusCode::REQUEST_TIMEOUT
            || status == StatusCode::TOO_MANY_REQUESTS;
        if passing { Setback::Attempt(error) } else { Setback::Place(error) }
    }

    fn wrong_size(&self, partial: &mut Partial, found: u64) -> Setback {
        if let Err(error) = partial.restart() {
            return Setback::Everything(error);
        }
        Setback::Place(DataError::WrongSize { url: self.url.to_owned(), expected: self.remote.bytes, found })
    }

    fn ended_early(&self, partial: &Partial) -> Setback {
        self.interrupted(partial, io::ErrorKind::UnexpectedEof.into())
    }

    fn interrupted(&self, partial: &Partial, source: io::Error) -> Setback {
        Setback::Attempt(DataError::Interrupted {
            url: self.url.to_owned(),
            received: partial.len(),
            total: self.remote.bytes,
            source,
        })
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The first byte position in `Content-Range: bytes FIRST-LAST/TOTAL`.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (first, _) = range.strip_prefix("bytes ")?.split_once('-')?;
    first.trim().parse().ok()
}
