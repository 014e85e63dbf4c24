//! Contrasts of the page's colours, read from its style sheet, in both schemes: WCAG 2.2, level AA.

use std::collections::HashMap;

const STYLE: &str = include_str!("page.css");
/// The least contrast of text (1.4.3), and of figures (1.4.11).
const OF_TEXT: f64 = 4.5;
const OF_FIGURES: f64 = 3.0;

/// Red, green and blue, from 0 to 255.
type Colour = [f64; 3];

/// A rule: its selector and its declarations.
type Rule = (&'static str, HashMap<&'static str, &'static str>);

fn rules() -> Vec<Rule> {
    let blocks = STYLE.split('}').filter_map(|block| block.rsplit_once('{'));
    let declared = |body: &'static str| {
        let pairs = body.split(';').filter_map(|pair| pair.split_once(':'));
        pairs
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect()
    };
    blocks
        .map(|(selector, body)| (selector.trim(), declared(body)))
        .collect()
}

/// The variables of a scheme; dark ones replace light ones.
fn schemes(rules: &[Rule]) -> [HashMap<&'static str, &'static str>; 2] {
    let roots: Vec<_> = rules
        .iter()
        .filter(|(selector, _)| selector.ends_with(":root"))
        .collect();
    let [(_, light), (media, dark)] = roots[..] else {
        panic!("the style sheet has a light and a dark scheme");
    };
    assert!(media.starts_with("@media (prefers-color-scheme: dark)"));
    let mut darkened = light.clone();
    darkened.extend(dark);
    [light.clone(), darkened]
}

fn colour(value: &str, scheme: &HashMap<&str, &str>, behind: Colour) -> Colour {
    if let Some(name) = value
        .strip_prefix("var(")
        .and_then(|rest| rest.strip_suffix(')'))
    {
        return colour(scheme[name], scheme, behind);
    }
    if let Some(digits) = value.strip_prefix('#') {
        let wide = digits.len() == 6;
        return [0, 1, 2].map(|place| {
            let channel = match wide {
                true => digits[2 * place..2 * place + 2].to_owned(),
                false => digits[place..=place].repeat(2),
            };
            u8::from_str_radix(&channel, 16).unwrap().into()
        });
    }
    let heat: Vec<f64> = scheme["--heat"]
        .split(',')
        .map(|channel| channel.trim().parse().unwrap())
        .collect();
    let opacity = match value.strip_prefix("rgba(var(--heat), ") {
        Some(rest) => rest.trim_end_matches(')').parse().unwrap(),
        None if value == "rgb(var(--heat))" => 1.0,
        None => panic!("{value} is no colour that this test reads"),
    };
    [0, 1, 2].map(|place| opacity * heat[place] + (1.0 - opacity) * behind[place])
}

fn luminance(colour: Colour) -> f64 {
    let [red, green, blue] = colour.map(|channel| match channel / 255.0 {
        small if small <= 0.04045 => small / 12.92,
        large => ((large + 0.055) / 1.055).powf(2.4),
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: Colour, other: Colour) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_and_figures_have_enough_contrast_in_both_schemes() {
    let rules = rules();
    let mut texts = 0;
    for scheme in schemes(&rules) {
        let paper = colour("var(--paper)", &scheme, [0.0; 3]);
        for (selector, declared) in &rules {
            let background = declared.get("background");
            let behind = background.map_or(paper, |value| colour(value, &scheme, paper));
            let written = declared.get("color").filter(|value| **value != "inherit");
            if background.or(written).is_some() {
                let text = colour(written.unwrap_or(&"var(--ink)"), &scheme, paper);
                let found = contrast(text, behind);
                assert!(found >= OF_TEXT, "{selector}: {found:.2} in {scheme:?}");
                texts += 1;
            }
            let drawn = ["fill", "stroke"].map(|name| declared.get(name));
            for value in drawn
                .into_iter()
                .flatten()
                .filter(|value| **value != "none")
            {
                let found = contrast(colour(value, &scheme, paper), paper);
                assert!(found >= OF_FIGURES, "{selector}: {found:.2} in {scheme:?}");
            }
        }
    }
    // The body, notes, and the six degrees of heat.
    assert!(texts >= 2 * 8, "{texts} rules");
}
