//! Sends requests to the nodes: one connection each, signed, without retries, and says how far they got.
//!
//! Only a refused connection proves that nothing was executed; anything later without a whole answer is unknown.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time;

use super::ask::Ask;
use super::ask::Body;
use super::ask::By;
use super::ask::Heard;
use super::ask::To;
use super::ask::Told;
use super::recorder::Recorder;
use crate::sigv4;
use crate::sigv4::Credentials;
use crate::sigv4::Payload;

/// Bytes of the largest answer.
const ANSWER_BYTES_MAX: usize = 96 << 20;
/// How often a node that is starting is asked.
const STARTING_PERIOD: Duration = Duration::from_millis(250);

/// What requests are sent over.
pub trait Wire: Send + Sync + 'static {
    /// Sends one request and waits for its end.
    fn send(&self, ask: &Ask) -> impl Future<Output = Heard> + Send;
}

/// Where the nodes are, and how they are spoken to.
#[derive(Debug, Clone)]
pub struct Reach {
    /// `host:port` of each node.
    pub nodes: Vec<String>,
    /// Whose name requests of the catalog are signed for: `s3` or `s3tables`.
    pub service: String,
    /// The region.
    pub region: String,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long a node may take to start.
    pub starting: Duration,
    /// Who signs.
    pub credentials: BTreeMap<By, Credentials>,
}

/// `host:port` of an endpoint as it is typed.
///
/// # Errors
///
/// It is no plain HTTP address.
pub fn address(endpoint: &str) -> Result<String, String> {
    if endpoint.starts_with("https://") {
        return Err(format!(
            "{endpoint}: TLS is not spoken here; go through a local proxy that ends it"
        ));
    }
    let rest = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
    let (host, port) = rest.rsplit_once(':').ok_or(format!("{endpoint} names no port"))?;
    if host.is_empty() || host.contains('/') || port.parse::<u16>().is_err() {
        return Err(format!("{endpoint} is no address like http://HOST:PORT"));
    }
    Ok(rest.to_owned())
}

/// Sends requests and writes each down with its answer.
#[derive(Debug)]
pub struct Client {
    reach: Reach,
    recorder: Arc<Recorder>,
}

/// Why there is no whole answer.
enum Missing {
    Refused,
    Unknown(String),
}

impl Client {
    /// A client that records with `recorder`.
    pub fn new(reach: Reach, recorder: Arc<Recorder>) -> Self {
        Self { reach, recorder }
    }

    async fn once(&self, ask: &Ask, address: &str) -> Told {
        let limit = self.reach.timeout;
        match time::timeout(limit, self.exchange(ask, address)).await {
            Ok(Ok((status, body))) => Told::answered(ask, status, body),
            Ok(Err(Missing::Refused)) => Told::nobody(),
            Ok(Err(Missing::Unknown(words))) => Told::lost(words),
            Err(_) => Told::lost(format!("no whole answer in {} ms", limit.as_millis())),
        }
    }

    async fn exchange(&self, ask: &Ask, address: &str) -> Result<(u16, Value), Missing> {
        let stream = TcpStream::connect(address).await.map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => Missing::Refused,
            _ => Missing::Unknown(format!("connecting: {error}")),
        })?;
        // Failing to set it costs only time.
        let _ = stream.set_nodelay(true);
        let unknown = |error: hyper::Error| Missing::Unknown(error.to_string());
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(unknown)?;
        let connection = tokio::spawn(connection);
        let answered = async {
            let request = self.request(ask, address).map_err(Missing::Unknown)?;
            let response = sender.send_request(request).await.map_err(unknown)?;
            let (head, mut body) = response.into_parts();
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame.map_err(unknown)?.into_data() {
                    bytes.extend_from_slice(&data);
                }
                if bytes.len() > ANSWER_BYTES_MAX {
                    return Err(Missing::Unknown("an answer without end".to_owned()));
                }
            }
            let body = match serde_json::from_slice(&bytes) {
                Ok(value) => value,
                Err(_) if bytes.is_empty() => Value::Null,
                Err(_) => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
            };
            Ok((head.status.as_u16(), body))
        }
        .await;
        drop(sender);
        connection.abort();
        answered
    }

    fn request(&self, ask: &Ask, address: &str) -> Result<http::Request<Full<Bytes>>, String> {
        let pairs = ask.query.iter().map(|(name, value)| {
            format!("{}={}", sigv4::encode(name, false), sigv4::encode(value, false))
        });
        let query = pairs.collect::<Vec<_>>().join("&");
        let mut headers = vec![("host".to_owned(), address.to_owned())];
        headers.extend(ask.headers.iter().cloned());
        let body = match &ask.body {
            Body::Empty => Vec::new(),
            Body::Json(value) => {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
                serde_json::to_vec(value).map_err(|error| error.to_string())?
            }
            Body::Text(text) => text.clone().into_bytes(),
        };
        if let Some(credentials) = self.reach.credentials.get(&ask.by) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
            let is_catalog =
                ask.path.starts_with("/iceberg/") || ask.path.starts_with("/_iceberg/");
            let scope = sigv4::Scope {
                region: &self.reach.region,
                service: if is_catalog { &self.reach.service } else { "s3" },
                now: i64::try_from(now).unwrap_or(i64::MAX),
            };
            let plain = sigv4::Request {
                method: &ask.method,
                path: &ask.path,
                query: &query,
                headers: &headers,
            };
            let signed = sigv4::sign(&plain, Payload::of(&body), credentials, &scope);
            headers.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        }
        let target =
            if query.is_empty() { ask.path.clone() } else { format!("{}?{query}", ask.path) };
        let mut builder = http::Request::builder().method(&*ask.method).uri(target);
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        builder.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())
    }
}

impl Wire for Client {
    async fn send(&self, ask: &Ask) -> Heard {
        let node = match ask.to {
            To::Any => 0,
            To::Node(node) => node,
        };
        let address = self.reach.nodes.get(node).map_or("", String::as_str);
        let began = Instant::now();
        loop {
            let sent = Instant::now();
            let told = self.once(ask, address).await;
            let is_starting = matches!(told.status, None | Some(503));
            let is_late = began.elapsed() >= self.reach.starting;
            if !ask.waits || !is_starting || is_late {
                let heard = Heard { ask: ask.clone(), told };
                self.recorder.record(address, &self.signer(ask), &heard, sent.elapsed());
                return heard;
            }
            // A state is waited for, and asking is the only way to see it.
            time::sleep(STARTING_PERIOD).await;
        }
    }
}

impl Client {
    /// The access key, which is no secret; empty where nobody signs.
    fn signer(&self, ask: &Ask) -> String {
        let credentials = self.reach.credentials.get(&ask.by);
        credentials.map(|it| it.access_key.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_or_a_mistake() {
        assert_eq!(address("http://127.0.0.1:9000/").unwrap(), "127.0.0.1:9000");
        assert_eq!(address("node-1:9000").unwrap(), "node-1:9000");
        for bad in ["https://a:1", "http://a", "http://:9", "http://a/b:1", "a:x"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
