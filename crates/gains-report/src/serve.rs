//! A page that follows its files: a server for this machine only, which reads and never writes.
//!
//! It answers `GET /TOKEN/` with the page and `GET /TOKEN/state` with a word that changes when the files do, and nothing
//! else. Without the token, which is random, other users of the machine and other pages in the same browser get
//! nothing; a request that names another host is refused, so that no foreign name can be made to lead here.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Larger heads of requests are refused.
const LARGEST_HEAD: usize = 8192;
/// A request must be complete by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time; further ones are closed.
const MOST_CALLERS: usize = 16;
/// How often it is asked whether to stop.
const PULSE: Duration = Duration::from_millis(100);

/// What is served.
pub trait Site: Sync {
    /// A word that changes whenever the page would.
    fn state(&self) -> String;
    /// The page.
    fn page(&self) -> String;
}

/// A server that waits on this machine.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
}

impl Server {
    /// Waits at a port of 127.0.0.1; 0 is any that is free.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let mut secret = [0_u8; 16];
        getrandom::fill(&mut secret).map_err(|e| io::Error::other(e.to_string()))?;
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let address = listener.local_addr()?;
        Ok(Self { listener, address, token })
    }

    /// What a browser is to open.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Answers requests until told to stop. Browsers open connections before they need them, so one that is silent
    /// must not keep others waiting.
    pub fn run(&self, site: &dyn Site, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let callers = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !stop() {
                match self.listener.accept() {
                    Ok((stream, _)) if callers.load(Ordering::Relaxed) < MOST_CALLERS => {
                        callers.fetch_add(1, Ordering::Relaxed);
                        let callers = &callers;
                        scope.spawn(move || {
                            // A caller that breaks off harms only itself.
                            drop(self.answer(stream, site));
                            callers.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                    Ok((stream, _)) => drop(stream),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PULSE),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn answer(&self, mut stream: TcpStream, site: &dyn Site) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let reply = match read_head(&mut stream)? {
            Some(head) => self.reply(&head, site),
            None => Reply::refusal(431, "Request Header Fields Too Large"),
        };
        stream.write_all(&reply.bytes())?;
        stream.flush()
    }

    fn reply(&self, head: &[u8], site: &dyn Site) -> Reply {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
            return Reply::refusal(400, "Bad Request");
        }
        let (method, path) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
        let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
        let ours = [self.address.to_string(), format!("localhost:{}", self.address.port())];
        let host = hosts.next().and_then(|header| std::str::from_utf8(header.value).ok());
        if hosts.next().is_some() || !host.is_some_and(|host| ours.iter().any(|name| name == host.trim())) {
            return Reply::refusal(421, "Misdirected Request");
        }
        let Some(rest) = path.strip_prefix('/').and_then(|path| self.behind_token(path)) else {
            return Reply::refusal(404, "Not Found");
        };
        let bodyless = match method {
            "GET" => false,
            "HEAD" => true,
            _ => return Reply::refusal(405, "Method Not Allowed"),
        };
        match rest {
            "/" => Reply { status: (200, "OK"), kind: "text/html", body: site.page(), bodyless },
            "/state" => Reply { status: (200, "OK"), kind: "text/plain", body: site.state(), bodyless },
            _ => Reply::refusal(404, "Not Found"),
        }
    }

    /// What follows the token; compared as a whole, so that its time tells nothing.
    fn behind_token<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (given, rest) = path.split_at_checked(self.token.len())?;
        let differences = given.bytes().zip(self.token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        (differences == 0).then_some(rest)
    }
}

/// Reads up to the empty line that ends a head; nothing if it is too long.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0_u8; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..count]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if head.len() > LARGEST_HEAD {
            return Ok(None);
        }
    }
}

struct Reply {
    status: (u16, &'static str),
    kind: &'static str,
    body: String,
    /// Whether only the head was asked for.
    bodyless: bool,
}

impl Reply {
    fn refusal(code: u16, phrase: &'static str) -> Self {
        Self { status: (code, phrase), kind: "text/plain", body: format!("{phrase}\n"), bodyless: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
            self.status.0,
            self.status.1,
            self.kind,
            self.body.len()
        );
        let mut bytes = head.into_bytes();
        if !self.bodyless {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Site for Fixed {
        fn state(&self) -> String {
            "7".into()
        }
        fn page(&self) -> String {
            "<p>page</p>".into()
        }
    }

    fn ask(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Runs a server, and what is done with it.
    fn with_server(work: impl FnOnce(&Server)) {
        let server = Server::bind(0).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| server.run(&Fixed, &|| done.load(Ordering::Relaxed)));
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&server)));
            done.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap();
            worked.unwrap();
        });
    }

    #[test]
    fn answers_who_knows_the_token() {
        with_server(|server| {
            let (token, host) = (&server.token, server.address);
            assert!(host.ip().is_loopback());
            let page = ask(server, &format!("GET /{token}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\n<p>page</p>"));
            let state = ask(
                server,
                &format!("GET /{token}/state HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", host.port()),
            );
            assert!(state.ends_with("\r\n\r\n7"));
            let head = ask(server, &format!("HEAD /{token}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert!(head.contains("Content-Length: 11\r\n") && head.ends_with("\r\n\r\n"));
        });
    }

    #[test]
    fn refuses_everything_else() {
        with_server(|server| {
            let (token, host) = (&server.token, server.address);
            let mut near = token.clone().into_bytes();
            near[31] ^= 1;
            let near = String::from_utf8(near).unwrap();
            for (request, code) in [
                (format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 404),
                (format!("GET /{near}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), 404),
                (format!("GET /{token}/../x HTTP/1.1\r\nHost: {host}\r\n\r\n"), 404),
                (format!("GET /{token}/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 421),
                (format!("GET /{token}/ HTTP/1.1\r\n\r\n"), 421),
                (format!("GET /{token}/ HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n"), 421),
                (format!("POST /{token}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), 405),
                ("nonsense\r\n\r\n".into(), 400),
            ] {
                let answer = ask(server, &request);
                assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{request}\n{answer}");
                assert!(!answer.contains("<p>page"));
            }
        });
    }

    /// Browsers open connections they may never use.
    #[test]
    fn a_silent_caller_keeps_nobody_waiting() {
        with_server(|server| {
            let _silent = TcpStream::connect(server.address).unwrap();
            let started = Instant::now();
            ask(server, &format!("GET /{}/ HTTP/1.1\r\nHost: {}\r\n\r\n", server.token, server.address));
            // It would have had to wait until the silent one is given up.
            assert!(started.elapsed() < PATIENCE);
        });
    }

    #[test]
    fn tokens_differ() {
        assert_ne!(Server::bind(0).unwrap().token, Server::bind(0).unwrap().token);
    }
}
