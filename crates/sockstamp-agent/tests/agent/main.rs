//! `sockstamp agent`: its figures against those of `stat`, by HTTP and in a real Prometheus.

mod alerts;
mod churn;
mod clock_step;
mod configuration;
mod containerd;
mod findings;
mod hindsight;
mod life;
mod names;
mod otlp;
mod page;
mod prober;
mod prometheus;
mod rules;
mod scrape;
mod tls;
mod waits;
