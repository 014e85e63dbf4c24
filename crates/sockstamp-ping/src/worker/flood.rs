//! Send what is due. A flood does not wait for anything between a probe and the next if the answer
//! is there at once, as from this host.

use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::inbox::Inbox;
use super::{PORT, Worker};
use crate::clocks::now;
use crate::{Error, Result, TargetId};

/// Probes of a flood in a row. Their stamps are read together, a few system calls for all, and
/// commands and timers have their turn.
const ROUNDS: usize = 48;

/// A socket, by its lane and its index there.
type Place = (u32, usize);

impl Worker {
    pub(super) fn send_due(&mut self, inbox: &mut Inbox) -> Result<()> {
        while let Some(id) = self.schedule.next_to_send(now()) {
            self.send(id)?;
            let target = self.targets.get(&id);
            if target.is_some_and(|target| target.settings.flood) {
                return self.flood(id, inbox);
            }
        }
        Ok(())
    }

    /// Send the next probe of a flood as long as the answer to the last one is there. Its stamps
    /// are not needed for that.
    fn flood(&mut self, id: TargetId, inbox: &mut Inbox) -> Result<()> {
        let Some(place) = self.place(id) else {
            return Ok(());
        };
        if !self.look_for_answer(place, inbox) {
            return Ok(());
        }
        // Three reports of each probe to epoll cost a tenth of it.
        self.forget_in_epoll(place)?;
        let mut rounds = 1;
        while rounds < ROUNDS
            && let Some(next) = self.schedule.next_to_send(now())
        {
            rounds += 1;
            self.send(next)?;
            let answered = self.place(next);
            if answered.is_none_or(|next| !self.look_for_answer(next, inbox)) {
                break;
            }
        }
        self.add_to_epoll(place)
    }

    /// Return the socket of a target's last probe.
    fn place(&self, id: TargetId) -> Option<Place> {
        let known = self.destinations.get(&self.targets.get(&id)?.destination)?;
        let last = known.flights.next() - 1;
        let index = self.lanes.get(&known.lane)?.port_of(last);
        Some((known.lane, index))
    }

    /// Take a packet that has come, if any.
    fn look_for_answer(&mut self, (number, index): Place, inbox: &mut Inbox) -> bool {
        let lane = self.lanes.get(&number);
        let Some(port) = lane.and_then(|lane| lane.ports.get(index)) else {
            return false;
        };
        let Some(incoming) = inbox.receive_one(port) else {
            return false;
        };
        self.packet_came(number, index, &incoming);
        true
    }

    fn forget_in_epoll(&self, (number, index): Place) -> Result<()> {
        let lane = self.lanes.get(&number);
        let Some(port) = lane.and_then(|lane| lane.ports.get(index)) else {
            return Ok(());
        };
        self.epoll
            .delete(port)
            .map_err(Error::call("epoll_ctl", "a lane"))
    }

    /// Have epoll report when there is something to be read from a socket, as there may be already.
    pub(super) fn add_to_epoll(&self, (number, index): Place) -> Result<()> {
        let lane = self.lanes.get(&number);
        let Some(port) = lane.and_then(|lane| lane.ports.get(index)) else {
            return Ok(());
        };
        let token = u64::from(number) << PORT | index as u64;
        self.epoll
            .add(port, EpollEvent::new(EpollFlags::EPOLLIN, token))
            .map_err(Error::call("epoll_ctl", "a lane"))
    }

    /// A probe has been answered, or has failed: a flood sends the next.
    pub(super) fn follow(&mut self, id: TargetId) {
        if let Some(target) = self.targets.get(&id)
            && target.settings.flood
        {
            let earliest = target.last + target.settings.closest.into();
            self.schedule.follow(id, earliest, now());
        }
    }
}
