//! Wrap text to the terminal's width.

/// Columns of a terminal.
pub const WIDTH: usize = 80;

/// Write items after a title, on as many lines as they need, with a sign after all but the last.
pub fn wrapped<S: AsRef<str>>(
    title: &str,
    items: impl IntoIterator<Item = S>,
    sign: &str,
) -> String {
    wrapped_to(WIDTH, title, items, sign)
}

/// As [`wrapped`], to another width.
pub fn wrapped_to<S: AsRef<str>>(
    width: usize,
    title: &str,
    items: impl IntoIterator<Item = S>,
    sign: &str,
) -> String {
    let indent = title.chars().count();
    let (mut text, mut column) = (title.to_owned(), indent);
    let mut items = items.into_iter().peekable();
    while let Some(item) = items.next() {
        let sign = if items.peek().is_some() { sign } else { "" };
        let item = format!("{}{sign}", item.as_ref());
        let length = item.chars().count();
        if column > indent && column + 1 + length > width {
            text += "\n";
            text += &" ".repeat(indent);
            column = indent;
        }
        text += " ";
        text += &item;
        column += 1 + length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_wrap_beneath_each_other() {
        let items = [
            "a".repeat(40),
            "b".repeat(40),
            "c".repeat(100),
            "d".to_owned(),
        ];
        let text = wrapped(" title:", &items, ",");
        let expected = format!(
            " title: {},\n        {},\n        {},\n        d",
            items[0], items[1], items[2]
        );
        assert_eq!(text, expected);
    }
}
