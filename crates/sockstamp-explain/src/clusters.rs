//! Sums over messages that are slow together: those of a flow, or of a moment.

use std::collections::HashMap;

use sockstamp_model::message::Message;

use crate::component::Component;

/// Flows or seconds with slow messages, under which nothing is claimed.
pub const CLUSTERS: usize = 20;

/// Seconds that may be slow together, because each resembles those next to it.
const BLOCK: u64 = 5;

/// Sums over slow messages of one flow, or of one second.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) weight: f64,
    /// For each component, its time.
    pub(crate) sums: Vec<f64>,
}

/// Sums over messages of each flow, and of each second.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    flows: HashMap<u64, Cluster>,
    seconds: HashMap<u64, Cluster>,
}

impl Cluster {
    pub(crate) fn new(components: &[Component]) -> Self {
        Self {
            weight: 0.0,
            sums: vec![0.0; components.len()],
        }
    }

    pub(crate) fn add(&mut self, components: &[Component], message: &Message) {
        let weight = f64::from(message.weight);
        self.weight += weight;
        for (sum, component) in self.sums.iter_mut().zip(components) {
            *sum += weight * component.of(message).0 as f64;
        }
    }

    /// Return the time of all components.
    pub(crate) fn time(&self) -> f64 {
        self.sums.iter().sum()
    }

    /// Return each component's mean time.
    pub(crate) fn means(&self) -> Vec<f64> {
        self.sums
            .iter()
            .map(|sum| sum / self.weight.max(1.0))
            .collect()
    }
}

impl Clusters {
    pub(crate) fn add(&mut self, components: &[Component], message: &Message) {
        let cluster = || Cluster::new(components);
        let flow = self
            .flows
            .entry(message.flow.cookie.0)
            .or_insert_with(cluster);
        flow.add(components, message);
        let second = self
            .seconds
            .entry(second_of(message))
            .or_insert_with(cluster);
        second.add(components, message);
    }

    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }

    pub(crate) fn seconds(&self) -> usize {
        self.seconds.len()
    }

    /// Return a figure of each second.
    pub(crate) fn by_second(&self, of: impl Fn(&Cluster) -> f64) -> Vec<(u64, f64)> {
        let seconds = self.seconds.iter();
        seconds
            .map(|(second, cluster)| (*second, of(cluster)))
            .collect()
    }

    /// Return the sum over all messages.
    pub(crate) fn sum(&self, of: impl Fn(&Cluster) -> f64) -> f64 {
        self.seconds.values().map(of).sum()
    }

    /// Return the standard deviation of a sum of residuals: that of flows or that of seconds, the
    /// larger.
    pub(crate) fn deviation(&self, residual: impl Fn(&Cluster) -> f64) -> f64 {
        let flows: Vec<f64> = self.flows.values().map(&residual).collect();
        let mut seconds = self.by_second(&residual);
        seconds.sort_unstable_by_key(|(second, _)| *second);
        of_flows(&flows).max(of_seconds(&seconds))
    }
}

pub(crate) fn second_of(message: &Message) -> u64 {
    message.time.as_nanos() / 1_000_000_000
}

/// Return the standard deviations on either side of an interval that holds for all tested figures
/// together: |Z| exceeds them in at most 5 % of cases, exp(-z²/2) for each.
pub(crate) fn side(tested: usize) -> f64 {
    (2.0 * (tested as f64 / 0.05).ln()).sqrt()
}

/// Return the standard deviation of a sum over flows, which are independent; zero if they are too
/// few.
pub(crate) fn of_flows(residuals: &[f64]) -> f64 {
    match residuals.len() < CLUSTERS {
        true => 0.0,
        false => deviation(
            residuals.iter().map(|residual| residual.powi(2)).sum(),
            residuals.len(),
            1,
        ),
    }
}

/// Return the standard deviation of a sum over seconds, in their order; zero if they are too few.
/// It is that of all blocks of neighbouring seconds: two seconds are in one block the more often,
/// the nearer they are (Bartlett's weights).
pub(crate) fn of_seconds(residuals: &[(u64, f64)]) -> f64 {
    if residuals.len() < CLUSTERS {
        return 0.0;
    }
    let mut sum = 0.0;
    for (place, (second, residual)) in residuals.iter().enumerate() {
        sum += residual.powi(2);
        for (earlier, other) in residuals[..place].iter().rev() {
            let distance = second - earlier;
            if distance >= BLOCK {
                break;
            }
            sum += 2.0 * residual * other * (BLOCK - distance) as f64 / BLOCK as f64;
        }
    }
    deviation(sum, residuals.len(), BLOCK)
}

/// Return the standard deviation, from the sum of squares of so many residuals in blocks. Rounding
/// may leave less than nothing of the sum.
fn deviation(squares: f64, residuals: usize, block: u64) -> f64 {
    let blocks = residuals as f64 / block as f64;
    (squares.max(0.0) * blocks / (blocks - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(residuals: &[f64]) -> Vec<(u64, f64)> {
        (0..).zip(residuals.iter().copied()).collect()
    }

    #[test]
    fn seconds_that_are_slow_together_count_like_fewer_ones() {
        // Alternately +1 and -1, once per second, and once for five seconds each.
        let alone: Vec<f64> = (0..100)
            .map(|n| if n % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let together: Vec<f64> = (0..100)
            .map(|n| if n / 5 % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let [alone, together] = [alone, together].map(|residuals| of_seconds(&seconds(&residuals)));
        assert!(alone < 5.0 && together > 12.0, "{alone} {together}");
    }

    #[test]
    fn blocks_are_those_of_a_moving_window() {
        let residuals: Vec<f64> = (0..30).map(|n| f64::from(n * n % 17) - 8.0).collect();
        let at = |place: i32| {
            usize::try_from(place)
                .ok()
                .and_then(|place| residuals.get(place))
        };
        let window = |begin: i32| -> f64 { (begin..begin + 5).filter_map(at).sum() };
        let squares: f64 = (-4..30).map(|begin| window(begin).powi(2)).sum();
        let expected = (squares / 5.0 * 6.0 / 5.0).sqrt();
        assert!((of_seconds(&seconds(&residuals)) - expected).abs() < 1e-9);
    }

    #[test]
    fn distant_seconds_are_in_no_block_together() {
        let near = seconds(&[1.0; 20]);
        let far: Vec<(u64, f64)> = near
            .iter()
            .map(|(n, residual)| (n * 5, *residual))
            .collect();
        let expected = (20.0_f64 * 4.0 / 3.0).sqrt();
        assert!((of_seconds(&far) - expected).abs() < 1e-9);
        assert!(of_seconds(&near) > 1.5 * expected);
        assert_eq!(of_seconds(&near[..19]), 0.0);
    }
}
