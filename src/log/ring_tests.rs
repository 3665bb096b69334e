use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use nix::sys::signal::SigSet;

use super::*;
use crate::log::event::Name;
use crate::log::line::text;

const LIMIT: Duration = Duration::from_secs(20);

/// A far end that says what it got and then waits to be told how it went.
struct Puppet {
    got: Sender<String>,
    verdicts: Receiver<bool>,
}

impl Deliver for Puppet {
    fn deliver(&mut self, event: &Event) -> io::Result<()> {
        let _ = self.got.send(text(event));
        match self.verdicts.recv() {
            Ok(true) => Ok(()),
            _ => Err(io::Error::other("refused")),
        }
    }
}

struct Strings {
    got: Receiver<String>,
    verdicts: Sender<bool>,
}

impl Strings {
    /// Waits for the next delivery and lets it end well or badly.
    fn take(&self, well: bool) -> String {
        let text = self.got.recv_timeout(LIMIT).expect("something is delivered");
        self.verdicts.send(well).expect("the thread lives");
        text
    }
}

fn puppet() -> (Ring, Strings) {
    let (got_in, got) = channel();
    let (verdicts, verdicts_out) = channel();
    let ring = Ring::start(Sink::Journald, Puppet { got: got_in, verdicts: verdicts_out });
    (ring, Strings { got, verdicts })
}

fn numbered(n: usize) -> Event {
    Event::new(Name::Notify).with("count", n)
}

#[test]
fn events_arrive_in_order() {
    let (mut ring, strings) = puppet();
    for n in 0..3 {
        ring.push(numbered(n));
    }
    for n in 0..3 {
        assert_eq!(strings.take(true), format!("notify count={n}"));
    }
    assert_eq!(ring.close(LIMIT), None);
    assert_eq!(ring.lost(), 0);
}

#[test]
fn a_hung_far_end_never_holds_up_the_pusher_and_the_gap_is_told_where_it_is() {
    let (mut ring, strings) = puppet();
    ring.push(numbered(0));
    strings.got.recv_timeout(LIMIT).expect("on its way"); // and there it hangs
    for n in 1..=CAPACITY + 40 {
        ring.push(numbered(n));
    }
    assert_eq!(ring.lost(), 40);
    assert_eq!(ring.ended_loss(), None, "it still hangs");

    strings.verdicts.send(true).expect("it moves again");
    assert_eq!(strings.take(true), "notify count=1");
    assert_eq!(strings.got.recv_timeout(LIMIT).expect("the next"), "notify count=2"); // room for one
    ring.push(numbered(1000));
    strings.verdicts.send(true).expect("goes on");
    for n in 3..=CAPACITY {
        assert_eq!(strings.take(true), format!("notify count={n}"));
    }
    assert_eq!(strings.take(true), "log_lost sink=journald lost=40 error=\"too slow\"");
    assert_eq!(strings.take(true), "notify count=1000");
    assert_eq!(ring.close(LIMIT).map(|loss| loss.lost), Some(40));
    assert_eq!(ring.lost(), 40);
}

#[test]
fn large_events_fill_the_ring_sooner() {
    let (ring, strings) = puppet();
    let large = || Event::new(Name::ClaudeSpawn).with("argv", "x".repeat(CAPACITY_BYTES / 2));
    ring.push(numbered(0));
    strings.got.recv_timeout(LIMIT).expect("on its way");
    for _ in 0..3 {
        ring.push(large());
    }
    assert_eq!(ring.lost(), 1);
    strings.verdicts.send(true).expect("it moves again");
    for _ in 0..2 {
        assert!(strings.take(true).starts_with("claude_spawn"));
    }
    assert_eq!(strings.take(true), "log_lost sink=journald lost=1 error=\"too slow\"");
    ring.push(large()); // Room is given back.
    assert!(strings.take(true).starts_with("claude_spawn"));
    assert_eq!(ring.lost(), 1);
}

#[test]
fn drops_at_the_end_are_told_without_waiting_for_another_event() {
    let (ring, strings) = puppet();
    ring.push(numbered(0));
    strings.got.recv_timeout(LIMIT).expect("on its way");
    for n in 1..=CAPACITY + 1 {
        ring.push(numbered(n));
    }
    strings.verdicts.send(true).expect("it moves again");
    for _ in 1..=CAPACITY {
        strings.take(true);
    }
    assert_eq!(strings.take(true), "log_lost sink=journald lost=1 error=\"too slow\"");
}

#[test]
fn a_dead_far_end_is_told_the_count_when_it_is_back() {
    let (mut ring, strings) = puppet();
    ring.push(numbered(0));
    assert_eq!(strings.take(false), "notify count=0");
    ring.push(numbered(1)); // Still dead: asked with the news of the loss, not with the event.
    assert_eq!(strings.take(false), "log_lost sink=journald lost=1 error=refused");
    ring.push(numbered(2));
    assert_eq!(strings.take(true), "log_lost sink=journald lost=2 error=refused");
    assert_eq!(strings.take(true), "notify count=2");
    ring.push(numbered(3));
    assert_eq!(strings.take(true), "notify count=3");
    assert_eq!(ring.ended_loss(), Some(Loss { lost: 2, error: "refused".into() }));
    assert_eq!(ring.ended_loss(), None, "each loss once");
    assert_eq!(ring.close(LIMIT), None);
    assert_eq!(ring.lost(), 2);
}

#[test]
fn close_empties_the_ring_first() {
    let (mut ring, strings) = puppet();
    for n in 0..9 {
        ring.push(numbered(n));
    }
    for _ in 0..9 {
        strings.verdicts.send(true).expect("allowed ahead");
    }
    assert_eq!(ring.close(LIMIT), None);
    assert_eq!(strings.got.try_iter().count(), 9);
}

#[test]
fn close_leaves_a_hung_far_end_behind_and_counts_the_rest() {
    let (mut ring, strings) = puppet();
    for n in 0..9 {
        ring.push(numbered(n));
    }
    strings.got.recv_timeout(LIMIT).expect("on its way");
    let start = Instant::now();
    let loss = ring.close(Duration::from_millis(50)).expect("lost");
    assert!(start.elapsed() < LIMIT);
    assert_eq!(loss, Loss { lost: 9, error: "too slow".into() });
    assert_eq!(ring.lost(), 9);
    ring.push(numbered(9));
    assert_eq!(ring.lost(), 10, "nobody is there any more");
}

#[test]
fn the_thread_takes_no_signals_and_leaves_the_callers_mask_alone() {
    struct Masked(Sender<SigSet>);
    impl Deliver for Masked {
        fn deliver(&mut self, _: &Event) -> io::Result<()> {
            self.0.send(SigSet::thread_get_mask()?).map_err(io::Error::other)
        }
    }
    let before = SigSet::thread_get_mask().expect("readable");
    let (mask_in, mask) = channel();
    let ring = Ring::start(Sink::Journald, Masked(mask_in));
    assert_eq!(SigSet::thread_get_mask().expect("readable"), before);
    ring.push(numbered(0));
    let inside = mask.recv_timeout(LIMIT).expect("delivered");
    for signal in nix::sys::signal::Signal::iterator() {
        let blockable = !matches!(signal.as_str(), "SIGKILL" | "SIGSTOP");
        assert_eq!(inside.contains(signal), blockable, "{signal}");
    }
}
