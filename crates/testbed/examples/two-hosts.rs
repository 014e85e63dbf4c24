//! Two hosts and a link to try things out by hand: `two-hosts [DELAY_MS] [LOSS]`, until Enter is
//! pressed.

use std::time::Duration;

use testbed::{Family, Host, Link, LinkConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let delay = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let loss = arguments.next().map_or(Ok(0.0), |text| text.parse())?;

    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let config = LinkConfig::default()
        .delay(Duration::from_millis(delay))
        .loss(loss);
    let link = Link::relay(&a, &b, config)?;
    for (host, address) in [
        (&a, link.address_a(Family::V4)),
        (&b, link.address_b(Family::V4)),
    ] {
        println!("{address:12} ip netns exec {} bash", host.netns_name());
    }
    println!("Enter ends it.");
    std::io::stdin().read_line(&mut String::new())?;
    println!("{:#?}", link.statistics());
    Ok(())
}
