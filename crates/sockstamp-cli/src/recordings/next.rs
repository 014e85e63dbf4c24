//! The command that tells more of a finding, for recordings in place of a measurement.

use std::path::Path;

use sockstamp_explain::diagnosis::Diagnosis;
use sockstamp_run::escape::quoted_path;

/// Let each finding name a command that reads these recordings, where one does. `only`: the file,
/// if there is one.
pub(super) fn in_recordings(diagnosis: &mut Diagnosis, only: Option<&Path>) {
    let file = match only {
        Some(only) => quoted_path(only),
        None => "FILE".to_owned(),
    };
    diagnosis.more = in_recording(&diagnosis.more, &file);
    for finding in &mut diagnosis.findings {
        finding.next = in_recording(&finding.next, &file);
    }
}

fn in_recording(next: &str, file: &str) -> String {
    match next.split_once(' ').unwrap_or((next, "")) {
        ("explain", "") => format!("explain -r {file}"),
        ("trace", options) => format!("trace -r {file} {options}"),
        ("stat", options) if options.starts_with("--by ") => format!("report {file} {options}"),
        _ => next.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_asked_for_more_where_it_can_tell() {
        let told = |next| in_recording(next, "a.parquet");
        assert_eq!(told("explain"), "explain -r a.parquet");
        assert_eq!(told("trace --slow 10ms"), "trace -r a.parquet --slow 10ms");
        assert_eq!(
            told("stat --by peer --sort rx.hol"),
            "report a.parquet --by peer --sort rx.hol"
        );
        assert_eq!(told("ping 10.0.0.2"), "ping 10.0.0.2");
        assert_eq!(told("stat --host-path"), "stat --host-path");
    }

    #[test]
    fn findings_that_are_not_printed_are_in_the_recording_too() {
        let mut diagnosis = Diagnosis::default();
        assert_eq!(diagnosis.more, "stat --by peer,port");
        in_recordings(&mut diagnosis, Some(Path::new("a.parquet")));
        assert_eq!(diagnosis.more, "report a.parquet --by peer,port");
        let mut diagnosis = Diagnosis::default();
        in_recordings(&mut diagnosis, Some(Path::new("a b;$(id)")));
        assert_eq!(diagnosis.more, "report 'a b;$(id)' --by peer,port");
    }
}
