//! Report the stamping features of a network interface.

use std::ffi::CStr;

use sockstamp::interface::capabilities;

use crate::boundary::{Errno, Result};
use crate::header::{
    SOCKSTAMP_RX_HARDWARE, SOCKSTAMP_RX_SOFTWARE, SOCKSTAMP_TX_HARDWARE, SOCKSTAMP_TX_SOFTWARE,
    sockstamp_interface,
};

pub(crate) fn query(name: &CStr) -> Result<sockstamp_interface> {
    let able = capabilities(name.to_str().map_err(|_| Errno::INVALID)?)?;
    let stamps = [
        (able.tx_software, SOCKSTAMP_TX_SOFTWARE),
        (able.tx_hardware, SOCKSTAMP_TX_HARDWARE),
        (able.rx_software, SOCKSTAMP_RX_SOFTWARE),
        (able.rx_hardware, SOCKSTAMP_RX_HARDWARE),
    ];
    Ok(sockstamp_interface {
        stamps: stamps
            .into_iter()
            .filter_map(|(able, flag)| able.then_some(flag))
            .sum(),
        phc_index: able
            .phc_index
            .map_or(-1, |index| i32::try_from(index).unwrap_or(-1)),
    })
}
