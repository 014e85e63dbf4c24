//! The order in which the evidence of a measurement is given to its waits, and findings are made
//! of them: each pass relies on those before it.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::End;

use super::Case;
use super::counting::attempts_of;
use super::merging::{deepened, merged, varied};
use crate::diagnosis::connection::loss::Fates;
use crate::diagnosis::connection::{clocks, large, pace, queue, readers, unscaled};
use crate::diagnosis::descent::deepest;
use crate::diagnosis::finding::{Diagnosis, Finding};
use crate::diagnosis::host::{
    cpu, drops, flips, fragments, full, looks, lossy, rejected, resolving, theirs, unheard,
};
use crate::diagnosis::request::{
    announced, asking, away, first_words, flows, held, lookups, passed, pushes, services, steps,
    taking_turns, trips, turn, unasked, unserved, workers, yielding,
};
use crate::diagnosis::service_time::ServiceTime;
use crate::diagnosis::slow::{Key, Slow};
use crate::diagnosis::tally::Account;
use crate::diagnosis::telling;
use crate::diagnosis::telling::sums;
use crate::diagnosis::tree::Node;
use crate::diagnosis::worth::Support;

/// Slow waits with all their evidence.
struct Settled {
    waits: Vec<Slow>,
    /// Of each, whether it may be a subscription: what is pushed, and not asked for.
    open: Vec<bool>,
    /// Of each, the wait below it that carries its time.
    held: Vec<Option<usize>>,
    served: flows::Served,
    services: Vec<ServiceTime>,
}

type Accounts<'a> = BTreeMap<(Key, Option<End>), Account<'a>>;

impl Case {
    /// Find where time is lost.
    #[must_use]
    pub fn diagnose(&self, summary: &Summary) -> Diagnosis {
        let mut waits = self.waits.clone();
        waits.retain(|wait| {
            let flow = &wait.flow;
            !self
                .own_pairs
                .contains(&(flow.netns, flow.local, flow.remote))
                && !unserved::was_answered(wait)
        });
        for wait in &mut waits {
            wait.is_new &= !self.older.contains(&wait.flow.cookie);
        }
        away::settle(&mut waits, &self.tried, &self.sending);
        let mut notes = Vec::new();
        match self.scope.is_command {
            true => notes.extend(asking::pauses(&mut waits, &self.sends)),
            false => asking::keep_alike(&mut waits),
        }
        self.limit(&mut waits, summary);
        self.note(&mut waits);
        let settled = self.settle(waits);
        let (mut accounts, pushed) = self.counted(&settled, summary);
        notes.extend(pushed);
        self.compare(&mut accounts);
        let (findings, doubted) = self.findings(accounts, summary);
        notes.extend(doubted);
        notes.extend(sums::notes(summary));
        if self.left_out > 0 {
            let left_out = self.left_out;
            notes.push(format!(
                "{left_out} slow waits found no room and are in no finding"
            ));
        }
        if self.untold > 0 {
            let untold = self.untold;
            notes.push(format!(
                "{untold} counts of quick waits or of dropped packets found no room, and are held \
                 against nothing"
            ));
        }
        notes.extend(self.unix.notes());
        notes.extend(self.unseen.notes());
        notes.extend(looks::unseen(&self.hidden));
        let clients = drops::Clients::new(&self.sending, &self.waits, &self.dropped);
        let serves = |port| self.serves(port);
        notes.extend(drops::notes(&self.dropped, &clients, serves));
        Diagnosis {
            findings,
            notes,
            services: settled.services,
            ..Diagnosis::default()
        }
    }

    /// Give each wait what limits its connection.
    fn limit(&self, waits: &mut [Slow], summary: &Summary) {
        let fates = Fates::new(&self.sending, summary);
        let unanswered = Self::unanswered_of(waits);
        for wait in waits {
            self.limit_path(wait);
            self.limit_sending(wait);
            fates.turn(wait);
            wait.seen.in_vain = self.is_in_vain(wait, &unanswered);
        }
    }

    /// Give each wait what was seen of this host and its other connections.
    fn note(&self, waits: &mut Vec<Slow>) {
        let at_disks = self.at_disks();
        for wait in waits.iter_mut() {
            if at_disks.contains(&wait.pid) {
                wait.seen.disks = self.disks.0;
            }
            if wait.key.root == Node::Accept {
                wait.seen.descriptors = self.descriptors.get(&wait.pid).copied();
            }
        }
        lossy::give(waits, &self.links);
        drops::give(waits, &self.dropped, &self.sending);
        drops::give_translated(waits, &self.dropped);
        full::give(waits, &self.full_queues);
        rejected::give(waits, |peer| self.has_answered(peer));
        flips::note(waits, &self.flips);
        resolving::note(waits, &self.next_hops);
        fragments::give(waits, &self.fragments);
        unheard::give(waits, &self.neighbours, |peer| self.has_answered(peer));
        readers::add(waits, &self.sending);
        unscaled::give(waits, &self.sending, |wait| self.round_trip(wait));
        queue::give(waits, &self.sending, |wait| self.round_trip(wait));
        theirs::note(waits, &self.theirs);
        large::compare(waits, &self.sending);
        pace::set(waits, &self.sending);
    }

    /// Join the waits of one request, tell requests from what is pushed, divide what services
    /// take, and let waits yield to those below them.
    fn settle(&self, mut waits: Vec<Slow>) -> Settled {
        let transfers = steps::joined(&self.transfers, self.scope.slow);
        steps::replace(&mut waits, &transfers);
        lookups::join(&mut waits, self.scope.slow);
        trips::join(&mut waits, self.scope.slow);
        unasked::note(&mut waits, self.scope.slow);
        let rtt = |wait: &Slow| self.round_trip(wait);
        flows::join(&mut waits, self.scope, self.end, &self.sending, rtt);
        let mut open = flows::always_open(&waits);
        let quick = self.quick(&waits);
        flows::irregular(&waits, &mut open, &self.sending, &quick);
        pushes::mark(
            &mut waits,
            &mut open,
            &self.questions,
            self.scope.slow,
            &self.sending,
            self.end,
        );
        unasked::mark(&waits, &mut open);
        first_words::mark(&waits, &mut open, &self.older);
        announced::mark(&waits, &mut open, &self.tried, self.scope.slow);
        held::mark(&waits, &mut open, &quick);
        let in_time = self.in_time(&waits);
        passed::mark(
            &mut waits,
            &mut open,
            &self.sending,
            &in_time,
            self.scope.slow,
        );
        flows::work(&waits, &mut open);
        let served = flows::Served::new(&waits, &open);
        turn::divide(&mut waits, &served);
        let quick_times = self.quick_times(&waits);
        cpu::divide(&mut waits, &self.cpus, &quick_times);
        workers::divide(&mut waits, &open);
        looks::note(&mut waits, &open, &self.sleeps);
        held::idle(&waits, &mut open, &quick);
        held::by_clients(&mut waits, &mut open);
        held::for_all(&mut waits, &open, self.scope.slow);
        held::alike(&waits, &mut open, &quick);
        held::polls(&mut waits, &mut open, &quick);
        held::prompted(&mut waits, &mut open, &self.tried);
        clocks::mark(&mut waits, &mut open);
        unserved::settle(&mut waits, &mut open, &self.sending, &self.answering());
        taking_turns::mark(&mut waits, &mut open, &self.tried);
        let services = services::sum(&waits, &open, &served);
        let mut held = yielding::between(&waits);
        pace::waited_for(&mut waits, &held, &self.sending);
        let besides = yielding::throttled_besides(&waits, &held, self.scope.slow);
        waits.extend(besides);
        waits.extend(transfers);
        open.resize(waits.len(), false);
        held.resize(waits.len(), None);
        Settled {
            waits,
            open,
            held,
            served,
            services,
        }
    }

    /// Count what is lost by key, and note what may be pushed.
    fn counted<'a>(&self, settled: &'a Settled, summary: &Summary) -> (Accounts<'a>, Vec<String>) {
        let Settled { waits, served, .. } = settled;
        let asked = served.asked(waits);
        let mut accounts = Accounts::new();
        let mut pushed = BTreeMap::<Key, Vec<&Slow>>::new();
        for (of, wait) in waits.iter().enumerate() {
            if settled.held[of].is_some() {
                continue;
            }
            let is_asked = served.waits_for(wait) || asked.contains(&wait.key);
            let is_asked = is_asked && !wait.seen.for_news;
            let may_be_pushed = settled.open[of] && !self.scope.is_command && !is_asked;
            if may_be_pushed && !self.is_fault(wait) {
                pushed.entry(wait.key.clone()).or_default().push(wait);
                continue;
            }
            let Some(counted) = self.count(wait, summary) else {
                continue;
            };
            let failure = wait.is_failure().then_some(wait.how);
            let account = accounts.entry((wait.key.clone(), failure)).or_default();
            account.failure = failure;
            account.add(&wait.key, counted);
        }
        accounts.retain(|(key, _), account| {
            let Some(waits) = pushed.get_mut(key).filter(|_| account.may_be_pushed()) else {
                return true;
            };
            waits.extend(account.counted.iter().map(|counted| counted.wait));
            false
        });
        (accounts, notes_of(&pushed, summary.duration))
    }

    /// Hold each account against what was tried, and what was answered.
    fn compare(&self, accounts: &mut Accounts<'_>) {
        for ((key, _), account) in accounts {
            account.tried = match key.root {
                Node::AcceptAway | Node::AcceptRejected => away::tried(key, &self.tried),
                _ => self.tried.get(&attempts_of(key)).copied(),
            };
            account.try_again();
            account.answered = self.answered(key, account);
            account.answered_to_any = self.answered_to_any(key.service);
            account.asked = self.asked_meanwhile(key, account);
        }
    }

    /// Return what is worth a sentence, the worst of each service first, and notes of the rest.
    fn findings(&self, accounts: Accounts<'_>, summary: &Summary) -> (Vec<Finding>, Vec<String>) {
        let support = Support {
            scope: self.scope,
            duration: summary.duration,
        };
        let is_worth = |account: &Account<'_>| support.is_worth(account, summary);
        // Siblings that lose too little alone are not alike those that lose much; together they
        // may lose enough.
        let (much, little): (Vec<_>, Vec<_>) = accounts.into_values().partition(is_worth);
        let (little, rare): (Vec<_>, Vec<_>) = merged(little).into_iter().partition(is_worth);
        let worth = merged(much).into_iter().chain(little);
        let (mut findings, mut notes) = (Vec::new(), Vec::new());
        let mut vague = BTreeSet::new();
        for account in worth {
            let account = focused(account, is_worth);
            let siblings = self.siblings(&account);
            match telling::finding(&account, &siblings, summary) {
                Some(finding) if self.is_note(&account, &finding) => {
                    notes.push(telling::doubted(&account, &finding));
                }
                Some(finding) => match clocks::seldom_opens(&account, &finding) {
                    Some(percent) if !self.scope.is_command => {
                        notes.push(telling::seldom_opened(&finding, percent));
                    }
                    _ => {
                        if telling::is_vague(&account, &finding) {
                            vague.insert(finding.services.clone());
                        }
                        findings.push(finding);
                    }
                },
                None => {}
            }
        }
        let tails = rare
            .iter()
            .filter(|account| support.is_tail(account, summary));
        notes.extend(tails.filter_map(|account| telling::rare(account, summary)));
        findings.extend(sums::findings(summary, self.scope, &self.waits));
        let (own, paced) = self.tries.told(self.scope.slow, summary.duration);
        findings.extend(own);
        notes.extend(paced);
        let serves = |port| self.serves(port);
        let accepted = |port| self.accepted(port, summary);
        let late = drops::findings(&self.dropped, accepted, &findings, serves);
        findings.extend(late);
        let clients = drops::Clients::new(&self.sending, &self.waits, &self.dropped);
        let held_back = drops::held_back(&self.dropped, &clients, &findings, serves);
        findings.extend(held_back);
        let kept_out = drops::kept_out(&self.dropped, &findings, serves);
        findings.extend(kept_out);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.lost));
        (varied(deepened(findings, &vague)), notes)
    }
}

/// Return notes of what may be pushed, and of what may be asked now and then.
fn notes_of(pushed: &BTreeMap<Key, Vec<&Slow>>, duration: Nanos) -> Vec<String> {
    let (mut notes, mut rest) = (Vec::new(), Vec::new());
    for (key, waits) in pushed {
        let (ended, asked): (Vec<_>, Vec<_>) =
            waits.iter().partition(|wait| unserved::has_ended(wait));
        notes.extend(unserved::note(key, &ended));
        match telling::are_seldom(&asked, duration) {
            true => rest.extend(asked),
            false => notes.extend(telling::note(&asked, duration)),
        }
    }
    notes.extend(telling::seldom(&rest));
    notes
}

/// Return the waits that carry the deepest node, where they are worth a finding alone.
fn focused<'a>(account: Account<'a>, is_worth: impl Fn(&Account<'a>) -> bool) -> Account<'a> {
    account
        .root()
        .map(|root| deepest(&account.parts(), root).node)
        .and_then(|node| account.focused(node))
        .filter(is_worth)
        .unwrap_or(account)
}
