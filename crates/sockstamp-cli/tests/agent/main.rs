//! `sockstamp agent`: its figures against those of `stat`, by HTTP and in a real Prometheus.

mod alerts;
#[path = "../html/browser.rs"]
#[expect(dead_code, reason = "this binary presses no keys")]
mod browser;
mod churn;
mod clock_step;
mod configuration;
mod containerd;
mod hindsight;
mod life;
mod names;
mod otlp;
mod packaging;
mod page;
mod prober;
mod prometheus;
mod rules;
mod running;
mod scrape;
mod tls;
