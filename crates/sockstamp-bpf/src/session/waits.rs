//! The waits of a session: those that have ended, and those that are open.

use std::io;
use std::sync::atomic::{Ordering, fence};

use sockstamp_model::wait::{UnixWait, Wait, Waits};

use crate::error::{Error, Tried};
use crate::unix::Questions;
use crate::wait::Waiting;

use super::Session;
use super::open_waits::OpenWaits;

impl Session {
    pub(super) fn fetch_waits(&mut self) -> Result<(), Error> {
        let Some(waiting) = &mut self.waiting else {
            return Ok(());
        };
        let data = self.skeleton.maps.bss_data.as_ref();
        let added = data.map_or(0, |data| data.attempts_added + data.drops_added);
        // See in the maps what was added before.
        fence(Ordering::Acquire);
        if waiting.fetch(&self.skeleton.maps, added)? {
            self.drops_have_room();
        }
        Ok(())
    }

    /// Let the programs count packets that are dropped again: the map was emptied.
    fn drops_have_room(&mut self) {
        if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
            data.drops_full = false;
        }
    }

    /// Return the waits that have ended since the last call of this or of [`waits`](Self::waits).
    pub fn ended_waits(&mut self) -> Vec<Wait> {
        let waiting = self.waiting.as_mut();
        waiting.map_or_else(Vec::new, Waiting::take_ended)
    }

    /// Do the same for questions over Unix sockets.
    pub fn ended_unix_waits(&mut self) -> Vec<UnixWait> {
        let unix = self.unix.as_mut();
        unix.map_or_else(Vec::new, Questions::take_ended)
    }

    /// Look at Unix sockets, so that [`waits`](Self::waits) has what waits there and was not seen
    /// to begin: one look does not show it. This takes a tenth of a second at most.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn confirm_waits(&mut self) -> Result<(), Error> {
        let open = self.open_waits.as_mut();
        open.map_or(Ok(()), OpenWaits::confirm)
    }

    /// Return the waits that were fetched since this was called before, and were not taken.
    pub fn new_waits(&mut self) -> &[Wait] {
        self.waiting.as_mut().map_or(&[], Waiting::new_ones)
    }

    /// Return the waits that came since the last call, and those that are open, if
    /// [`Options::waits`] requested them.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    ///
    /// [`Options::waits`]: crate::Options::waits
    pub fn waits(&mut self) -> Result<Waits, Error> {
        self.fetch_waits()?;
        let counted = self.skeleton.maps.bss_data.as_ref();
        let (lost, untold, untold_drops) = counted.map_or((0, 0, 0), |data| {
            (data.waits_lost, data.attempts_untold, data.drops_untold)
        });
        let mut waits = match &mut self.waiting {
            Some(waiting) => waiting.take(&self.skeleton.maps, lost)?,
            None => Waits::default(),
        };
        self.drops_have_room();
        waits.older.extend(&self.older);
        waits.untold += untold;
        waits.untold_drops += untold_drops;
        let asked = self.unix.as_mut().map(|unix| unix.add_to(&mut waits));
        // Everything else is known without it, and without the look.
        if let Some(Err(error)) = asked {
            self.refusal.get_or_insert(error);
        }
        let followed = self.unix.iter().flat_map(Questions::followed).collect();
        let looked = self.open_waits.as_mut();
        let looked = looked.map(|open| open.add_to(&mut waits, &followed));
        if let Some(Err(error)) = looked {
            self.refusal.get_or_insert(error);
        }
        Ok(waits)
    }

    /// Look at questions over Unix sockets, if it is time; without them, all else goes on.
    pub(super) fn look_at_unix(&mut self) {
        if let Some(Err(error)) = self.unix.as_mut().map(Questions::run) {
            self.refusal.get_or_insert(error);
        }
        if let Err(error) = self.count_unix() {
            self.refusal.get_or_insert(error);
        }
    }

    /// Count what the programs for Unix sockets cost, while there are some.
    pub(super) fn count_unix(&mut self) -> Result<(), Error> {
        let changed = self.unix.as_mut().map(Questions::take_changed);
        let Some(programs) = changed.transpose()?.flatten() else {
            return Ok(());
        };
        if let Some(cost) = &mut self.cost {
            let programs = programs.iter().map(|(_, program)| program.try_clone());
            let programs: io::Result<_> = programs.collect();
            cost.sample_too(programs.tried("keep the programs open")?);
        }
        self.passing = programs;
        Ok(())
    }

    /// Do the same as [`new_waits`](Self::new_waits) for questions over Unix sockets.
    pub fn new_unix_waits(&mut self) -> &[UnixWait] {
        self.unix.as_mut().map_or(&[], Questions::new_ones)
    }

    /// Look at the sockets of the target, so that a later look shows what has not moved since;
    /// return the slow waits that are open, if waits were requested.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn look(&mut self) -> Result<Vec<Wait>, Error> {
        let open = self.open_waits.as_mut().map(OpenWaits::look);
        open.unwrap_or(Ok(Vec::new()))
    }
}
