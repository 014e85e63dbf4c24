//! Keep the state of the view, and how keys, counters and messages change it. It knows neither
//! terminal nor kernel.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sockstamp_bpf::stuck::Look;
use sockstamp_explain::diagnosis::{Diagnosis, Finding};
use sockstamp_model::Flow;
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{GroupKey, Grouping};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;

use super::drill::{Drill, Numbered};
use super::table::{self, Key, Order, Row, Shown, Snapshot};

/// The level of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Groups,
    /// The flows of a group.
    Flows,
    /// The last messages of a flow.
    Messages(Flow),
}

/// The overlay over the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Help,
    /// Findings, and verdicts and losses with their meaning.
    Counters,
    /// Everything that waits now.
    Waits,
}

/// The period that the table covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// Between the last two looks.
    Interval,
    Start,
}

/// The order of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageOrder {
    Newest,
    Slowest,
}

/// The action that a key requires of the rest of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Suspend, as by Ctrl-Z.
    Suspend,
    /// Redraw, because the terminal may show foreign output.
    Redraw,
    /// Read the counters at once: an interval must start here.
    Refresh,
    /// Count in other groups.
    Regroup,
}

/// Rows that a page key skips, and a step of the mouse's wheel.
const PAGE: isize = 10;
const STEP: isize = 3;
/// The limits of `--interval`.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);
/// The groupings that a key leads to, after that of `--by`.
const GROUPINGS: [&str; 5] = ["comm,port", "peer,port", "pid,comm", "container", "netns"];

#[derive(Debug)]
pub(super) struct App {
    pub(super) interval: Duration,
    pub(super) by: Grouping,
    /// Messages that take longer are marked.
    pub(super) slow: Nanos,
    pub(super) view: View,
    pub(super) page: Option<Page>,
    /// Lines of the page above the screen; drawing bounds it.
    pub(super) scroll: Cell<usize>,
    pub(super) window: Window,
    pub(super) shown: Shown,
    pub(super) order: Order,
    pub(super) reversed: bool,
    pub(super) message_order: MessageOrder,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) editing: bool,
    pub(super) paused: bool,
    /// The reason why the last key had no effect.
    pub(super) notice: Option<&'static str>,
    /// The next look starts an interval, and ends none.
    aligning: bool,
    /// The last look, also while paused.
    latest: Option<Rc<Snapshot>>,
    /// The snapshot on the screen.
    now: Option<Rc<Snapshot>>,
    earlier: Option<Rc<Snapshot>>,
    groups: Vec<Row>,
    drill: Option<Drill>,
    group: Option<Key>,
    flow: Option<Key>,
    message: Option<u64>,
    /// Open waits, while their page is shown.
    look: Option<Look>,
    /// Where time is lost, while its page is shown.
    diagnosis: Option<Diagnosis>,
}

impl App {
    pub(super) fn new(by: Grouping, interval: Duration, slow: Nanos) -> Self {
        Self {
            interval,
            by,
            slow,
            view: View::Groups,
            page: None,
            scroll: Cell::new(0),
            window: Window::Interval,
            shown: Shown::P99,
            order: Order::Time,
            reversed: false,
            message_order: MessageOrder::Newest,
            filter: String::new(),
            editing: false,
            paused: false,
            notice: None,
            aligning: false,
            latest: None,
            now: None,
            earlier: None,
            groups: Vec::new(),
            drill: None,
            group: None,
            flow: None,
            message: None,
            look: None,
            diagnosis: None,
        }
    }

    /// Return true if the page shows what has not been looked at yet.
    pub(super) fn lacks_page(&self) -> bool {
        match self.page {
            Some(Page::Waits) => self.look.is_none(),
            Some(Page::Counters) => self.diagnosis.is_none() && self.now.is_some(),
            Some(Page::Help) | None => false,
        }
    }

    /// A new look at what waits.
    pub(super) fn on_look(&mut self, look: Look) {
        if !self.paused || self.look.is_none() {
            self.look = Some(look);
        }
    }

    /// New findings.
    pub(super) fn on_diagnosis(&mut self, diagnosis: Diagnosis) {
        if !self.paused || self.diagnosis.is_none() {
            self.diagnosis = Some(diagnosis);
        }
    }

    pub(super) fn look(&self) -> Option<&Look> {
        self.look.as_ref()
    }

    /// Return the findings of the selected group, or all if none is selected.
    pub(super) fn findings(&self) -> Vec<&Finding> {
        let all = self.diagnosis.iter().flat_map(|found| &found.findings);
        match &self.group {
            Some(Key::Group(group)) => all.filter(|finding| is_of(finding, group)).collect(),
            _ => all.collect(),
        }
    }

    /// Return the notes of the diagnosis; they are of no group.
    pub(super) fn notes(&self) -> &[String] {
        self.diagnosis.as_ref().map_or(&[], |found| &found.notes)
    }

    /// Show a page, or the view again; what it shows is looked at anew.
    fn turn_to(&mut self, page: Option<Page>) {
        (self.page, self.look, self.diagnosis) = (page, None, None);
        self.scroll.set(0);
    }

    /// A new reading of the counters.
    pub(super) fn on_snapshot(&mut self, snapshot: Snapshot) {
        let snapshot = Rc::new(snapshot);
        let earlier = self.latest.replace(Rc::clone(&snapshot));
        if self.paused || std::mem::take(&mut self.aligning) {
            return;
        }
        if let Some(drill) = &mut self.drill {
            drill.turn(table::elapsed(earlier.as_deref(), &snapshot));
        }
        self.earlier = earlier;
        self.now = Some(snapshot);
        self.compare();
    }

    /// A recorded message; they come while [`wants_messages`](Self::wants_messages).
    pub(super) fn on_message(&mut self, group: &GroupKey, message: Message) {
        if let (false, Some(drill)) = (self.paused, &mut self.drill) {
            drill.add(group, message);
        }
    }

    /// Return true while messages are listed, or findings are made of the slow ones.
    pub(super) fn wants_messages(&self) -> bool {
        self.drill.is_some() || self.page == Some(Page::Counters)
    }

    fn compare(&mut self) {
        if let Some(now) = &self.now {
            self.groups = table::rows(self.before(), now);
        }
    }

    /// Return the snapshot that the figures are relative to.
    pub(super) fn before(&self) -> Option<&Snapshot> {
        match self.window {
            Window::Interval => self.earlier.as_deref(),
            Window::Start => None,
        }
    }

    pub(super) fn now(&self) -> Option<&Snapshot> {
        self.now.as_deref()
    }

    pub(super) fn summary(&self) -> Option<&Summary> {
        self.now.as_deref().map(|now| &now.summary)
    }

    pub(super) fn drill(&self) -> Option<&Drill> {
        self.drill.as_ref()
    }

    /// The stages that this host can give, in the order of a message's way.
    pub(super) fn stages(&self) -> Vec<Stage> {
        let absent = |stage| {
            self.summary()
                .is_some_and(|summary| summary.absent.contains_key(&stage))
        };
        Stage::ALL
            .into_iter()
            .filter(|&stage| !stage.is_between_hosts() && !absent(stage))
            .collect()
    }

    /// The table, filtered and in order. The rest of the groups is last in any order, and no filter
    /// hides it.
    pub(super) fn rows(&self) -> Vec<Row> {
        let all = match (&self.view, &self.drill) {
            (View::Groups, _) | (_, None) => self.groups.clone(),
            (_, Some(drill)) => drill.rows(),
        };
        let filter = self.filter.to_lowercase();
        let (mut named, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|row| !row.is_rest());
        named.retain(|row| row.name.to_lowercase().contains(&filter));
        named.sort_by(|a, b| {
            let order = self.order.compare(self.shown, a, b);
            if self.reversed {
                order.reverse()
            } else {
                order
            }
        });
        named.extend(rest);
        named
    }

    /// The messages of the flow, in order.
    pub(super) fn messages(&self) -> Vec<&Numbered> {
        let (View::Messages(flow), Some(drill)) = (&self.view, &self.drill) else {
            return Vec::new();
        };
        let mut messages: Vec<_> = drill.messages(flow).collect();
        if self.message_order == MessageOrder::Slowest {
            messages.sort_by_key(|entry| std::cmp::Reverse(entry.message.total()));
        }
        messages
    }

    /// Return the position of the cursor among the rows or messages.
    pub(super) fn cursor(&self) -> usize {
        let place = match self.view {
            View::Groups => self.place(self.group.as_ref()),
            View::Flows => self.place(self.flow.as_ref()),
            View::Messages(_) => {
                let of = |entry: &&Numbered| Some(entry.number) == self.message;
                self.messages().iter().position(of)
            }
        };
        place.unwrap_or(0)
    }

    fn place(&self, key: Option<&Key>) -> Option<usize> {
        let key = key?;
        self.rows().iter().position(|row| row.key == *key)
    }

    pub(super) fn on_key(&mut self, key: KeyEvent) -> Action {
        self.notice = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => Action::Quit,
            KeyCode::Char('z') if control => Action::Suspend,
            KeyCode::Char('l') if control => Action::Redraw,
            _ if control => Action::Nothing,
            code if self.editing => self.edit(code),
            code if self.page.is_some() => self.on_page(code),
            code => self.on_table(code),
        }
    }

    fn edit(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.editing = false;
            }
            _ => {}
        }
        Action::Nothing
    }

    /// Any key but those that scroll and those for another page leads back.
    fn on_page(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') | KeyCode::F(10) => return Action::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.scroll_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_by(1),
            KeyCode::PageUp => self.scroll_by(-PAGE),
            KeyCode::PageDown => self.scroll_by(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.scroll.set(0),
            KeyCode::End | KeyCode::Char('G') => self.scroll.set(usize::MAX),
            KeyCode::Char('?' | 'h') if self.page != Some(Page::Help) => {
                self.turn_to(Some(Page::Help))
            }
            KeyCode::Char('v') if self.page != Some(Page::Counters) => {
                self.turn_to(Some(Page::Counters))
            }
            KeyCode::Char('W') if self.page != Some(Page::Waits) => self.turn_to(Some(Page::Waits)),
            _ => self.turn_to(None),
        }
        Action::Nothing
    }

    fn on_table(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') | KeyCode::F(10) => return Action::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.turn_to(Some(Page::Help)),
            KeyCode::Char('v') => self.turn_to(Some(Page::Counters)),
            KeyCode::Char('W') => self.turn_to(Some(Page::Waits)),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-PAGE),
            KeyCode::PageDown => self.go(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.unselect(),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX),
            KeyCode::Enter | KeyCode::Right => return self.drill_down(),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => self.back(),
            KeyCode::Char('s' | '>') | KeyCode::F(6) => self.next_order(1),
            KeyCode::Char('S' | '<') => self.next_order(-1),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('p') => self.shown = self.shown.next(),
            KeyCode::Char('w') => self.other_window(),
            KeyCode::Char(' ') => return self.pause(),
            KeyCode::Char('/') | KeyCode::F(3 | 4) => self.start_filter(),
            KeyCode::Char('+') => return self.set_interval(self.interval * 2),
            KeyCode::Char('-') => return self.set_interval(self.interval / 2),
            KeyCode::Char('b') if self.view == View::Groups => return self.next_grouping(),
            _ => self.notice = Some("no such key; ? lists them"),
        }
        Action::Nothing
    }

    /// A step of the mouse's wheel, down or up.
    pub(super) fn on_wheel(&mut self, down: bool) {
        let by = if down { STEP } else { -STEP };
        match self.page {
            Some(_) => self.scroll_by(by),
            None => self.go(by),
        }
    }

    fn scroll_by(&self, by: isize) {
        self.scroll.set(self.scroll.get().saturating_add_signed(by));
    }

    fn set_interval(&mut self, interval: Duration) -> Action {
        self.interval = interval.clamp(SHORTEST, LONGEST);
        Action::Refresh
    }

    fn next_grouping(&mut self) -> Action {
        let all = GROUPINGS.iter().filter_map(|names| names.parse().ok());
        let all: Vec<Grouping> = all.collect();
        let place = all.iter().position(|one| *one == self.by);
        let next = place.map_or(0, |place| (place + 1) % all.len());
        self.by = all[next].clone();
        (self.latest, self.now, self.earlier) = (None, None, None);
        (self.group, self.groups) = (None, Vec::new());
        Action::Regroup
    }

    fn go(&mut self, by: isize) {
        let place = self.cursor().saturating_add_signed(by);
        if matches!(self.view, View::Messages(_)) {
            let messages = self.messages();
            let entry = messages.get(place).or(messages.last());
            self.message = entry.map(|entry| entry.number);
            return;
        }
        let rows = self.rows();
        let key = rows.get(place).or(rows.last()).map(|row| row.key.clone());
        *self.selected() = key;
    }

    fn selected(&mut self) -> &mut Option<Key> {
        match self.view {
            View::Groups => &mut self.group,
            View::Flows | View::Messages(_) => &mut self.flow,
        }
    }

    /// Without a selection, the first row counts as selected, whichever it is.
    fn unselect(&mut self) {
        match self.view {
            View::Messages(_) => self.message = None,
            View::Groups | View::Flows => *self.selected() = None,
        }
    }

    fn drill_down(&mut self) -> Action {
        if matches!(self.view, View::Messages(_)) {
            return Action::Nothing;
        }
        let Some(row) = self.rows().into_iter().nth(self.cursor()) else {
            return Action::Nothing;
        };
        match row.key.clone() {
            Key::Group(key) => {
                self.group = Some(row.key);
                self.drill = Some(Drill::new(key, row.name));
                self.flow = None;
                self.filter.clear();
                self.view = View::Flows;
                self.paused = false;
                return self.align();
            }
            Key::Flow(flow) => {
                self.flow = Some(row.key);
                self.message = None;
                self.view = View::Messages(flow);
            }
            Key::Ended => self.notice = Some("these groups have ended: no flows to show"),
        }
        Action::Nothing
    }

    fn align(&mut self) -> Action {
        self.aligning = true;
        Action::Refresh
    }

    fn back(&mut self) {
        match self.view {
            View::Groups => self.filter.clear(),
            View::Flows => {
                self.drill = None;
                self.filter.clear();
                self.view = View::Groups;
            }
            View::Messages(_) => self.view = View::Flows,
        }
    }

    fn next_order(&mut self, by: isize) {
        if matches!(self.view, View::Messages(_)) {
            self.message_order = match self.message_order {
                MessageOrder::Newest => MessageOrder::Slowest,
                MessageOrder::Slowest => MessageOrder::Newest,
            };
            return;
        }
        let orders = Order::all(&self.stages());
        let place = orders
            .iter()
            .position(|&order| order == self.order)
            .unwrap_or(0);
        let back = orders.len() - 1;
        let next = place + if by < 0 { back } else { 1 };
        self.order = orders[next % orders.len()];
    }

    fn other_window(&mut self) {
        if self.view != View::Groups {
            self.notice = Some("flows are shown of the last interval only");
            return;
        }
        self.window = match self.window {
            Window::Interval => Window::Start,
            Window::Start => Window::Interval,
        };
        self.compare();
    }

    /// Hold the picture. Counting continues; the next reading is compared with the one before.
    fn pause(&mut self) -> Action {
        self.paused = !self.paused;
        if self.paused {
            return Action::Nothing;
        }
        if let Some(drill) = &mut self.drill {
            drill.restart();
        }
        self.align()
    }

    fn start_filter(&mut self) {
        if matches!(self.view, View::Messages(_)) {
            self.notice = Some("messages are not filtered");
        } else {
            self.editing = true;
        }
    }
}

/// Return true if a finding is about the programs and services of a group, as far as it tells.
fn is_of(finding: &Finding, group: &GroupKey) -> bool {
    let is_program = |comm: &Name| finding.programs.contains(comm);
    let is_port = |port: u16| finding.services.iter().any(|of| of.port() == port);
    group.comm.as_ref().is_none_or(is_program) && group.port.is_none_or(is_port)
}
