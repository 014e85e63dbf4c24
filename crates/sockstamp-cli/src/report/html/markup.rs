//! Text as HTML.

use std::fmt::{self, Display, Write};

use sockstamp_model::name::Escaped;

/// Text that is neither a tag nor the end of an attribute, and has no hidden characters: any user
/// chooses names of tasks.
pub(super) struct Text<T>(pub(super) T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Escaped(self.0.to_string().as_bytes()).to_string();
        for character in shown.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // A backtick ends attributes in some old browsers.
                '`' => f.write_str("&#96;")?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// A part of a whole in percent, with two places: a hundred rows of cells need no more.
pub(super) fn percent(part: f64) -> String {
    let text = format!("{:.2}", part * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A table with a row of heads; the first cell of each row is the row's head.
pub(super) fn table(
    html: &mut String,
    caption: impl Display,
    heads: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) {
    *html += &format!("<table><caption>{}</caption><thead><tr>", Text(caption));
    for head in heads {
        *html += &format!("<th scope=col>{}</th>", Text(head));
    }
    *html += "</tr></thead><tbody>";
    for row in rows {
        *html += "<tr>";
        for (place, cell) in row.iter().enumerate() {
            *html += &match place {
                0 => format!("<th scope=row>{}</th>", Text(cell)),
                _ => format!("<td>{}</td>", Text(cell)),
            };
        }
        *html += "</tr>";
    }
    *html += "</tbody></table>";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_text_ends_a_tag_an_attribute_or_a_script() {
        let text = Text("</script>\"'`&\u{202e}\n").to_string();
        assert_eq!(text, r"&lt;/script&gt;&quot;&#39;&#96;&amp;\u{202e}\n");
    }

    proptest! {
        #[test]
        fn nothing_of_html_gets_through(name in any::<String>()) {
            let text = Text(name).to_string();
            prop_assert!(!text.contains(['<', '>', '"', '\'', '`']));
        }
    }
}
