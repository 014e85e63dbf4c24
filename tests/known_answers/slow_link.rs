//! curl sends requests to nginx over a link that takes 10 ms one way: all the time is the
//! network's.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, Process, within_attempts};
use with::expected::{median_within, ms, within};
use with::pair::REAL_TIME;
use with::{Stat, Trace, in_short, of_direction, over_both_families, stage};

over_both_families!(check);

const DELAY: Duration = Duration::from_millis(10);
const REQUESTS: u64 = 100;

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default().delay(DELAY)).unwrap();
    let address = SocketAddr::new(link.address_b(family), 80);
    let files = TempDir::new().unwrap();
    let _nginx = start_nginx(&server, address, files.path());
    within_attempts(|| {
        let before = link.statistics();
        measure(&client, &server, address)
            .map_err(|missed| format!("{missed}; the link: {:?}", link.statistics().since(&before)))
    });
}

/// With Debian's own settings for how it sends, see its nginx.conf.
fn start_nginx(host: &Host, address: SocketAddr, files: &Path) -> Process {
    let prefix = files.display();
    let configuration = format!(
        "daemon off; master_process off; pid {prefix}/pid; error_log stderr;
         events {{}}
         http {{
             access_log off; sendfile on; tcp_nopush on; keepalive_requests {REQUESTS}0;
             client_body_temp_path {prefix}/body; proxy_temp_path {prefix}/proxy;
             fastcgi_temp_path {prefix}/fastcgi; uwsgi_temp_path {prefix}/uwsgi; scgi_temp_path {prefix}/scgi;
             server {{ listen {address}; root {prefix}; }}
         }}"
    );
    let path = files.join("nginx.conf");
    fs::write(&path, configuration).unwrap();
    fs::write(files.join("page"), [b'.'; 600]).unwrap();
    let path = path.to_str().unwrap();
    let nginx = host
        .spawn(
            "chrt",
            &[
                &REAL_TIME[..],
                &["nginx", "-p", &prefix.to_string(), "-c", path],
            ]
            .concat(),
        )
        .unwrap();
    host.wait_for_port(address, PATIENCE)
        .unwrap_or_else(|error| panic!("{error}: {}", nginx.stderr()));
    nginx
}

fn measure(client: &Host, server: &Host, address: SocketAddr) -> Result<(), String> {
    let sides = [client, server].map(|host| {
        let target = ["--netns", host.netns_name()];
        (
            host.netns_name(),
            Stat::start(&target),
            Trace::start(&target),
        )
    });
    // curl keeps the connection for all of the range.
    let url = format!("http://{address}/page?[1-{REQUESTS}]");
    let curl = [
        "curl",
        "-sS",
        "--fail",
        "--noproxy",
        "*",
        "-o",
        "/dev/null",
        &url,
    ];
    client
        .run("chrt", &[&REAL_TIME[..], &curl[..]].concat())
        .unwrap();
    for (name, stat, trace) in sides {
        let (messages, report) = (trace.finish(), stat.finish());
        println!("{name}: {}", in_short(&report));
        all_in_the_network(&messages, &report).map_err(|missed| format!("{name}: {missed}"))?;
    }
    Ok(())
}

fn all_in_the_network(messages: &[Value], report: &Value) -> Result<(), String> {
    let sent = of_direction(messages, "tx");
    // nginx sends a response in two calls: the head, and the page by sendfile.
    assert!(sent.len() as u64 >= REQUESTS, "{report}");
    assert_eq!(sent.len() as u64, stage(report, "tx.network", "count"));
    // The link loses nothing: TCP probes where ACKs are late.
    if report["tx"]["retransmits"] != 0 {
        return Err(format!("segments were sent again: {report}"));
    }
    median_within("tx.network", &sent, report, ms(20)..=ms(22))?;
    for name in ["tx.copy", "tx.queue", "tx.qdisc", "rx.stack", "rx.app"] {
        for figure in ["p50_ns", "p90_ns"] {
            within(
                format!("{figure} of {name}"),
                stage(report, name, figure),
                0..=ms(1),
            )?;
        }
    }
    Ok(())
}
