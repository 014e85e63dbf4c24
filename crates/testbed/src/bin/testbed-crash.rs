//! Act as a separate process for the tests of `testbed`: leave resources behind, or run in a cgroup
//! that is removed.

use std::error::Error;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testbed::{Cgroup, Host, Link, LinkConfig, Process};

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("leave-things-behind") => leave_things_behind(),
        Some("join-a-cgroup-and-drop-it") => join_a_cgroup_and_drop_it(),
        _ => Err("testbed-crash leave-things-behind | join-a-cgroup-and-drop-it".into()),
    }
}

/// Make one of each thing, print what, and wait to be killed.
fn leave_things_behind() -> Result<(), Box<dyn Error>> {
    let (a, b) = (Host::new("left-a")?, Host::new("left-b")?);
    let link = Link::relay(&a, &b, LinkConfig::default())?;
    let mut cgroup = Cgroup::new("left")?;
    cgroup.set_cpu_quota(Duration::from_millis(50), Duration::from_millis(100))?;
    let inside = a.spawn("sleep", &["600"])?;
    let mut command = Command::new("sleep");
    command.arg("600");
    cgroup.start_in(&mut command)?;
    let grouped = Process::spawn(command)?;
    println!(
        "left {} {} {} {}",
        a.netns_name(),
        cgroup.path().display(),
        inside.id(),
        grouped.id()
    );
    println!("ready");
    thread::sleep(Duration::from_secs(600));
    drop(link);
    Ok(())
}

/// A cgroup takes its processes along, but not the one that drops it.
fn join_a_cgroup_and_drop_it() -> Result<(), Box<dyn Error>> {
    let cgroup = Cgroup::new("own")?;
    cgroup.add(std::process::id())?;
    assert_eq!(cgroup.processes(), [std::process::id()]);
    let path = cgroup.path().to_owned();
    drop(cgroup);
    assert!(!path.exists());
    println!("survived");
    Ok(())
}
