//! Those who are attached: let in, shown the agent's terminal, heard, and told when it is over. Who is
//! shown what and when is `policy::viewers`' to say.

use std::time::Instant;

use super::calls::{Answer, Answered, Calls, refuse};
use super::settings::{Io, Size};
use super::suspend::Suspending;
use super::typing::Hand;
use super::{Charge, Supervisor};
use crate::control::frame::{self, Framing};
use crate::control::protocol::{Ack, AttachFrame, Attached, Body, Code, Id, Over, Reply, Suspend};
use crate::control::server::CallerId;
use crate::log::{Event as LogEvent, Name};
use crate::os::socket::Peer;
use crate::policy::life::{Event, Phase};
use crate::policy::viewers::{self, Cells, Next, Queue, Stage, Viewer};
use crate::screen::Screen;
use crate::screen::canvas::Canvas;
use crate::screen::chord::Chord;
use crate::screen::quiet::Quiet;

/// A frame is shown when all of it has come: over a slow line, small ones are shown sooner.
const LONGEST_FRAME: usize = 16 * 1024;

/// What an `attach` asks for.
pub(super) struct Wish {
    pub(super) size: Cells,
    pub(super) readonly: bool,
    pub(super) hint: bool,
    pub(super) suspend: bool,
}

#[derive(Default)]
pub(super) struct Viewers {
    /// In the order in which they came.
    list: Vec<Entry>,
    /// The agent's output as they are told it; none while nobody is, or while it stands half said.
    quiet: Option<Quiet>,
    /// What switched off the modes that the last agent had left on.
    off: Vec<u8>,
    /// How many of our own lines are shown.
    told: u64,
}

struct Entry {
    caller: CallerId,
    id: Option<Id>,
    peer: Peer,
    /// Ctrl-Z is its own to act upon.
    suspends: bool,
    viewer: Viewer,
    canvas: Canvas,
}

impl Viewers {
    pub(super) fn count(&self) -> u64 {
        self.list.len() as u64
    }

    pub(super) fn can_type(&self) -> bool {
        self.list.iter().any(|entry| !entry.viewer.readonly)
    }

    /// Of the newest that may say.
    fn ruling_size(&self) -> Option<Cells> {
        self.list.iter().rev().find_map(|entry| entry.viewer.rules())
    }

    /// Nothing that they were told holds any more.
    pub(super) fn disturb(&mut self) {
        self.list.iter_mut().for_each(|entry| entry.viewer.disturb());
    }

    pub(super) fn agent_began(&mut self) {
        self.quiet = (!self.list.is_empty()).then(Quiet::default);
        self.list.iter_mut().for_each(|entry| entry.canvas.begin());
        self.disturb();
    }

    /// `off` switches off what it left on; after a failure the rest of its screen goes too.
    pub(super) fn agent_ended(&mut self, mut off: Vec<u8>, failed: bool) {
        if failed {
            off.extend_from_slice(b"\x1b[J");
        }
        self.off = off;
        self.quiet = None;
        self.disturb();
    }
}

fn queue(calls: &Calls, caller: CallerId) -> Queue {
    let (unread, taken) = calls.server.queue(caller);
    Queue { unread, taken }
}

impl Supervisor {
    /// The newest viewer's, else that of the terminal on stdin, else as it is.
    pub(super) fn wanted_size(&self) -> Size {
        match self.viewers.ruling_size() {
            Some((cols, rows)) => Size { cols, rows },
            None => self.console.size(self.size),
        }
    }

    pub(super) fn attach(&mut self, wish: Wish, caller: CallerId, id: &Option<Id>, peer: Peer) -> Answered {
        if self.io() == Io::Inherit {
            let message =
                "the agent has no terminal of its own (--io inherit), so there is nothing to attach to";
            return refuse(Code::NoPty, message);
        }
        if !self.screen.is_on() {
            let message =
                "the screen is not followed ([screen] enabled = false), so it cannot be drawn elsewhere";
            return refuse(Code::Unsupported, message);
        }
        if self.ending.is_some() {
            return self.stopping();
        }
        self.leave(caller, "again");
        let Some(calls) = &mut self.calls else { return refuse(Code::Internal, "no socket") };
        if calls.server.framing(caller) != Some(Framing::LengthPrefixed) {
            let message = "`attach` needs a length-prefixed connection: terminal bytes do not fit into lines";
            return refuse(Code::BadRequest, message);
        }
        if !calls.server.attach(caller) {
            return refuse(Code::TooMany, "too many answers are still to come for this connection");
        }
        let viewer = Viewer::new(wish.size, wish.readonly, wish.hint, Instant::now());
        self.log.record(
            LogEvent::new(Name::Attached)
                .with("uid", peer.uid)
                .with("pid", peer.pid)
                .with("readonly", wish.readonly)
                .with("size", format!("{}x{}", wish.size.0, wish.size.1)),
        );
        if self.viewers.quiet.is_none() && self.has_agent_terminal() && self.screen.is_between() {
            self.viewers.quiet = Some(Quiet::default());
        }
        self.viewers.list.push(Entry {
            caller,
            id: id.clone(),
            peer,
            suspends: wish.suspend,
            viewer,
            canvas: Canvas::new(),
        });
        self.resize();
        Ok(Answer::Now(Body::Attach(AttachFrame::Attached(Attached {
            attached: true,
            session: self.session_id().to_owned(),
            readonly: wish.readonly,
            detach_key: self.detach_key().to_string(),
            rows: self.size.rows,
            cols: self.size.cols,
        }))))
    }

    fn detach_key(&self) -> Chord {
        match &self.charge {
            Charge::Run(session) => session.settings.detach_key,
            Charge::Init(_) => Chord::BACKSLASH,
        }
    }

    fn has_agent_terminal(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.terminal.is_some())
    }

    pub(super) fn resize_viewer(&mut self, caller: CallerId, size: Cells) -> Answered {
        let Some(entry) = self.viewers.list.iter_mut().find(|entry| entry.caller == caller) else {
            return refuse(Code::NotAttached, "`resize`, but this connection is not attached");
        };
        entry.viewer.resize(size);
        entry.canvas.resized();
        self.resize();
        Ok(Answer::Now(Body::Ack(Ack {})))
    }

    /// The connection goes on as any other's.
    pub(super) fn detach(&mut self, caller: CallerId) -> Answered {
        match self.leave(caller, "asked") {
            true => Ok(Answer::Now(Body::Ack(Ack {}))),
            false => refuse(Code::NotAttached, "`detach`, but this connection is not attached"),
        }
    }

    /// False when it was not attached.
    fn leave(&mut self, caller: CallerId, why: &str) -> bool {
        let Some(at) = self.viewers.list.iter().position(|entry| entry.caller == caller) else {
            return false;
        };
        let Entry { peer, viewer, .. } = self.viewers.list.remove(at);
        self.desk.forget_viewer(caller);
        if self.viewers.list.is_empty() {
            self.viewers.quiet = None;
        }
        if let Some(calls) = &mut self.calls {
            calls.server.detach(caller);
        }
        self.log.record(
            LogEvent::new(Name::Detached)
                .with("uid", peer.uid)
                .with("pid", peer.pid)
                .with("readonly", viewer.readonly)
                .with("why", why),
        );
        if self.ending.is_none() {
            self.resize();
        }
        true
    }

    /// All of the agent's output comes by here, and costs nothing while nobody is attached.
    pub(super) fn show_viewers(&mut self, bytes: &[u8]) {
        let (Some(calls), false) = (&mut self.calls, self.viewers.list.is_empty()) else { return };
        let room = viewers::room(self.viewers.list.len());
        // Who joins within a sequence that began before anybody listened is painted until it is over.
        let said = match &mut self.viewers.quiet {
            Some(quiet) => quiet.feed(bytes),
            None => {
                self.viewers.quiet = self.screen.is_between().then(Quiet::default);
                self.viewers.disturb();
                Vec::new()
            }
        };
        let frames = frame::encode_raw(&said, LONGEST_FRAME);
        for Entry { caller, viewer, .. } in &mut self.viewers.list {
            if viewer.on_output(frames.len(), queue(calls, *caller), room) {
                calls.server.send_raw(*caller, &frames);
            }
        }
    }

    pub(super) fn viewers_deadline(&self) -> Option<Instant> {
        let calls = self.calls.as_ref()?;
        let each = self.viewers.list.iter();
        each.filter_map(|entry| entry.viewer.deadline(queue(calls, entry.caller))).min()
    }

    /// After every turn.
    pub(super) fn serve_viewers(&mut self) {
        if self.viewers.list.is_empty() {
            return;
        }
        self.forget_gone_viewers();
        if !self.has_agent_terminal() && self.viewers.told != self.console.told_in_all() {
            self.viewers.disturb();
        }
        self.viewers.told = self.console.told_in_all();
        for caller in self.paint_viewers() {
            self.leave(caller, "too_slow");
            if let Some(calls) = &mut self.calls {
                calls.server.drop_caller(caller);
            }
        }
        let is_full =
            self.agent.as_ref().and_then(|a| a.terminal.as_ref()).is_some_and(|t| !t.input.has_room());
        let waits = is_full || self.desk.is_typing();
        if let Some(calls) = &mut self.calls {
            for entry in self.viewers.list.iter().filter(|entry| !entry.viewer.readonly) {
                calls.server.put_typing_off(entry.caller, waits);
            }
        }
        if self.ending.is_some() {
            self.tell_viewers_the_end();
        }
    }

    fn forget_gone_viewers(&mut self) {
        let Some(calls) = &self.calls else { return };
        let each = self.viewers.list.iter().map(|entry| entry.caller);
        let gone: Vec<CallerId> = each.filter(|caller| !calls.server.is_here(*caller)).collect();
        for caller in gone {
            self.leave(caller, "gone");
        }
    }

    /// Whoever is to see something new; those come back that have stopped reading.
    fn paint_viewers(&mut self) -> Vec<CallerId> {
        let now = Instant::now();
        let flows = self.has_agent_terminal() && self.viewers.quiet.as_ref().is_some_and(Quiet::is_between);
        let stage = Stage { size: (self.size.cols, self.size.rows), flows };
        let (mut stuck, mut painted) = (Vec::new(), Vec::new());
        let Some(calls) = &self.calls else { return stuck };
        for (n, entry) in self.viewers.list.iter_mut().enumerate() {
            match entry.viewer.next(queue(calls, entry.caller), stage, now) {
                Next::Nothing => {}
                Next::Drop => stuck.push(entry.caller),
                next @ (Next::Whole | Next::Frame { .. }) => painted.push((n, next)),
            }
        }
        self.paint(&painted);
        stuck
    }

    fn paint(&mut self, whom: &[(usize, Next)]) {
        if whom.is_empty() {
            return;
        }
        let (key, session) = (self.detach_key().title(), self.session_id().to_owned());
        let after = self.after_the_agent();
        let screen = after.as_ref().unwrap_or(&self.screen);
        let Some(calls) = &mut self.calls else { return };
        for (n, next) in whom {
            let Some(Entry { caller, viewer, canvas, .. }) = self.viewers.list.get_mut(*n) else { continue };
            let bytes = match next {
                Next::Whole => canvas.whole(screen),
                _ => {
                    let (cols, rows) = viewer.size();
                    let note = match viewer.readonly {
                        true => format!(" watching {session}, readonly: {key} twice or Ctrl-C leaves "),
                        false => format!(" attached to {session}: {key} twice detaches "),
                    };
                    let note = (*next == Next::Frame { note: true }).then_some(note.as_str());
                    canvas.frame(screen, (usize::from(cols), usize::from(rows)), note)
                }
            };
            calls.server.send_raw(*caller, &frame::encode_raw(&bytes, LONGEST_FRAME));
        }
    }

    /// While no agent runs: what a terminal shows that has seen the last one end.
    pub(super) fn after_the_agent(&self) -> Option<Screen> {
        let size = (self.size.cols, self.size.rows);
        let after = || self.screen.after_the_agent(size, &self.viewers.off, self.console.told());
        (!self.has_agent_terminal()).then(after)
    }

    /// One last picture, and that it was the last.
    fn tell_viewers_the_end(&mut self) {
        let last: Vec<(usize, Next)> =
            (0..self.viewers.list.len()).map(|n| (n, Next::Frame { note: false })).collect();
        self.paint(&last);
        while let Some(Entry { caller, id, .. }) = self.viewers.list.first() {
            let (caller, over) = (*caller, Body::Attach(AttachFrame::Over(Over { ended: true })));
            let reply = Reply::ok(id.clone(), over);
            if let Some(calls) = &mut self.calls {
                calls.server.reply(caller, &reply);
            }
            self.leave(caller, "ended");
        }
    }

    pub(super) fn on_viewer_typed(&mut self, caller: CallerId, bytes: &[u8]) {
        let Some(entry) = self.viewers.list.iter().find(|entry| entry.caller == caller) else { return };
        if entry.viewer.readonly || bytes.is_empty() {
            return;
        }
        let (suspends, peer) = (entry.suspends, entry.peer);
        if !self.has_agent_terminal() {
            return self.on_viewer_choice(bytes, peer);
        }
        let (rest, presses) = Chord::SUSPEND.taken_out_of(bytes);
        let suspended = presses > 0 && self.agent.as_ref().is_some_and(|agent| agent.would_suspend());
        match (suspended, suspends) {
            (true, true) => {
                self.on_operator(Hand::Viewer(caller), &rest);
                self.suspend_viewer(caller);
            }
            (true, false) => {
                self.on_operator(Hand::Viewer(caller), bytes);
                self.suspending.get_or_insert_with(Suspending::elsewhere);
            }
            (false, _) => self.on_operator(Hand::Viewer(caller), bytes),
        }
    }

    fn suspend_viewer(&mut self, caller: CallerId) {
        let entry = self.viewers.list.iter().find(|entry| entry.caller == caller);
        if let (Some(entry), Some(calls)) = (entry, &mut self.calls) {
            let suspend = Body::Attach(AttachFrame::Suspend(Suspend { suspend: true }));
            calls.server.reply(caller, &Reply::ok(entry.id.clone(), suspend));
        }
    }

    /// Keys while no agent runs. Not all that end a supervisor at its own terminal: whoever is attached
    /// leaves by detaching.
    fn on_viewer_choice(&mut self, bytes: &[u8], peer: Peer) {
        let (action, event) = match (bytes, self.life.phase()) {
            ([b'\r' | b'\n'], Phase::Waiting { .. } | Phase::Asking | Phase::Halted) => {
                ("restart", Event::Retry)
            }
            ([b'q' | b'Q'], Phase::Asking | Phase::Halted) => ("quit", Event::Quit),
            _ => return,
        };
        self.tell_action(action, peer);
        self.events.push_back(event);
    }
}
