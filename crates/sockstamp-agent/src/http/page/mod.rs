//! The page: files that are part of the program. It takes nothing from elsewhere, and runs no
//! script but its own.

#[cfg(test)]
mod contrast;

/// The sources that a browser lets it use: `Content-Security-Policy`.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
#[derive(Debug)]
pub(crate) struct File {
    /// Its type, as `Content-Type` has it.
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

impl File {
    /// Return the file at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let (kind, text) = match path {
            "/" => ("text/html; charset=utf-8", include_str!("page.html")),
            "/page.css" => ("text/css; charset=utf-8", include_str!("page.css")),
            "/page.js" => ("text/javascript; charset=utf-8", include_str!("page.js")),
            _ => return None,
        };
        Some(Self { kind, text })
    }
}
