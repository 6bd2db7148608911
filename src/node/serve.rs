//! The listener: our own accept loop over hyper, routed by path before S3 sees a request.
//!
//! | path | goes to |
//! |---|---|
//! | `/health/…`, `/metrics` | answered here, unsigned |
//! | `/firedrill/v1/peer/…` | `peer::server` |
//! | `/firedrill/v1/…` | `admin` |
//! | `POST /BUCKET` with a form | `s3::forms` |
//! | `/iceberg…`, `/_iceberg…` | `catalog` |
//! | everything else | S3 |
//!
//! A request that has begun is finished even when its client has gone: what it does to drives is not
//! left half done because a connection broke.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

use http::HeaderValue;
use http::Method;
use http::Request;
use http::Response;
use http::StatusCode;
use http::header::CONTENT_RANGE;
use http_body_util::BodyExt as _;
use http_body_util::Limited;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use s3s::Body;
use s3s::service::S3Service;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::sync::watch;
use uuid::Uuid;

use crate::node::admin;
use crate::node::catalog;
use crate::node::catalog::Catalog;
use crate::node::documents;
use crate::node::documents::Refusal;
use crate::node::interim::Interim;
use crate::node::interim::Wanted;
use crate::node::patience;
use crate::node::patience::Patient;
use crate::node::peer::server::PeerServer;
use crate::node::peer::words;
use crate::node::s3::Gateway;
use crate::node::s3::access::Gate;
use crate::node::s3::attributes;
use crate::node::s3::buckets::REGION;
use crate::node::s3::forms;
use crate::node::s3::forms::Forms;
use crate::node::s3::rights::Origin;
use crate::node::s3::rights::Rights;
use crate::node::service::Node;
use crate::node::store::Store;

/// Between two looks at what is still being answered, at the end.
const DRAIN_PERIOD: Duration = Duration::from_millis(5);

/// Serves one node.
pub struct Server {
    node: Arc<Node>,
    peers: PeerServer<Node>,
    s3: OnceLock<(S3Service, Forms)>,
    ending: watch::Sender<bool>,
    /// How long a client is waited for.
    client_wait: Duration,
    connections: Arc<Semaphore>,
}

impl Server {
    /// Serves `node`; S3 is refused until [`open`](Self::open).
    pub fn new(node: &Arc<Node>) -> Arc<Self> {
        let deadline = Duration::from_millis(node.loaded.config.limits.peer_deadline_ms);
        let nodes = node.loaded.config.nodes.len();
        let peers = PeerServer::new(node.me(), nodes, node.key.clone(), deadline, Arc::clone(node));
        let (s3, ending) = (OnceLock::new(), watch::Sender::new(false));
        let limits = &node.loaded.config.limits;
        let client_wait = Duration::from_millis(limits.client_wait_ms);
        let most = limits.connections_max.min(Semaphore::MAX_PERMITS);
        let connections = Arc::new(Semaphore::new(most));
        Arc::new(Self { node: Arc::clone(node), peers, s3, ending, client_wait, connections })
    }

    /// Serves S3 over `store` from now on.
    pub fn open(&self, store: &Arc<Store>) {
        let principals = self.node.loaded.principals.clone();
        let rights = Arc::new(Rights::new(Arc::clone(store), principals.clone()));
        let catalog = Arc::new(Catalog::new(
            Arc::clone(store),
            principals.clone(),
            Arc::clone(&rights),
            self.node.loaded.catalog.clone(),
            REGION,
        ));
        self.node.open_catalog(&catalog);
        let gateway = Gateway::new(Arc::clone(store), Arc::clone(&rights), Arc::clone(&catalog));
        let metrics = Arc::clone(&self.node.metrics);
        let gate = Gate { principals, rights, catalog, metrics };
        let mut builder = S3ServiceBuilder::new(gateway.clone());
        builder.set_auth(gate.clone());
        builder.set_access(gate.clone());
        self.s3.get_or_init(|| (builder.build(), Forms::new(gateway, gate)));
    }

    /// Accepts connections until the listener fails.
    pub async fn accept(self: &Arc<Self>, listener: TcpListener) -> std::io::Error {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let Ok(place) = Arc::clone(&self.connections).try_acquire_owned() else {
                        tracing::warn!(%from, "a connection too many was closed");
                        continue;
                    };
                    let server = Arc::clone(self);
                    tokio::spawn(async move {
                        server.converse(stream, Origin(from.ip())).await;
                        drop(place);
                    });
                }
                // The connection was gone before it was accepted, or descriptors ran out for a moment.
                Err(error) if is_passing(&error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(DRAIN_PERIOD).await;
                }
                Err(error) => return error,
            }
        }
    }

    /// Lets requests that have begun end, for at most `wait`; nothing new is begun.
    pub async fn drain(&self, wait: Duration) {
        self.ending.send_replace(true);
        let deadline = Instant::now() + wait;
        while self.node.metrics.in_flight() > 0 && Instant::now() < deadline {
            tokio::time::sleep(DRAIN_PERIOD).await;
        }
    }

    async fn converse(self: Arc<Self>, stream: TcpStream, from: Origin) {
        // An answer's head and its first bytes leave together anyway.
        let _ = stream.set_nodelay(true);
        if let Err(error) = patience::end_when_unread(&stream, self.client_wait) {
            tracing::warn!(%error, "a connection may wait for ever");
        }
        let server = Arc::clone(&self);
        let wanted = Wanted::default();
        let stream = Interim::new(TokioIo::new(stream), wanted.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            wanted.look_at(&request);
            request.extensions_mut().insert(from);
            Arc::clone(&server).finish(request)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.client_wait);
        let mut connection = std::pin::pin!(http.serve_connection(stream, service));
        let mut ending = self.ending.subscribe();
        let asked_to_end = async {
            // The sender lives as long as the server does.
            let _ = ending.wait_for(|ending| *ending).await;
        };
        tokio::select! {
            // How a connection ends is its client's business.
            _ = &mut connection => {}
            () = asked_to_end => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }

    /// Answers a request in a task of its own, so that it is finished whatever becomes of its connection.
    async fn finish(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, s3s::HttpError> {
        let (route, began) = (route_of(request.uri().path()), Instant::now());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        self.node.metrics.began();
        let counted = InFlight { server: Arc::clone(&self), route, began, status: None };
        let answer = tokio::spawn(async move {
            let mut counted = counted;
            let wait = counted.server.client_wait;
            let request = request.map(|body| Patient::new(body, wait));
            let answer = Arc::clone(&counted.server).route(route, request).await;
            counted.status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            answer
        });
        let answer = answer.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, %method, path, "a request failed inside");
            Ok(plain(StatusCode::INTERNAL_SERVER_ERROR, "the request failed inside"))
        });
        let status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(%method, path, status, took_ms, "answered");
        answer
    }

    async fn route(
        self: Arc<Self>,
        route: &'static str,
        request: Request<Patient<Incoming>>,
    ) -> Result<Response<Body>, s3s::HttpError> {
        match route {
            "health" => Ok(self.health(request.uri().path())),
            "metrics" => {
                let text = self.node.metrics.render(&self.node.status());
                let mut answer = Response::new(Body::from(text));
                let kind = HeaderValue::from_static("text/plain; version=0.0.4");
                answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
                Ok(answer)
            }
            "peer" => {
                let Ok(answer) = self.peers.serve(request).await;
                Ok(answer.map(|body| Body::http_body(body.map_err(|never| match never {}))))
            }
            "admin" => {
                let (head, body) = request.into_parts();
                let body = Limited::new(body, admin::BODY_BYTES_MAX).collect().await;
                let Ok(body) = body else {
                    return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is not read"));
                };
                Ok(admin::answer(&self.node, &head, &body.to_bytes()).await.map(Body::from))
            }
            "catalog" => Ok(self.catalog(request).await),
            _ => self.s3(request).await,
        }
    }

    async fn catalog(&self, request: Request<Patient<Incoming>>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let is_head = head.method == Method::HEAD;
        let Some(catalog) = self.node.catalog() else {
            let kind = "ServiceUnavailableException";
            return catalog::refused(503, kind, "the node is starting", is_head).map(Body::from);
        };
        match Limited::new(body, catalog::BODY_BYTES_MAX).collect().await {
            Ok(body) => catalog.answer(&head, &body.to_bytes()).await.map(Body::from),
            Err(_) => {
                let why = "the body is too large, or did not arrive whole";
                catalog::refused(400, "BadRequestException", why, is_head).map(Body::from)
            }
        }
    }

    fn health(&self, path: &str) -> Response<Body> {
        match path {
            "/health/live" => admin::json_answer(StatusCode::OK, b"{}".to_vec()).map(Body::from),
            "/health/ready" => {
                let readiness = self.node.readiness();
                let status = match readiness.ready {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                let json = serde_json::to_vec(&readiness).unwrap_or_default();
                admin::json_answer(status, json).map(Body::from)
            }
            _ => plain(StatusCode::NOT_FOUND, "there is /health/live and /health/ready"),
        }
    }

    async fn s3(
        &self,
        request: Request<Patient<Incoming>>,
    ) -> Result<Response<Body>, s3s::HttpError> {
        let id = HeaderValue::from_str(&Uuid::new_v4().simple().to_string());
        let is_head = request.method() == Method::HEAD;
        let mut answer = match self.s3.get() {
            Some((s3, forms)) => {
                let (head, body) = request.into_parts();
                let is_form = forms::is_one(&head);
                let request = Request::from_parts(head, body);
                match is_form {
                    true => forms.answer(request).await,
                    false => match handed_on(request).await {
                        Ok(request) => attributes::finished(s3.call(request).await?),
                        Err(refusal) => refused(refusal),
                    },
                }
            }
            // Nothing was done: a client may well try again.
            None => refused(Refusal {
                status: StatusCode::SERVICE_UNAVAILABLE,
                code: "SlowDown",
                message: "the node is starting",
            }),
        };
        // s3s has one status for every HEAD that succeeds.
        if is_head
            && answer.status() == StatusCode::OK
            && answer.headers().contains_key(CONTENT_RANGE)
        {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        if let Ok(id) = id {
            answer.headers_mut().insert("x-amz-request-id", id);
        }
        Ok(answer)
    }
}

/// Counts a request until it is answered, or its task is gone.
struct InFlight {
    server: Arc<Server>,
    route: &'static str,
    began: Instant,
    status: Option<u16>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.server.node.metrics.ended(self.route, self.status, self.began.elapsed());
    }
}

fn route_of(path: &str) -> &'static str {
    let below = |prefix: &str| {
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match path {
        _ if below("/health") => "health",
        "/metrics" => "metrics",
        _ if path.starts_with(words::PREFIX) => "peer",
        _ if path.starts_with(admin::PREFIX) => "admin",
        _ if below("/iceberg/v1") || below("/_iceberg") => "catalog",
        _ => "s3",
    }
}

/// The request as S3 is to see it: with its document, if it has one.
async fn handed_on(request: Request<Patient<Incoming>>) -> Result<Request<Body>, Refusal> {
    let (head, body) = request.into_parts();
    documents::check(&head)?;
    let is_document = documents::is_one(&head);
    let request = Request::from_parts(head, body);
    match is_document {
        true => Ok(documents::read(request).await?.map(Body::from)),
        false => Ok(request.map(Body::http_body)),
    }
}

/// A refusal as S3 writes it.
fn refused(refusal: Refusal) -> Response<Body> {
    let Refusal { status, code, message } = refusal;
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("application/xml");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    answer
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(text.to_owned()));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    answer
}

/// Whether accepting may well succeed the next time.
fn is_passing(error: &std::io::Error) -> bool {
    use nix::errno::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(
            Errno::ECONNABORTED
                | Errno::EINTR
                | Errno::EMFILE
                | Errno::ENFILE
                | Errno::ENOBUFS
                | Errno::ENOMEM
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_taken_by_whole_path_segments() {
        for (path, route) in [
            ("/health/ready", "health"),
            ("/healthy/key", "s3"),
            ("/metrics", "metrics"),
            ("/metrics2", "s3"),
            ("/firedrill/v1/peer/state", "peer"),
            ("/firedrill/v1/status", "admin"),
            ("/firedrill/v2", "s3"),
            ("/iceberg/v1/config", "catalog"),
            ("/_iceberg", "catalog"),
            ("/iceberg/key", "s3"),
            ("/icebergs/key", "s3"),
            ("/", "s3"),
        ] {
            assert_eq!(route_of(path), route, "{path}");
        }
    }
}
