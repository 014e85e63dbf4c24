//! Draw a screen as an SVG image that follows the reader's colour scheme, for README.md.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// Monospace fonts advance 0.6 em per cell; `textLength` corrects those that do not.
const FONT_SIZE: u16 = 15;
const CELL_WIDTH: u16 = 9;
const LINE_HEIGHT: u16 = 19;
const BASELINE: u16 = 14;
const MARGIN: u16 = 14;

/// Colours are variables, so that one file serves both schemes.
const STYLE: &str = "\
svg{--paper:#fff;--ink:#1f2328;--faint:#818b98;--red:#cf222e;--yellow:#9a6700;--frame:#d1d9e0;
--bar-blue:#80ccff;--bar-magenta:#d8b9ff;--bar-cyan:#8be0e8;--bar-green:#85e09b;--bar-red:#ffaba8;--bar-yellow:#f5d76b}
@media(prefers-color-scheme:dark){
svg{--paper:#0d1117;--ink:#e6edf3;--faint:#7d8590;--red:#ff7b72;--yellow:#e3b341;--frame:#30363d;
--bar-blue:#388bfd;--bar-magenta:#a371f7;--bar-cyan:#2bb3c0;--bar-green:#3fb950;--bar-red:#f85149;--bar-yellow:#d29922}}
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:var(--ink)}
.bold{font-weight:700}.faint{fill:var(--faint)}.red{fill:var(--red)}.yellow{fill:var(--yellow)}
.on-bar{fill:#0d1117}.reversed{fill:var(--paper)}
";

/// Return the image, in which neighbouring cells of one style are one text.
pub(super) fn image(buffer: &Buffer, title: &str) -> String {
    let (width, height) = (buffer.area.width, buffer.area.height);
    let size = (
        width * CELL_WIDTH + 2 * MARGIN,
        height * LINE_HEIGHT + 2 * MARGIN,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-size=\"{FONT_SIZE}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"var(--paper)\" stroke=\"var(--frame)\"/>\n",
        size.0, size.1
    );
    for y in 0..height {
        let cells: Vec<&Cell> = (0..width).map(|x| &buffer[(x, y)]).collect();
        let mut x = 0;
        for run in cells.chunk_by(|a, b| a.style() == b.style()) {
            push_run(&mut svg, run, x, y);
            x += u16::try_from(run.len()).expect("a line has less than 65536 cells");
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn push_run(svg: &mut String, run: &[&Cell], x: u16, y: u16) {
    let text: String = run.iter().map(|cell| cell.symbol()).collect();
    let cells = u16::try_from(run.len()).expect("a line has less than 65536 cells");
    let (left, top) = (MARGIN + x * CELL_WIDTH, MARGIN + y * LINE_HEIGHT);
    let length = cells * CELL_WIDTH;
    if let Some(fill) = background(run[0]) {
        writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{length}\" height=\"{LINE_HEIGHT}\" fill=\"var({fill})\"/>"
        )
        .expect("a String takes all");
    }
    if text.trim().is_empty() {
        return;
    }
    writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\" textLength=\"{length}\" class=\"{}\" xml:space=\"preserve\">{}</text>",
        top + BASELINE,
        classes(run[0]),
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    )
    .expect("a String takes all");
}

fn background(cell: &Cell) -> Option<&'static str> {
    if cell.modifier.contains(Modifier::REVERSED) {
        return Some(match cell.fg {
            Color::Red => "--red",
            Color::Yellow => "--yellow",
            Color::DarkGray => "--faint",
            _ => "--ink",
        });
    }
    match cell.bg {
        Color::Reset => None,
        Color::Blue => Some("--bar-blue"),
        Color::Magenta => Some("--bar-magenta"),
        Color::Cyan => Some("--bar-cyan"),
        Color::Green => Some("--bar-green"),
        Color::Red => Some("--bar-red"),
        Color::Yellow => Some("--bar-yellow"),
        other => panic!("the image has no bar of colour {other}"),
    }
}

fn classes(cell: &Cell) -> String {
    let colour = if cell.modifier.contains(Modifier::REVERSED) {
        "reversed"
    } else {
        match cell.fg {
            Color::Reset => "",
            Color::DarkGray => "faint",
            Color::Red => "red",
            Color::Yellow => "yellow",
            Color::Black => "on-bar",
            other => panic!("the image has no text of colour {other}"),
        }
    };
    let bold = cell.modifier.contains(Modifier::BOLD).then_some("bold");
    [bold.unwrap_or_default(), colour]
        .join(" ")
        .trim()
        .to_owned()
}
