//! Slow messages as traces: a span for the message, one inside it for each stage.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context, Result};
use sockstamp_explain::timeline::{Placed, Span, Timeline};
use sockstamp_host::container::Details;
use sockstamp_metrics::TraceContext;
use sockstamp_metrics::otlp::{number, text};
use sockstamp_metrics::wire::Fields;
use sockstamp_model::flow::canonical;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;

use crate::owners::Owner;

/// `SPAN_KIND_INTERNAL`: a message does not show which end is client or server.
const INTERNAL: u64 = 1;

/// Unique names for traces and spans.
#[derive(Debug)]
pub(super) struct Ids(File);

impl Ids {
    pub(super) fn new() -> Result<Self> {
        let random = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
        Ok(Self(random))
    }

    fn take<const LENGTH: usize>(&mut self) -> io::Result<[u8; LENGTH]> {
        let mut id = [0; LENGTH];
        self.0.read_exact(&mut id)?;
        Ok(id)
    }
}

/// Return the spans of a message, and the names of the one for all of it; none where it has no
/// stage.
pub(super) fn spans(
    message: &Message,
    owner: &Owner,
    ids: &mut Ids,
) -> io::Result<Option<(TraceContext, Vec<Fields>)>> {
    let timeline = Timeline::of(message);
    let stages: Vec<_> = timeline.between.iter().chain(&timeline.way).collect();
    let begin = stages.iter().map(|placed| placed.span.begin).min();
    let end = stages.iter().map(|placed| placed.span.end).max();
    let Some((begin, end)) = begin.zip(end) else {
        return Ok(None);
    };
    let (trace, root) = (ids.take::<16>()?, ids.take::<8>()?);
    let whole = span(&trace, &root, None, name(message), Span { begin, end });
    let mut spans = vec![with(whole, attributes(message, owner))];
    for placed in stages {
        let id = ids.take::<8>()?;
        let stage = span(&trace, &id, Some(&root), placed.stage.name(), placed.span);
        spans.push(with(stage, parts(placed)));
    }
    Ok(Some((TraceContext { trace, span: root }, spans)))
}

/// `Span`.
fn span(
    trace: &[u8; 16],
    id: &[u8; 8],
    parent: Option<&[u8; 8]>,
    name: &str,
    span: Span,
) -> Fields {
    let mut fields = Fields::new().with_length(1, trace).with_length(2, id);
    if let Some(parent) = parent {
        fields = fields.with_length(4, parent);
    }
    fields
        .text(5, name)
        .number(6, INTERNAL)
        .fixed(7, span.begin)
        .fixed(8, span.end)
}

fn with(span: Fields, attributes: Vec<Fields>) -> Fields {
    attributes
        .iter()
        .fold(span, |span, attribute| span.message(9, attribute))
}

fn name(message: &Message) -> &'static str {
    match message.direction {
        _ if message.is_connection() => "open connection",
        Direction::Tx => "send",
        Direction::Rx => "read",
    }
}

/// Semantic conventions, "Network", "Process" and "Container"; names of ours begin with
/// `sockstamp`.
fn attributes(message: &Message, owner: &Owner) -> Vec<Fields> {
    let [local, peer] = [message.flow.local, message.flow.remote].map(canonical);
    let mut attributes = vec![
        text("network.transport", &message.flow.protocol.to_string()),
        text("network.local.address", &local.ip().to_string()),
        number("network.local.port", local.port().into()),
        text("network.peer.address", &peer.ip().to_string()),
        number("network.peer.port", peer.port().into()),
        number("process.pid", message.pid.into()),
        text("thread.name", &message.comm.to_string()),
        number("sockstamp.bytes", message.bytes),
        number("sockstamp.weight", message.weight.into()),
        number("sockstamp.retransmits", message.retransmits.into()),
        number("sockstamp.socket.cookie", message.flow.cookie.0),
    ];
    if let Some(interface) = &message.interfaces.last {
        attributes.push(text("network.interface.name", &interface.name.to_string()));
    }
    if let Some(container) = owner.container.as_ref().filter(|name| !name.is_empty()) {
        attributes.push(text("container.id", &container.to_string()));
    }
    attributes.extend(names(&owner.details));
    attributes
}

/// Semantic conventions, "Container" and "Kubernetes".
fn names(details: &Details) -> impl Iterator<Item = Fields> {
    let Details {
        name,
        image,
        pod,
        namespace,
    } = details;
    let of_container = match pod {
        Some(_) => "k8s.container.name",
        None => "container.name",
    };
    let named = [
        (of_container, name),
        ("container.image.name", image),
        ("k8s.pod.name", pod),
        ("k8s.namespace.name", namespace),
    ];
    named
        .into_iter()
        .filter_map(|(attribute, name)| Some(text(attribute, &name.as_ref()?.to_string())))
}

/// Return the parts of a stage as attributes: their order within it is not measured.
fn parts(placed: &Placed) -> Vec<Fields> {
    let parts = placed.parts.iter();
    parts
        .map(|(part, span)| number(&format!("sockstamp.{}_ns", part.name()), span.duration().0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_have_the_names_of_the_conventions() {
        let details = |pod: Option<&str>| Details {
            name: Some("nginx".into()),
            image: Some("nginx:1.27".into()),
            pod: pod.map(Into::into),
            namespace: pod.map(|_| "default".into()),
        };
        let encoded =
            |details: &Details| names(details).map(Fields::into_bytes).collect::<Vec<_>>();
        let expected = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            let fields = pairs.map(|(name, value)| text(name, value).into_bytes());
            fields.collect::<Vec<_>>()
        };
        let image = ("container.image.name", "nginx:1.27");
        assert_eq!(
            encoded(&details(None)),
            expected(&[("container.name", "nginx"), image])
        );
        assert_eq!(
            encoded(&details(Some("web-7d4b"))),
            expected(&[
                ("k8s.container.name", "nginx"),
                image,
                ("k8s.pod.name", "web-7d4b"),
                ("k8s.namespace.name", "default"),
            ])
        );
        assert!(encoded(&Details::default()).is_empty());
    }
}
