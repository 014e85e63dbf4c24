//! Send figures and slow messages to a receiver of OpenTelemetry's protocol.
//!
//! A thread of its own sends. It never blocks the measuring one: items that it cannot take in time
//! are counted and left out. Sums are cumulative, so a lost batch of series loses a point in time,
//! but no counts.

pub(crate) mod client;
mod spans;

use std::fs;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hyper::body::Bytes;
use sockstamp_metrics::catalogue::OTLP_ITEMS;
use sockstamp_metrics::otlp::{Origin, Request, Requests, request, scope};
use sockstamp_metrics::wire::Fields;
use sockstamp_metrics::{Exposition, TraceContext, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::name::Escaped;
use sockstamp_run::capabilities;
use sockstamp_run::escape::complain;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use self::client::{Client, Reply, Signal};
use self::spans::Ids;
use crate::config::OtlpTable;
use crate::files::token;
use crate::http::tls;
use crate::jitter::jittered;
use crate::names::node_name;
use crate::owners::Owner;

/// Batches that wait for the thread: a batch of series keeps a copy of what has changed since.
const WAITING: usize = 3;
/// The longest time that a span waits to be sent, and the most that wait.
const PATIENCE: Duration = Duration::from_secs(2);
const SPANS: usize = 512;
/// Pauses between attempts double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// After this time a request is given up.
const GIVE_UP: Duration = Duration::from_secs(300);

/// The fate of series and spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Sent,
    /// The receiver took the rest of the request.
    Rejected,
    /// The receiver refused the request.
    Refused,
    /// No attempt succeeded.
    Failed,
    /// The thread lagged.
    Behind,
    /// Above `spans_per_second`.
    Rate,
}

impl Fate {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Sent, "sent"),
        (Self::Rejected, "rejected"),
        (Self::Refused, "refused"),
        (Self::Failed, "failed"),
        (Self::Behind, "behind"),
        (Self::Rate, "rate"),
    ];
}

/// The counts of series and spans, by their fate, of all senders of an agent.
#[derive(Debug, Default, Clone)]
pub(crate) struct Totals(Arc<[[AtomicU64; Fate::ALL.len()]; Signal::ALL.len()]>);

impl Totals {
    fn count(&self, signal: Signal, fate: Fate, items: u64) {
        self.0[signal as usize][fate as usize].fetch_add(items, Ordering::Relaxed);
    }

    /// Add the series to an exposition.
    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        for signal in Signal::ALL {
            for (fate, name) in Fate::ALL {
                let labels = vec![
                    ("signal".into(), signal.name().to_owned()),
                    ("result".into(), name.to_owned()),
                ];
                let count = self.0[signal as usize][fate as usize].load(Ordering::Relaxed);
                exposition.add(&OTLP_ITEMS, labels, Value::Count(count));
            }
        }
    }
}

#[derive(Debug)]
enum Batch {
    Series(Requests),
    Spans(Request),
}

/// The sender.
#[derive(Debug)]
pub(crate) struct Sender {
    table: OtlpTable,
    resource: Vec<(&'static str, String)>,
    /// When series are sent next.
    due: Instant,
    ids: Ids,
    spans: Vec<Fields>,
    /// The time of the first of them.
    since: Option<Instant>,
    allowance: Allowance,
    /// None once the thread must end.
    batches: Option<mpsc::Sender<Batch>>,
    ending: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    totals: Totals,
}

impl Sender {
    /// Begin to send to a receiver, as an instance of this name.
    pub(crate) fn start(
        table: &OtlpTable,
        client: Client,
        instance: &str,
        totals: &Totals,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("cannot send")?;
        let (batches, received) = mpsc::channel(WAITING);
        let (ending, ended) = watch::channel(false);
        let worker = Worker {
            client,
            ended,
            totals: totals.clone(),
            failing: Failing::default(),
        };
        let thread = thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                capabilities::keep(&[]);
                runtime.block_on(worker.work(received));
            })
            .context("cannot start a thread")?;
        Ok(Self {
            resource: resource(instance),
            // Send once there is something to send, but not at the same time as all agents of a
            // cluster.
            due: Instant::now() + jittered(table.interval),
            ids: Ids::new()?,
            spans: Vec::new(),
            since: None,
            allowance: Allowance::new(table.spans_per_second),
            table: table.clone(),
            batches: Some(batches),
            ending,
            thread: Some(thread),
            totals: totals.clone(),
        })
    }

    /// Return the time until there is something to hand over.
    pub(crate) fn wait(&self) -> Duration {
        let spans = self.since.map(|since| since + PATIENCE);
        let due = spans.map_or(self.due, |spans| spans.min(self.due));
        due.saturating_duration_since(Instant::now())
    }

    /// Return true if series must be sent now.
    pub(crate) fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }

    /// Send series.
    pub(crate) fn series(&mut self, exposition: Arc<Exposition>, origin: Origin) {
        self.due = Instant::now() + self.table.interval;
        let origin = Origin {
            resource: self.resource.clone(),
            ..origin
        };
        let requests = Requests::new(exposition, origin);
        self.hand_over(Signal::Metrics, Batch::Series(requests));
    }

    /// Send a message, if it is slow, and return its name then.
    pub(crate) fn push(&mut self, message: &Message, owner: &Owner) -> Option<TraceContext> {
        let limit = owner.slow(self.table.slow.map(Nanos::from));
        if limit.is_none_or(|limit| !message.is_slow(limit)) {
            return None;
        }
        if !self.allowance.take() {
            self.totals.count(Signal::Spans, Fate::Rate, 1);
            return None;
        }
        let Ok(made) = spans::spans(message, owner, &mut self.ids) else {
            self.totals.count(Signal::Spans, Fate::Failed, 1);
            return None;
        };
        let (context, spans) = made?;
        self.spans.extend(spans);
        self.since.get_or_insert_with(Instant::now);
        if self.spans.len() >= SPANS {
            self.flush();
        }
        Some(context)
    }

    /// Hand spans over that have waited long enough.
    pub(crate) fn tick(&mut self) {
        if self.since.is_some_and(|since| since.elapsed() >= PATIENCE) {
            self.flush();
        }
    }

    /// Send what there is, and return the thread that does.
    pub(crate) fn end(mut self) -> Option<JoinHandle<()>> {
        self.close();
        self.thread.take()
    }

    fn close(&mut self) {
        self.flush();
        self.ending.send_replace(true);
        drop(self.batches.take());
    }

    fn flush(&mut self) {
        self.since = None;
        if self.spans.is_empty() {
            return;
        }
        let items = self.spans.len() as u64;
        let spans = self.spans.drain(..);
        let scoped = spans.fold(scope(), |scoped, span| scoped.message(2, &span));
        let batch = Batch::Spans(request(&self.resource, &scoped, items));
        self.hand_over(Signal::Spans, batch);
    }

    fn hand_over(&self, signal: Signal, batch: Batch) {
        let Some(batches) = &self.batches else { return };
        if let Err(
            mpsc::error::TrySendError::Full(batch) | mpsc::error::TrySendError::Closed(batch),
        ) = batches.try_send(batch)
        {
            self.totals.count(signal, Fate::Behind, items(batch));
        }
    }
}

/// Return the way to the receiver. It has the content of the files that the settings name.
pub(crate) fn receiver(table: &OtlpTable) -> Result<Client> {
    Ok(Client {
        endpoint: table.endpoint.clone(),
        protocol: table.protocol,
        token: token(table.token_file.as_deref())?,
        tls: trusted(table)?,
    })
}

/// Return the authorities that an encrypted endpoint needs.
fn trusted(table: &OtlpTable) -> Result<Option<Arc<ClientConfig>>> {
    if !table.endpoint.is_encrypted() {
        return Ok(None);
    }
    let file = table.ca_file.as_deref();
    tls::trusting_authorities(file, table.protocol.agreed()).map(Some)
}

fn items(batch: Batch) -> u64 {
    match batch {
        Batch::Series(requests) => requests.map(|request| request.items).sum(),
        Batch::Spans(request) => request.items,
    }
}

/// Send what there is, in one attempt.
impl Drop for Sender {
    fn drop(&mut self) {
        self.close();
        // A panic of the thread was reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Semantic conventions, "Service" and "Host"; in a pod that is told its node, "Kubernetes".
fn resource(instance: &str) -> Vec<(&'static str, String)> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim_end().to_owned();
    let mut resource = vec![
        ("service.name", "sockstamp".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", format!("{host}:{instance}")),
        ("host.name", host),
    ];
    resource.extend(node_name().map(|node| ("k8s.node.name", node)));
    resource
}

/// A budget of messages: this many per second, and as many at once.
#[derive(Debug)]
struct Allowance {
    rate: u32,
    left: f64,
    at: Instant,
}

impl Allowance {
    fn new(rate: u32) -> Self {
        Self {
            rate,
            left: rate.into(),
            at: Instant::now(),
        }
    }

    fn take(&mut self) -> bool {
        let rate = f64::from(self.rate);
        self.left = (self.left + self.at.elapsed().as_secs_f64() * rate).min(rate);
        self.at = Instant::now();
        let has = self.left >= 1.0;
        self.left -= if has { 1.0 } else { 0.0 };
        has
    }
}

struct Worker {
    client: Client,
    ended: watch::Receiver<bool>,
    totals: Totals,
    failing: Failing,
}

/// The signals whose last request failed, which the log says: a receiver may take metrics alone.
#[derive(Debug, Default)]
struct Failing([bool; Signal::ALL.len()]);

impl Failing {
    /// Return true if it did not fail before.
    fn begins(&mut self, signal: Signal) -> bool {
        !std::mem::replace(&mut self.0[signal as usize], true)
    }

    fn ends(&mut self, signal: Signal) {
        self.0[signal as usize] = false;
    }

    fn any(&self) -> bool {
        self.0.contains(&true)
    }
}

impl Worker {
    async fn work(mut self, mut batches: mpsc::Receiver<Batch>) {
        while let Some(batch) = batches.recv().await {
            match batch {
                Batch::Series(requests) => {
                    for request in requests {
                        self.deliver(Signal::Metrics, request).await;
                    }
                }
                Batch::Spans(request) => self.deliver(Signal::Spans, request).await,
            }
        }
    }

    async fn deliver(&mut self, signal: Signal, request: Request) {
        // At the end one failure is enough.
        if self.failing.any() && *self.ended.borrow() {
            return self.totals.count(signal, Fate::Failed, request.items);
        }
        let (begun, body) = (Instant::now(), Bytes::from(request.body));
        let pauses = iter::successors(Some(FIRST_PAUSE), |last| Some((*last * 2).min(LAST_PAUSE)));
        for pause in pauses {
            match self.client.send(signal, body.clone()).await {
                Reply::Taken { rejected } => {
                    let rejected = rejected.min(request.items);
                    self.failing.ends(signal);
                    self.totals
                        .count(signal, Fate::Sent, request.items - rejected);
                    return self.totals.count(signal, Fate::Rejected, rejected);
                }
                Reply::Refused(why) => {
                    self.complain(signal, &why);
                    return self.totals.count(signal, Fate::Refused, request.items);
                }
                Reply::Later(why, least) => {
                    self.complain(signal, &why);
                    let pause = jittered(pause).max(least.unwrap_or_default());
                    // A receiver may ask for a day.
                    let pause = pause.min(GIVE_UP.saturating_sub(begun.elapsed()));
                    let ended = timeout(pause, self.ended.wait_for(|ended| *ended))
                        .await
                        .is_ok();
                    if ended || begun.elapsed() >= GIVE_UP {
                        return self.totals.count(signal, Fate::Failed, request.items);
                    }
                }
            }
        }
    }

    /// Once, until it works again.
    fn complain(&mut self, signal: Signal, why: &str) {
        if self.failing.begins(signal) {
            let endpoint = &self.client.endpoint;
            complain(format_args!(
                "{endpoint} does not accept {}: {}",
                signal.name(),
                Escaped(why.as_bytes())
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_taken_hides_no_failure_of_the_other() {
        let mut failing = Failing::default();
        assert!(failing.begins(Signal::Spans) && failing.any());
        failing.ends(Signal::Metrics);
        assert!(!failing.begins(Signal::Spans));
        failing.ends(Signal::Spans);
        assert!(!failing.any() && failing.begins(Signal::Spans));
    }

    #[test]
    fn a_budget_passes_its_number_of_messages_at_once_and_no_more() {
        let mut allowance = Allowance::new(5);
        let passed = (0..100).filter(|_| allowance.take()).count();
        // A slow machine may take long enough for another one.
        assert!((5..=8).contains(&passed), "{passed}");
        assert!(!Allowance::new(0).take());
    }
}
