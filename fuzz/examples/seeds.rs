//! Write a corpus for each fuzz target: messages of the kernel and of the other side, in their
//! formats.
//!
//!     cargo run --no-default-features --example seeds -- FOLDER

use std::fs;
use std::path::Path;

use sockstamp::completions::area::layout;
use sockstamp::completions::protocol::{Refusal, Registered, Reply, Request, Status};
use sockstamp::control::{Arrival, Control, ExtendedError, Origin, PacketInfo, Stamps};
use sockstamp_fuzz::{attributes, written};
use sockstamp_model::clock::Timestamp;
use sockstamp_ping::fuzzing::{echo_request, syn};

fn main() {
    let folder = std::env::args().nth(1).expect("a folder to write to");
    let seeds = [
        ("cgroup_path", cgroup_paths()),
        ("completions_area", areas()),
        ("completions_protocol", protocol()),
        ("control_messages", entries()),
        ("error_reports", entries()),
        ("filter_expression", expressions()),
        ("probe_answers", answers()),
        ("recording", changes()),
        ("tcp_statistics", vec![statistics()]),
    ];
    for (target, inputs) in seeds {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder).expect("a folder for the seeds");
        for (number, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), input).expect("room for a seed");
        }
    }
}

/// Return one entry of each origin, for IPv4, IPv6 and no address, with all other control messages
/// that a socket can request.
fn entries() -> Vec<Vec<u8>> {
    let stamps = [(1, 0), (0, 2), (1, 2)].map(|(software, hardware)| {
        Control::Timestamping(Stamps {
            software: (software > 0).then(|| Timestamp::from_nanos(1_700_000_000_000_000_005)),
            hardware: (hardware > 0).then(|| Timestamp::from_nanos(2_000_000_006)),
        })
    });
    let statistics = statistics();
    let beside = [
        Control::Arrival(Arrival {
            interface: 2,
            destination: [192, 0, 2, 1].into(),
        }),
        Control::TrafficClass(1),
        Control::Segment(1200),
        Control::HopLimit(64),
        Control::TimestampingPacketInfo(PacketInfo {
            interface: 2,
            length: 1514,
        }),
        Control::TimestampingStatistics(&statistics),
    ];
    let stamped = stamps.map(|stamps| {
        written(
            &[
                &[stamps, error(Origin::Timestamping, 0, 2, 99)],
                &beside[..],
            ]
            .concat(),
        )
    });
    let others = [
        (Origin::ZeroCopy, 0, 0, 31),
        (Origin::ZeroCopy, 1, u32::MAX, 3),
        (Origin::Icmp, 4, 1400, 0),
        (Origin::Icmp6, 0, 1280, 0),
        (Origin::Local, 0, 1500, 0),
        (Origin::TxTime, 2, 1, 7),
    ];
    let others =
        others.map(|(origin, code, info, data)| written(&[error(origin, code, info, data)]));
    stamped.into_iter().chain(others).collect()
}

fn error(origin: Origin, code: u8, info: u32, data: u32) -> Control<'static> {
    Control::ExtendedError(ExtendedError {
        errno: 42,
        origin,
        kind: 3,
        code,
        info,
        data,
        offender: match origin {
            Origin::Icmp => Some([192, 0, 2, 1].into()),
            Origin::Icmp6 => Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()),
            _ => None,
        },
    })
}

/// All that Linux 6.18 gives, in its sizes.
fn statistics() -> Vec<u8> {
    let sizes = [
        (&[1, 2, 3, 4, 5, 6, 7, 18, 19, 25][..], 8),
        (&[8, 9, 10, 13, 15, 16, 17, 20, 21, 22, 24], 4),
        (&[23], 2),
        (&[11, 12, 14, 26], 1),
    ];
    let values = sizes
        .iter()
        .flat_map(|(kinds, size)| kinds.iter().map(|kind| (*kind, &[7; 8][..*size])));
    attributes(values)
}

/// Echoes and segments, as sockets of both IP versions give them.
fn answers() -> Vec<Vec<u8>> {
    const HEADER: [u8; 20] = [
        0x45, 0, 0, 84, 0, 0, 0x40, 0, 64, 1, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    ];
    let mut reply = echo_request(7, 8, 0x0102_0304_0506_0708, 56);
    reply[0] = 0;
    let [mut accepted, mut reset] = [(); 2].map(|()| syn(443, 40_000, 9, None));
    (accepted[13], reset[13]) = (0x12, 0x14);
    let bare = [reply, accepted, reset, syn(40_000, 443, 10, None)];
    let with_header = bare.clone().map(|packet| [&HEADER[..], &packet].concat());
    bare.into_iter().chain(with_header).collect()
}

/// Changes of recordings: none, of bytes at the begin, in the middle and at the end, and cuts.
fn changes() -> Vec<Vec<u8>> {
    let changes = [
        &[0][..],
        &[1],
        &[2, 0, 1, 0],
        &[3, 0, 2, 0],
        &[0, 0, 0, 0, 4, 0, 0, 0xff, 0, 1, 0, 0x7f],
        &[1, 0, 0, 0, 4, 0, 0, 0xff, 0, 1, 0, 0x7f],
        &[0, 0, 0, 0, 0, 0x10, 0, 0xff, 0xff, 0xff, 0xff, 0],
    ];
    changes.map(<[u8]>::to_vec).into()
}

fn protocol() -> Vec<Vec<u8>> {
    let requests = [
        Request::Join,
        Request::Register { stamps: true },
        Request::Release {
            slot: 7,
            registration: u64::MAX,
        },
        Request::Status,
    ];
    let replies = [
        Reply::Joined { sockets: 8 },
        Reply::Registered(Registered {
            slot: 1,
            stamps: true,
            registration: 2,
            ranges_written: 3,
            stamps_written: 4,
        }),
        Reply::Status(Status {
            applications: 5,
            sockets: 6,
            refused: 7,
            torn: 8,
            areas: 9,
        }),
        Reply::Refused(Refusal::TooManySockets),
    ];
    let requests = requests.map(|request| request.to_bytes().to_vec());
    requests
        .into_iter()
        .chain(replies.map(|reply| reply.to_bytes().to_vec()))
        .collect()
}

/// Return the readers' positions, then stores: of ranges and of stamps as the programs write them,
/// few and more than a ring has.
fn areas() -> Vec<Vec<u8>> {
    let ring = |counter: usize, first: usize, length: usize, count: u64| {
        (1..=count).flat_map(move |written| {
            let place = usize::try_from(written).expect("few") % length;
            [
                (first + 2 * place, written << 32 | written),
                (counter, written),
            ]
        })
    };
    [3, 300]
        .map(|count| {
            let ranges = ring(
                layout::RANGES_WRITTEN,
                layout::RANGES,
                layout::RANGES_LENGTH,
                count,
            );
            let stamps = ring(
                layout::STAMPS_WRITTEN,
                layout::STAMPS,
                layout::STAMPS_LENGTH,
                count,
            );
            let stores = ranges.chain(stamps).flat_map(|(place, value)| {
                let place = u16::try_from(place).expect("an area is small");
                [&place.to_le_bytes()[..], &value.to_le_bytes()].concat()
            });
            [0; 16].into_iter().chain(stores).collect()
        })
        .to_vec()
}

fn expressions() -> Vec<Vec<u8>> {
    [
        "tcp port 443 and net 10.0.0.0/8",
        "not (udp or src host 2001:db8::1) && dst portrange 1000-2000",
        "ip6 and src and dst port 53",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn cgroup_paths() -> Vec<Vec<u8>> {
    let id = "0123456789abcdef".repeat(4);
    [
        format!("/system.slice/docker-{id}.scope"),
        format!("/docker/{id}"),
        format!("/kubepods/burstable/pod1/{id}"),
        format!("/kubepods.slice/pod.slice:cri-containerd:{id}"),
        "/system.slice/nginx.service".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}
