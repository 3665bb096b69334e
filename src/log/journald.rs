//! Events in journald's own protocol, with their fields, through `tracing-journald`. Runs on the
//! ring's thread: a hung journald blocks here.
//!
//! The crate is used below its macros: they want the level and the fields spelled out at each
//! call, here both come from the event. Going to the layer directly also leaves out the global
//! dispatcher, and a span registry that would never hold a span.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use tracing::callsite::{Callsite, Identifier};
use tracing::field::{FieldSet, Value};
use tracing::metadata::Kind;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Level, Metadata};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::{Layer as _, Layered};
use tracing_subscriber::registry::{Data, LookupSpan};

use super::event::{Event, KEYS, Severity};
use super::line::text;
use super::ring::Deliver;

/// Where the layer sends; it cannot be told another place.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Whether there is a journald to talk to, dead or alive.
pub fn exists() -> bool {
    Path::new(SOCKET).exists()
}

pub struct Journald {
    session: String,
    probe: Option<UnixDatagram>,
    layer: Option<Layered<tracing_journald::Layer, NoSpans>>,
}

impl Journald {
    pub fn new(session: &str) -> Journald {
        Journald { session: session.to_owned(), probe: None, layer: None }
    }

    /// Who listens now. The layer swallows the error of a send, so we ask before and after it:
    /// connecting a datagram socket sends nothing and never blocks.
    fn listener(&mut self) -> io::Result<(u64, u64)> {
        let probe = match self.probe.take() {
            Some(probe) => probe,
            None => UnixDatagram::unbound()?,
        };
        self.probe.insert(probe).connect(SOCKET)?;
        let socket = std::fs::metadata(SOCKET)?;
        Ok((socket.dev(), socket.ino()))
    }

    /// Made at the first event: its constructor sends, so it may block or fail like any other.
    fn layer(&mut self) -> io::Result<&Layered<tracing_journald::Layer, NoSpans>> {
        let layer = match self.layer.take() {
            Some(layer) => layer,
            None => tracing_journald::layer()?
                .with_syslog_identifier("agentsup".to_owned())
                .with_field_prefix(Some("AGENTSUP".to_owned()))
                .with_custom_fields([("AGENTSUP_SESSION", &self.session)])
                .with_priority_mappings(PriorityMappings {
                    info: Priority::Informational,
                    ..PriorityMappings::new()
                })
                .with_subscriber(NoSpans),
        };
        Ok(self.layer.insert(layer))
    }
}

impl Deliver for Journald {
    /// Ok: the same journald listened before and after. Err may be one too many, when it took the
    /// event and died at once, but never one too few for a journald that was not there.
    fn deliver(&mut self, event: &Event) -> io::Result<()> {
        let before = self.listener()?;
        send(self.layer()?, event);
        if self.listener()? != before {
            return Err(io::Error::other("journald was replaced meanwhile"));
        }
        Ok(())
    }
}

fn send(layer: &impl Subscriber, event: &Event) {
    let message = text(event);
    let name = event.name.as_str();
    let mut values: [Option<&dyn Value>; FIELDS.len()] = [None; FIELDS.len()];
    values[0] = Some(&message);
    values[1] = Some(&name);
    for (key, value) in event.fields() {
        // The session is with every entry already.
        if *key == "session" {
            continue;
        }
        if let Some(at) = FIELDS.iter().position(|field| field == key) {
            values[at] = Some(value);
        }
    }
    let site = match event.severity() {
        Severity::Info => &INFO,
        Severity::Warning => &WARN,
        Severity::Error => &ERROR,
    };
    layer.event(&tracing::Event::new(&site.0, &site.0.fields().value_set_all(&values)));
}

/// `message` becomes MESSAGE, `event` and the keys AGENTSUP_EVENT and so on.
static FIELDS: [&str; KEYS.len() + 2] = {
    let mut fields = ["message"; KEYS.len() + 2];
    fields[1] = "event";
    let mut i = 0;
    while i < KEYS.len() {
        fields[i + 2] = KEYS[i];
        i += 1;
    }
    fields
};

/// tracing ties a level to the place of a call, so there is one place for each.
struct Site(Metadata<'static>);

static INFO: Site = Site(site(Level::INFO, Identifier(&INFO)));
static WARN: Site = Site(site(Level::WARN, Identifier(&WARN)));
static ERROR: Site = Site(site(Level::ERROR, Identifier(&ERROR)));

const fn site(level: Level, id: Identifier) -> Metadata<'static> {
    Metadata::new("event", "agentsup", level, None, None, None, FieldSet::new(&FIELDS, id), Kind::EVENT)
}

impl Callsite for Site {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &self.0
    }
}

/// What the layer stands on: it asks for the span an event is in, and there is none.
struct NoSpans;

impl Subscriber for NoSpans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl<'a> LookupSpan<'a> for NoSpans {
    type Data = Data<'a>;

    fn span_data(&'a self, _: &Id) -> Option<Data<'a>> {
        None
    }
}

#[cfg(test)]
#[path = "journald_tests.rs"]
mod tests;
