//! The method for a stage: the points between which it lies, as data.

use std::fmt;

use super::point::Point;
use super::reason::Reason;

/// The method for a stage, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The difference between the times of two points.
    Between(Point, Point),
    /// The difference between the RX stamps of two packets, seen at this point.
    ReceiveStampsAt(Point),
    /// The stage is absent.
    Absent(Reason),
}

impl Method {
    /// Return why the stage is absent, if it is.
    #[must_use]
    pub fn absent(self) -> Option<Reason> {
        match self {
            Self::Absent(reason) => Some(reason),
            Self::Between(..) | Self::ReceiveStampsAt(_) => None,
        }
    }

    /// Return whether the stage is measured.
    #[must_use]
    pub fn is_measured(self) -> bool {
        self.absent().is_none()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Both are callbacks of the same program.
            Self::Between(from @ Point::Callback(_), Point::Callback(to)) => {
                write!(f, "{from} → {}", to.name())
            }
            Self::Between(from, to) => write!(f, "{from} → {to}"),
            Self::ReceiveStampsAt(point) => write!(f, "{}s at {point}", Point::ReceiveStamp),
            Self::Absent(reason) => write!(f, "absent: {reason}"),
        }
    }
}
