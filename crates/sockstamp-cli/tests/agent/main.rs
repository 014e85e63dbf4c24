//! `sockstamp agent`: its figures against those of `stat`, by HTTP and in a real Prometheus.

mod alerts;
mod churn;
mod clock_step;
#[path = "../common/mod.rs"]
mod common;
mod configuration;
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
