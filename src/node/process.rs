//! The life of the process: configuration, control, runtime, service, end.
//!
//! It always ends by `_exit`: a thread that is stuck in a system call on a hung drive holds up nobody.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::Instrument as _;
use tracing_subscriber::EnvFilter;

use crate::node::chain;
use crate::node::config::Loaded;
use crate::node::control::Control;
use crate::node::control::Orders;
use crate::node::negotiate;
use crate::node::patience;
use crate::node::replacement;
use crate::node::serve::Server;
use crate::node::service::Node;
use crate::protocol::crash_point::Passing;
use crate::protocol::crash_point::Unarmed;
use crate::sys;

/// Exit code of a configuration that cannot be used.
const USAGE: u8 = 64;
/// Exit code of a node that failed.
const FAILED: u8 = 70;
/// How long requests may go on after the end was asked for. With closing the drives it stays below 2 s.
const DRAIN_WAIT: Duration = Duration::from_millis(800);

/// Runs one node until it is told to end; see `cli::node`. Does not return once the node has served.
pub fn run(config: &Path) -> ExitCode {
    log_to_stderr();
    let ended = Arc::new(Notify::new());
    let harness_gone = Arc::clone(&ended);
    let control = match Control::inherited(move || harness_gone.notify_one()) {
        Ok(control) => control,
        Err(error) => return fail(FAILED, &error),
    };
    let (control, orders) = match control {
        Some((control, orders)) => (Some(control), orders),
        None => (None, Orders::default()),
    };
    // Whoever reads the log of such a node must know it from its first line.
    if !orders.defects.is_empty() {
        tracing::error!(defects = ?orders.defects, "THIS NODE HAS PLANTED DEFECTS; it is for rehearsals only");
    }
    let loaded = match Loaded::read(config) {
        Ok(loaded) => loaded,
        Err(error) => return fail(USAGE, &error),
    };
    if !loaded.config.release.is_current() {
        let release = loaded.config.release.name();
        tracing::error!(
            release,
            "THIS NODE BEHAVES AS AN OLDER RELEASE; it is for rehearsals only"
        );
    }
    patience::raise_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &error),
    };
    let span = tracing::info_span!("node", node = loaded.config.node);
    let served = runtime.block_on(serve(loaded, orders, control, ended).instrument(span));
    match served {
        Ok(()) => sys::exit_now(0),
        Err(error) => {
            tracing::error!(error = chain(&error), "the node failed");
            sys::exit_now(i32::from(FAILED))
        }
    }
}

async fn serve(
    loaded: Loaded,
    orders: Orders,
    control: Option<Control>,
    ended: Arc<Notify>,
) -> Result<(), std::io::Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(&loaded.config.listen).await?;
    let address = listener.local_addr()?;
    let passing: Arc<dyn Passing> = match &control {
        Some(control) => control.passing(),
        None => Arc::new(Unarmed),
    };
    let node = Node::new(loaded, orders, passing);
    let server = Server::new(&node);
    tracing::info!(%address, life = %node.life, version = env!("CARGO_PKG_VERSION"), "listening");
    if let Some(control) = &control {
        control.listening(address.port());
    }

    let mut work = JoinSet::new();
    let here = tracing::Span::current();
    for keeper in &node.keepers {
        work.spawn(Arc::clone(keeper).keep().instrument(here.clone()));
    }
    for peer in node.peers.iter().flatten() {
        work.spawn(Arc::clone(peer).watch().instrument(here.clone()));
    }
    let telling = Arc::clone(&node);
    work.spawn(async move { negotiate::tell_of_start(&telling).await }.instrument(here.clone()));
    let (starting, serving) = (Arc::clone(&node), Arc::clone(&server));
    let start = async move {
        let store = negotiate::until_accepted(&starting).await;
        serving.open(&store);
        let replace = replacement::run(&starting, &store);
        tokio::join!(replace, Arc::clone(&store).run());
    };
    work.spawn(start.instrument(here.clone()));

    let why = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        () = ended.notified() => "the harness is gone",
        failed = work_that_panicked(&mut work) => return Err(failed),
        failed = server.accept(listener).instrument(here) => return Err(failed),
    };
    tracing::info!(why, "ending");
    node.stop();
    server.drain(DRAIN_WAIT).await;
    work.abort_all();
    futures::future::join_all(node.keepers.iter().map(|keeper| keeper.close())).await;
    tracing::info!("ended");
    Ok(())
}

/// Waits until one of the node's own tasks has panicked: it cannot go on without it.
async fn work_that_panicked(work: &mut JoinSet<()>) -> std::io::Error {
    loop {
        match work.join_next().await {
            Some(Err(error)) if error.is_panic() => return std::io::Error::other(error),
            Some(_) => {}
            None => return futures::future::pending().await,
        }
    }
}

fn log_to_stderr() {
    // s3s reports every refusal as an error of the server.
    let filter =
        EnvFilter::try_from_env("FIREDRILL_LOG").unwrap_or_else(|_| EnvFilter::new("info,s3s=off"));
    let log = tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr);
    // Somebody else's subscriber (a test's) is as good.
    let _ = log.try_init();
}

fn fail(code: u8, error: &dyn std::error::Error) -> ExitCode {
    tracing::error!(error = chain(error), "the node cannot start");
    ExitCode::from(code)
}
