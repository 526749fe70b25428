//! An HTTP server that serves a few files, as badly as it is told to.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What goes wrong with one request.
pub enum Fault {
    /// Nothing does.
    None,
    /// The connection is closed after that many bytes of the body.
    DropAfter(usize),
    /// The whole file is sent although a range was asked for.
    IgnoreRange,
    /// A range is sent, but from the beginning of the file.
    WrongRange,
    /// Only a status is sent.
    Status(u16),
    /// Other content is sent.
    Content(Vec<u8>),
    /// The length is not announced; the end of the connection is the end.
    NoLength,
    /// Nothing is sent for that long.
    Silence(Duration),
}

/// A request as it was logged: `NAME` or `NAME bytes=FIRST-`.
type Log = Arc<Mutex<Vec<String>>>;

pub struct Server {
    address: String,
    log: Log,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `files`; the first request meets the first fault and so on, and
    /// requests beyond the list meet none.
    pub fn start(files: HashMap<String, Vec<u8>>, faults: Vec<Fault>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (log, stop) = (Log::default(), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (log, stop) = (log.clone(), stop.clone());
            let mut faults = VecDeque::from(faults);
            move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let fault = faults.pop_front().unwrap_or(Fault::None);
                    // A client that hangs up is part of the tests.
                    let _ = answer(stream.unwrap(), &files, fault, &log);
                }
            }
        });
        Server { address, log, stop, thread: Some(thread) }
    }

    pub fn base(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(
    stream: TcpStream,
    files: &HashMap<String, Vec<u8>>,
    fault: Fault,
    log: &Log,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let mut range = None;
    for line in lines.by_ref() {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("range: ") {
            range = Some(value.to_owned());
        }
    }
    let name = request.split(' ').nth(1).unwrap_or("").trim_start_matches('/');
    let entry = match &range {
        Some(range) => format!("{name} {range}"),
        None => name.to_owned(),
    };
    log.lock().unwrap().push(entry);

    let first: usize =
        range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()).unwrap_or(0);
    let Some(file) = files.get(name) else {
        return send(&stream, 404, "", b"not found", true);
    };
    let whole = |file: &[u8]| send(&stream, 200, "", file, true);
    match fault {
        Fault::Status(status) => send(&stream, status, "", b"", true),
        Fault::Content(other) => whole(&other),
        Fault::NoLength => send(&stream, 200, "", file, false),
        Fault::IgnoreRange => whole(file),
        Fault::Silence(time) => {
            thread::sleep(time);
            Ok(())
        }
        Fault::WrongRange => {
            let head = format!("Content-Range: bytes 0-{}/{}\r\n", file.len() - 1, file.len());
            send(&stream, 206, &head, file, true)
        }
        Fault::DropAfter(length) => {
            let head = format!("Content-Length: {}\r\n", file.len());
            send(&stream, 200, &head, &file[..length], false)
        }
        Fault::None if first == 0 => whole(file),
        Fault::None if first >= file.len() => send(&stream, 416, "", b"", true),
        Fault::None => {
            let (last, total) = (file.len() - 1, file.len());
            let head = format!("Content-Range: bytes {first}-{last}/{total}\r\n");
            send(&stream, 206, &head, &file[first..], true)
        }
    }
}

fn send(mut stream: &TcpStream, status: u16, head: &str, body: &[u8], announce: bool) -> std::io::Result<()> {
    let length = if announce { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
    write!(stream, "HTTP/1.1 {status} Status\r\n{head}{length}Connection: close\r\n\r\n")?;
    stream.write_all(body)?;
    stream.flush()
}
