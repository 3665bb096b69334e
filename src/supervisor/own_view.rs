//! The terminal on stdin while the agent's has another size, because somebody is attached: the output
//! itself would garble it, so it gets frames that fit, like any viewer of another size.

use std::time::Instant;

use super::{Supervisor, views};
use crate::policy::viewers::{Cells, Next, Queue, Stage, Viewer};
use crate::screen::Queries;
use crate::screen::canvas::Canvas;

pub(super) struct OwnView {
    viewer: Viewer,
    canvas: Canvas,
    /// How many of our own lines have been written over it.
    told: u64,
}

impl OwnView {
    fn new((cols, rows): Cells) -> OwnView {
        let viewer = Viewer::new((cols, rows), true, false, Instant::now());
        OwnView { viewer, canvas: Canvas::at_hand(), told: 0 }
    }

    /// Nobody knows what it shows.
    pub(super) fn redraw(&mut self) {
        self.canvas.resized();
        self.viewer.disturb();
    }

    pub(super) fn on_output(&mut self) {
        self.viewer.on_output(0, Queue { unread: 0, taken: 0 }, 0);
    }

    pub(super) fn agent_began(&mut self) {
        self.canvas.begin();
        self.viewer.disturb();
    }
}

impl Supervisor {
    /// After the agent's size or our terminal's may have changed.
    pub(super) fn look_at_own_view(&mut self) {
        let (size, own) = ((self.size.cols, self.size.rows), self.console.shown_size());
        match (&mut self.own_view, own) {
            (None, Some(own)) if own != size => self.own_view = Some(OwnView::new(own)),
            (Some(view), Some(own)) => {
                view.viewer.resize(own);
                view.redraw();
            }
            (None, _) | (Some(_), None) => {}
        }
        self.choose_who_answers();
    }

    /// Whoever sees the questions.
    fn choose_who_answers(&mut self) {
        let queries = if self.own_view.is_some() { Queries::Us } else { views::queries(&self.console) };
        self.screen.answered_by(queries);
    }

    pub(super) fn own_view_deadline(&self) -> Option<Instant> {
        let unread = self.console.unread();
        self.own_view.as_ref().and_then(|view| view.viewer.deadline(Queue { unread, taken: 0 }))
    }

    /// After every turn.
    pub(super) fn serve_own_view(&mut self) {
        let Some(view) = &mut self.own_view else { return };
        if std::mem::replace(&mut view.told, self.console.told_in_all()) != self.console.told_in_all() {
            view.redraw();
        }
        let size = (self.size.cols, self.size.rows);
        let is_like_ours = self.console.shown_size().is_none_or(|own| own == size);
        let may_return = is_like_ours && (self.agent.is_none() || self.screen.is_between());
        let queue = Queue { unread: self.console.unread(), taken: 0 };
        let next = view.viewer.next(queue, Stage { size, flows: may_return }, Instant::now());
        if !matches!(next, Next::Frame { .. } | Next::Whole) {
            // It is nobody's connection: however long it does not read, it stays.
            return;
        }
        let (cols, rows) = view.viewer.size();
        let after = self.after_the_agent();
        let screen = after.as_ref().unwrap_or(&self.screen);
        let Some(view) = &mut self.own_view else { return };
        if next == Next::Whole {
            self.console.paint(&view.canvas.whole(screen));
            self.own_view = None;
            self.choose_who_answers();
        } else {
            let size = (usize::from(cols), usize::from(rows));
            self.console.paint(&view.canvas.frame(screen, size, None));
        }
    }
}
