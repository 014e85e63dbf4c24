use std::fs;
use std::path::Path;

use crate::error::{Context, Error, Result};
use crate::host::Host;
use crate::process;

/// The module of kernel/lab/nic, which guests of the lab have where it was built for their kernel.
const MODULE: &str = "/lab/nic/sockstamp_nic.ko";
const NAME: &str = "sockstamp_nic";

/// Two hosts, and between them two NICs that stamp packets by one clock. What they do to packets is
/// known.
#[derive(Debug)]
pub struct NicPair {
    /// The hosts, with [`DEVICES`](Self::DEVICES) and [`ADDRESSES`](Self::ADDRESSES).
    pub hosts: [Host; 2],
    _module: Module,
}

/// A NIC's own knowledge of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicTruth {
    /// The kernel's stamp of it, or the time at which the driver had it, by CLOCK_REALTIME.
    pub software_ns: u64,
    /// The time for which it was in the NIC: before the kernel's stamp, or after the driver had it.
    pub waited_ns: u64,
    /// Bytes without the header of Ethernet.
    pub bytes: u64,
}

impl NicPair {
    /// The devices.
    pub const DEVICES: [&str; 2] = ["nic0", "nic1"];
    /// The addresses of the devices.
    pub const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

    /// Load the devices with these parameters of the module; `None` where there is no module.
    pub fn load(parameters: &[&str]) -> Result<Option<NicPair>> {
        if !Path::new(MODULE).exists() {
            return Ok(None);
        }
        process::run_with("insmod", &[&[MODULE], parameters].concat())?;
        let module = Module;
        let hosts = [Host::new("client")?, Host::new("server")?];
        for ((host, device), address) in hosts.iter().zip(Self::DEVICES).zip(Self::ADDRESSES) {
            process::ip(&format!("link set {device} netns {}", host.netns_name()))?;
            let address = format!("{address}/24");
            host.run("ip", &["address", "add", &address, "dev", device])?;
            host.run("ip", &["link", "set", device, "up"])?;
        }
        Ok(Some(NicPair {
            hosts,
            _module: module,
        }))
    }

    /// Write a parameter of the module.
    pub fn set(&self, parameter: &str, value: &str) -> Result<()> {
        let path = format!("/sys/module/{NAME}/parameters/{parameter}");
        fs::write(&path, value).context("write", path)
    }

    /// The stamps of the last packets that were received.
    pub fn received(&self) -> Result<Vec<NicTruth>> {
        truths("/sys/kernel/debug/sockstamp_nic")
    }

    /// The stamps of the last packets that were sent.
    pub fn sent(&self) -> Result<Vec<NicTruth>> {
        truths("/sys/kernel/debug/sockstamp_nic_sent")
    }
}

fn truths(path: &str) -> Result<Vec<NicTruth>> {
    let text = fs::read_to_string(path).context("read", path)?;
    let truth = |line: &str| {
        let numbers = line.split(' ').map(|number| number.parse().ok());
        let numbers: Option<Vec<u64>> = numbers.collect();
        let [software_ns, waited_ns, bytes] = numbers?.try_into().ok()?;
        Some(NicTruth {
            software_ns,
            waited_ns,
            bytes,
        })
    };
    let truths: Option<Vec<NicTruth>> = text.lines().map(truth).collect();
    truths.ok_or(Error::Missing(
        "a module of this tree, to tell what it knows",
    ))
}

/// The devices are removed with it, wherever they are.
#[derive(Debug)]
struct Module;

impl Drop for Module {
    fn drop(&mut self) {
        // A failure cannot be helped.
        let _ = process::run_with("rmmod", &[NAME]);
    }
}
