//! Waits that no data ended, as `report` lists them and as SQL sums them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie};
use sockstamp_model::wait::{End, Evidence, Kind, Wait};
use sockstamp_record::{WaitRows, WaitWriter, Waited};
use with::recording::BEGIN;

use crate::answers::figure;

/// Connections in an accept queue: a row of a listener stands for all of them.
const QUEUED: u32 = 3;

/// Write waits of each kind and end, one to three of them.
pub fn write(path: &Path) {
    let mut writer = WaitWriter::create(path, &[]).unwrap();
    let mut batch = WaitRows::default();
    let ends = Kind::ALL.into_iter().flat_map(|kind| {
        let of_kind = move |(end, count)| (kind, end, count);
        End::ALL.into_iter().zip((1..=3).cycle()).map(of_kind)
    });
    let waits = ends.flat_map(|(kind, end, count)| (0..count).map(move |_| (kind, end)));
    (0..).zip(waits).for_each(|(number, (kind, end))| {
        batch.push(Waited {
            time: Timestamp::from_nanos(BEGIN + number),
            wait: wait(number, kind, end),
            unix: None,
        });
    });
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

fn wait(number: u64, kind: Kind, end: End) -> Wait {
    let lasted = Nanos(10_000_000 + number * 1_000_000);
    Wait {
        kind,
        flow: Flow {
            netns: NetnsInode(7),
            protocol: Protocol::Tcp,
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5432).into(),
            cookie: SocketCookie(number + 1),
        },
        opened: None,
        cgroup: CgroupId(0),
        pid: 9,
        comm: "psql".into(),
        since: Timestamp::from_nanos(1_000_000_000),
        lasted,
        inside: lasted,
        end,
        members: if kind == Kind::Accept { QUEUED } else { 1 },
        bytes: 12,
        evidence: Evidence::default(),
    }
}

/// The number of waits, and the longest in nanoseconds.
type Sums = BTreeMap<[String; 4], (f64, f64)>;

/// Sum the waits of a report.
pub fn reported(report: &Value) -> Sums {
    let mut sums = Sums::new();
    let in_vain = report["waits"].as_array().unwrap().iter();
    for wait in in_vain.filter(|wait| wait["end"] != "data") {
        let names = ["comm", "kind", "end", "remote"].map(|key| text(&wait[key]));
        let members = match wait["kind"] == Kind::Accept.name() {
            true => QUEUED.into(),
            false => 1.0,
        };
        let (count, longest) = sums.entry(names).or_default();
        *count += members;
        *longest = longest.max(figure(&wait["lasted_ns"]));
    }
    sums
}

/// Return the sums of a table.
pub fn asked(table: &[Value]) -> Sums {
    let sums = table.iter().map(|row| {
        let [comm, kind, end, address] =
            ["comm", "kind", "ended", "remote_address"].map(|key| text(&row[key]));
        let remote = format!("{address}:{}", row["remote_port"]);
        let longest = (figure(&row["longest_ms"]) * 1e6).round();
        ([comm, kind, end, remote], (figure(&row["waits"]), longest))
    });
    sums.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
