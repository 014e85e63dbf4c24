/// Runs a measurement of time again, twice at most, if it misses: the machine is used by others as
/// well. The bounds stay as they are, and a product that is wrong stays wrong.
///
/// # Panics
///
/// Retry up to three times; fail with all three reasons.
pub fn within_three_attempts(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut missed = Vec::new();
    for _ in 0..3 {
        match attempt() {
            Ok(()) => return,
            Err(reason) => {
                println!("missed: {reason}");
                missed.push(reason);
            }
        }
    }
    panic!("missed {} times:\n{}", missed.len(), missed.join("\n"));
}
