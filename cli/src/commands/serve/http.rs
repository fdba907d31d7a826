//! A minimal HTTP server: one request per connection, GET and HEAD, with limits of time and memory.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::site::Site;

/// Maximum number of concurrent connections. Further ones wait in the kernel's queue until one of these ends.
const CONNECTIONS: usize = 128;
/// Maximum length of a request's head.
const HEAD_MAX: usize = 8192;
/// Timeouts of reading a head and of writing an answer.
const READ: Duration = Duration::from_secs(5);
const WRITE: Duration = Duration::from_secs(30);
/// Time for reading further data of a client, so that it gets its answer.
const LINGER: Duration = Duration::from_millis(500);
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of bytes of a file in memory at a time.
const CHUNK: usize = 64 * 1024;

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    /// Decoded path without the query.
    pub(super) path: String,
    query: Vec<(String, String)>,
    fields: Vec<(String, String)>,
}

impl Head {
    /// Parses a head that ends with an empty line, or returns the answer that refuses it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Head, Response> {
        let bad = |why| Response::refusal("400 Bad Request", why);
        let text = std::str::from_utf8(bytes).map_err(|_| bad("the head is no UTF-8"))?;
        let mut lines = text.split("\r\n");
        let words: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, version] = words[..] else { return Err(bad("the first line is METHOD PATH VERSION")) };
        if !["HTTP/1.0", "HTTP/1.1"].contains(&version) {
            return Err(Response::refusal("505 HTTP Version Not Supported", "HTTP/1.1 is supported"));
        }
        if !["GET", "HEAD"].contains(&method) {
            return Err(Response::refusal("405 Method Not Allowed", "only GET and HEAD: this server is to look only"));
        }
        if !target.starts_with('/') {
            return Err(bad("the target is a path"));
        }
        let mut fields = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or_else(|| bad("a field is NAME: VALUE"))?;
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_!#$%&'*+.^`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) {
                return Err(bad("a field has a wrong name"));
            }
            fields.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        };
        let query =
            pairs.map(pair).collect::<Option<_>>().ok_or_else(|| bad("the query is not encoded as URLs are"))?;
        let path = decoded(path).ok_or_else(|| bad("the path is not encoded as URLs are"))?;
        let head = Head { path, query, fields };
        let has_body = |(name, value): &(String, String)| name == "content-length" && value != "0";
        if head.has("transfer-encoding") || head.fields.iter().any(has_body) {
            return Err(bad("a request has no body"));
        }
        Ok(head)
    }

    /// Whether there is a field with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known == name)
    }

    /// Returns the value of a field that occurs once.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        let mut all = self.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let first = all.next();
        first.filter(|_| all.next().is_none())
    }

    /// Returns the value of a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Decodes `%41` and `+`; `None` if the result is not text.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = tail;
        let byte = match first {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                rest = &rest[2..];
                digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
                u8::from_str_radix(digits, 16).ok()?
            }
            b'+' => b' ',
            other => *other,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// What a browser may do with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// The server's own page: its script, its style, and requests to this server; nothing inline.
    Own,
    /// A page in a folder: only its own contents, in an opaque origin, without any requests.
    Sandbox,
}

impl Policy {
    fn text(self) -> &'static str {
        match self {
            Policy::Own => {
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
                 form-action 'none'; frame-ancestors 'none'"
            }
            Policy::Sandbox => {
                "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                 form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
            }
        }
    }
}

#[derive(Debug)]
enum Body {
    Static(&'static str),
    Text(String),
    /// Shared by all clients.
    Shared(Arc<str>),
    File(File, u64),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Response {
    status: &'static str,
    kind: &'static str,
    policy: Policy,
    body: Body,
}

impl Response {
    /// Returns a part of the page.
    pub(super) fn part(kind: &'static str, text: &'static str) -> Response {
        Response { status: "200 OK", kind, policy: Policy::Own, body: Body::Static(text) }
    }

    /// Returns data for the page.
    pub(super) fn json(text: String) -> Response {
        Response { status: "200 OK", kind: "application/json", policy: Policy::Own, body: Body::Text(text) }
    }

    /// Returns data that many pages request at once.
    pub(super) fn shared(text: Arc<str>) -> Response {
        Response { status: "200 OK", kind: "application/json", policy: Policy::Own, body: Body::Shared(text) }
    }

    /// Returns a page from a file.
    pub(super) fn file(file: File) -> std::io::Result<Response> {
        let length = file.metadata()?.len();
        let body = Body::File(file, length);
        Ok(Response { status: "200 OK", kind: "text/html; charset=utf-8", policy: Policy::Sandbox, body })
    }

    /// Returns a page that explains why there is none.
    pub(super) fn page(status: &'static str, text: String) -> Response {
        Response { status, kind: "text/html; charset=utf-8", policy: Policy::Own, body: Body::Text(text) }
    }

    /// Returns a refusal of one line.
    pub(super) fn refusal(status: &'static str, why: &str) -> Response {
        let body = Body::Text(format!("{why}\n"));
        Response { status, kind: "text/plain; charset=utf-8", policy: Policy::Own, body }
    }

    fn head(&self) -> String {
        let Response { status, kind, policy, body } = self;
        let length = match body {
            Body::Static(text) => text.len() as u64,
            Body::Text(text) => text.len() as u64,
            Body::Shared(text) => text.len() as u64,
            Body::File(_, length) => *length,
        };
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Content-Security-Policy: {}\r\n\
             X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\n\
             Connection: close\r\n\r\n",
            policy.text()
        )
    }
}

/// Answers requests at `listener` as long as it is polled.
pub(super) async fn serve(listener: TcpListener, site: Arc<Site>) {
    let turns = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let Ok(turn) = turns.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = site.clone();
                drop(tokio::spawn(async move {
                    converse(stream, &site).await;
                    drop(turn);
                }));
            }
            // The process may have too many open files, which will be fewer later.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Handles one request.
async fn converse(mut stream: TcpStream, site: &Arc<Site>) {
    let mut bytes = Vec::with_capacity(1024);
    let response = match timeout(READ, head(&mut stream, &mut bytes)).await {
        Ok(Ok(Some(head))) => site.answer(&head).await,
        Ok(Ok(None)) => return,
        Ok(Err(refusal)) => refusal,
        Err(_) => Response::refusal("408 Request Timeout", "the request did not end within 5 s"),
    };
    // The answer to a HEAD request has no body, also that to one that cannot be parsed.
    let bodiless = bytes.starts_with(b"HEAD ");
    if timeout(WRITE, write(&mut stream, response, bodiless)).await.is_ok_and(|written| written.is_ok()) {
        // A connection that is closed with unread bytes is reset, and its client loses the answer.
        let mut rest = [0; 1024];
        let read = async { while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {} };
        let _ = timeout(LINGER, read).await;
    }
}

/// Reads a head into `bytes`; `None` if the client disconnected before its end.
async fn head(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<Option<Head>, Response> {
    loop {
        let seen = bytes.len().saturating_sub(3);
        if stream.read_buf(bytes).await.unwrap_or(0) == 0 {
            return Ok(None);
        }
        if let Some(end) = bytes[seen..].windows(4).position(|end| end == b"\r\n\r\n") {
            return Head::parse(&bytes[..seen + end]).map(Some);
        }
        if bytes.len() >= HEAD_MAX {
            return Err(Response::refusal("431 Request Header Fields Too Large", "a head has at most 8192 bytes"));
        }
    }
}

async fn write(stream: &mut TcpStream, response: Response, bodiless: bool) -> std::io::Result<()> {
    stream.write_all(response.head().as_bytes()).await?;
    match response.body {
        _ if bodiless => {}
        Body::Static(text) => stream.write_all(text.as_bytes()).await?,
        Body::Text(text) => stream.write_all(text.as_bytes()).await?,
        Body::Shared(text) => stream.write_all(text.as_bytes()).await?,
        Body::File(mut file, mut left) => {
            // Sends the promised length even if the file grows meanwhile.
            while left > 0 {
                let mut chunk = vec![0; CHUNK.min(left as usize)];
                let read =
                    tokio::task::spawn_blocking(move || (file.read(&mut chunk).map(|n| (n, chunk)), file)).await?;
                let (n, chunk) = read.0?;
                file = read.1;
                if n == 0 {
                    break;
                }
                stream.write_all(&chunk[..n]).await?;
                left -= n as u64;
            }
        }
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> String {
        match Head::parse(request.as_bytes()) {
            Ok(head) => format!("{} {:?}", head.path, head.query),
            Err(refusal) => refusal.status.to_owned(),
        }
    }

    #[test]
    fn heads_are_read_or_refused() {
        for (request, wanted) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "/ []"),
            ("GET /a%20b?run=x%2Fy+z&q HTTP/1.1\r\n\r\n", "/a b [(\"run\", \"x/y z\"), (\"q\", \"\")]"),
            ("HEAD /%2e%2e/etc HTTP/1.0\r\n\r\n", "/../etc []"),
            ("POST / HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("GET / HTTP/2\r\n\r\n", "505 HTTP Version Not Supported"),
            ("GET /\r\n\r\n", "400 Bad Request"),
            ("GET  / HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET http://evil.example/ HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET /%zz HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET /%2 HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET /%+1 HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET /%ff HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET /a%00b HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\n folded: a\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 3\r\n\r\n", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "/ []"),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request"),
            ("", "400 Bad Request"),
        ] {
            assert_eq!(status(request), wanted, "{request}");
        }
    }
}
