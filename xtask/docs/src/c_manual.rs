//! Man pages of section 3, from the comments of sockstamp.h.
//!
//! A comment that begins by `DOC:` begins a page. Any other comment belongs to the declaration
//! after it, and must describe each of its parameters, fields or constants.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::files::{Files, root};
use crate::manual;

const HEADER: &str = "crates/sockstamp-capi/include/sockstamp.h";

/// Leave out this undocumented member.
const RESERVED: &str = "reserved";

pub(crate) fn pages() -> Result<Files> {
    let header =
        fs::read_to_string(root().join(HEADER)).with_context(|| format!("cannot read {HEADER}"))?;
    let entries: Vec<Entry> = header
        .split("/**\n")
        .skip(1)
        .map(Entry::parse)
        .collect::<Result<_>>()?;
    let mut starts: Vec<_> = (0..entries.len())
        .filter(|at| entries[*at].is_page())
        .collect();
    let names: Vec<_> = starts.iter().map(|at| entries[*at].name.as_str()).collect();
    starts.push(entries.len());
    let pages = starts.windows(2).map(|page| &entries[page[0]..page[1]]);
    Ok(pages
        .map(|page| {
            let path = Path::new(manual::PAGES).join(format!("{}.3", page[0].name));
            (path, render(page, &names).into_bytes())
        })
        .collect())
}

/// A comment and its subject.
struct Entry {
    name: String,
    brief: String,
    described: Vec<(String, String)>,
    paragraphs: Vec<String>,
    returns: String,
    /// Empty for a page.
    declaration: String,
}

impl Entry {
    fn parse(text: &str) -> Result<Self> {
        let (comment, rest) = text
            .split_once(" */\n")
            .context("a comment without an end")?;
        let mut lines = comment.lines().map(|line| {
            line.trim_start_matches(" *")
                .strip_prefix(' ')
                .unwrap_or("")
        });
        let first = lines.next().context("an empty comment")?;
        let (name, brief) = first
            .split_once(" - ")
            .with_context(|| format!("no \" - \" in {first:?}"))?;
        let mut entry = Self {
            name: name.trim_start_matches("DOC: ").to_owned(),
            brief: brief.to_owned(),
            described: Vec::new(),
            paragraphs: Vec::new(),
            returns: String::new(),
            declaration: if name.starts_with("DOC: ") {
                String::new()
            } else {
                declaration(rest)
            },
        };
        let mut open = None;
        for line in lines {
            open = entry.add(line, open);
        }
        entry.check()?;
        Ok(entry)
    }

    /// Put a line into its place; return the place for the next one, if that begins nothing new.
    fn add(&mut self, line: &str, open: Option<Place>) -> Option<Place> {
        if line.is_empty() {
            return None;
        }
        if let Some((name, text)) = line
            .strip_prefix('@')
            .and_then(|line| line.split_once(": "))
        {
            self.described.push((name.to_owned(), text.to_owned()));
            return Some(Place::Described);
        }
        if let Some(text) = line.strip_prefix("Return: ") {
            self.returns = text.to_owned();
            return Some(Place::Returns);
        }
        let continued = match open {
            Some(Place::Described) => self.described.last_mut().map(|(_, text)| text),
            Some(Place::Returns) => Some(&mut self.returns),
            Some(Place::Paragraph) => self.paragraphs.last_mut(),
            None => None,
        };
        match continued {
            Some(text) => {
                text.push(' ');
                text.push_str(line);
                open
            }
            None => {
                self.paragraphs.push(line.to_owned());
                Some(Place::Paragraph)
            }
        }
    }

    fn check(&self) -> Result<()> {
        let described: BTreeSet<_> = self
            .described
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let declared: BTreeSet<_> = names(&self.declaration).into_iter().collect();
        ensure!(
            described == declared,
            "{} describes {described:?}, and has {declared:?}",
            self.name
        );
        let returns_something = self.is_function() && !self.declaration.starts_with("void ");
        ensure!(
            returns_something != self.returns.is_empty(),
            "{}: what does it return?",
            self.name
        );
        Ok(())
    }

    fn is_page(&self) -> bool {
        self.declaration.is_empty()
    }

    fn is_function(&self) -> bool {
        self.name.ends_with("()")
    }
}

#[derive(Clone, Copy)]
enum Place {
    Described,
    Paragraph,
    Returns,
}

/// Up to the first empty line.
fn declaration(text: &str) -> String {
    text.split("\n\n")
        .next()
        .unwrap_or("")
        .trim_end()
        .to_owned()
}

/// Parameters, fields or constants.
fn names(declaration: &str) -> Vec<&str> {
    let (separator, inner) = match declaration.split_once(" {\n") {
        Some((head, inner)) if head.starts_with("enum") => (',', inner),
        Some((_, inner)) => (';', inner),
        None => {
            let Some((_, parameters)) = declaration.split_once('(') else {
                return Vec::new();
            };
            (',', parameters.split(')').next().unwrap_or(""))
        }
    };
    inner
        .split(separator)
        .filter_map(|part| {
            let before = part.split(['=', '[', '}']).next()?;
            before
                .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .rfind(|word| !word.is_empty())
        })
        .filter(|name| !matches!(*name, RESERVED | "void"))
        .collect()
}

fn render(page: &[Entry], pages: &[&str]) -> String {
    let title = &page[0];
    let (functions, types): (Vec<_>, Vec<_>) =
        page[1..].iter().partition(|entry| entry.is_function());
    let mut names = vec![title.name.as_str()];
    names.extend(
        functions
            .iter()
            .map(|entry| entry.name.trim_end_matches("()")),
    );
    let mut lines = vec![
        format!(
            ".TH {} 3 {} \"sockstamp {}\" \"libsockstamp\"",
            title.name.to_uppercase(),
            manual::DATE,
            env!("CARGO_PKG_VERSION")
        ),
        ".SH NAME".into(),
        format!("{} \\- {}", names.join(", "), escape(&title.brief)),
        ".SH SYNOPSIS".into(),
        ".nf".into(),
        "#include <sockstamp.h>".into(),
    ];
    for function in &functions {
        lines.push(String::new());
        lines.push(escape(&indented(&function.declaration)));
    }
    lines.extend([".fi".into(), ".SH DESCRIPTION".into()]);
    paragraphs(&title.paragraphs, &mut lines);
    for (heading, entries) in [(".SH FUNCTIONS", functions), (".SH TYPES", types)] {
        if !entries.is_empty() {
            lines.push(heading.into());
        }
        for entry in entries {
            lines.extend([format!(".SS {}", entry.name), sentence(&entry.brief)]);
            describe(entry, &mut lines);
        }
    }
    lines.push(".SH SEE ALSO".into());
    let others: Vec<_> = pages.iter().filter(|page| **page != title.name).collect();
    for (at, other) in others.iter().enumerate() {
        let comma = if at + 1 < others.len() { " ," } else { "" };
        lines.push(format!(".BR {other} (3){comma}"));
    }
    manual::tidy(&lines.join("\n"))
}

fn describe(entry: &Entry, lines: &mut Vec<String>) {
    if !entry.is_function() {
        lines.extend([
            ".PP".into(),
            ".nf".into(),
            escape(&indented(&entry.declaration)),
            ".fi".into(),
        ]);
    }
    for (name, text) in &entry.described {
        lines.extend([".TP".into(), format!(".I {name}"), escape(text)]);
    }
    for text in &entry.paragraphs {
        lines.extend([".PP".into(), escape(text)]);
    }
    if !entry.returns.is_empty() {
        lines.extend([".PP".into(), format!("Returns {}", escape(&entry.returns))]);
    }
}

fn paragraphs(paragraphs: &[String], lines: &mut Vec<String>) {
    for (at, text) in paragraphs.iter().enumerate() {
        if at > 0 {
            lines.push(".PP".into());
        }
        lines.push(escape(text));
    }
}

fn sentence(brief: &str) -> String {
    let mut letters = brief.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    format!(
        "{}{}.",
        escape(&first.unwrap_or_default()),
        escape(letters.as_str())
    )
}

/// Spaces in the place of tabs, which a page has at other places.
fn indented(declaration: &str) -> String {
    let lines = declaration.lines().map(|line| {
        let text = line.trim_start_matches(['\t', ' ']);
        let tabs = line.len() - line.trim_start_matches('\t').len();
        format!("{}{text}", "    ".repeat(tabs.min(2)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A hyphen of text is a minus of code here, the mark of a parameter is for readers of the header,
/// and no line may begin by a period or an apostrophe.
fn escape(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('@', "");
    let lines = escaped.lines().map(|line| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: &str = " * f() - does it\n * @a: One\n * more.\n *\n * Text\n * goes on.\n *\n * Return: 0.\n */\n\
         int f(const struct x *a);\n\n";

    #[test]
    fn a_comment_is_taken_apart() {
        let entry = Entry::parse(FUNCTION).unwrap();
        assert_eq!(
            (entry.name.as_str(), entry.brief.as_str()),
            ("f()", "does it")
        );
        assert_eq!(entry.described, [("a".to_owned(), "One more.".to_owned())]);
        assert_eq!(entry.paragraphs, ["Text goes on."]);
        assert_eq!(entry.returns, "0.");
    }

    #[test]
    fn an_undocumented_member_is_an_error() {
        for (from, to) in [
            ("*a", "*b"),
            ("*a", "*a, int b"),
            ("Return: 0.", "0."),
            ("int f", "void f"),
        ] {
            assert!(
                Entry::parse(&FUNCTION.replacen(from, to, 1)).is_err(),
                "{from} {to}"
            );
        }
    }

    #[test]
    fn names_are_those_of_parameters_fields_and_constants() {
        let union =
            "struct x {\n\tint a;\n\tuint32_t reserved;\n\tunion {\n\t\tstruct y b[3];\n\t};\n};";
        assert_eq!(names(union), ["a", "b"]);
        assert_eq!(names("enum x {\n\tA = 1 << 0,\n\tB = 2,\n};"), ["A", "B"]);
        assert_eq!(names("int f(void **a,\n\t  size_t b);"), ["a", "b"]);
        assert_eq!(names("int f(void);"), [""; 0]);
    }
}
