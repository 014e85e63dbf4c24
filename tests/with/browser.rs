//! Drive Chromium through its debugging pipe (chromedevtools.github.io/devtools-protocol).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// Chromium reads commands from descriptor 3 and answers on 4.
const START: &str = "exec chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --remote-debugging-pipe \
    --user-data-dir=\"$HOME\" about:blank 3<&0 4>&1 1>&2";

/// A page in a browser.
#[derive(Debug)]
pub struct Page {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    /// Events since the page was opened.
    pub events: Vec<Value>,
    _home: TempDir,
}

impl Page {
    /// Open a file, with what it requests and what it complains about among the events.
    pub fn open(file: &Path) -> Self {
        Self::at(&format!("file://{}", file.display()))
    }

    /// As [`open`](Self::open), at this address.
    pub fn at(url: &str) -> Self {
        let home = tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", START])
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut page = Self {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            session: None,
            last: 0,
            events: Vec::new(),
            _home: home,
        };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = page.call("Target.attachToTarget", attach);
        page.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.call("Page.navigate", json!({"url": url}));
        while !page.happened("Page.loadEventFired") {
            let event = page.read();
            page.events.push(event);
        }
        page
    }

    /// Send a command; return its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        write!(self.commands, "{command}\0").unwrap();
        self.commands.flush().unwrap();
        loop {
            let mut message = self.read();
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Return true if there was an event of this name.
    pub fn happened(&self, method: &str) -> bool {
        self.events.iter().any(|event| event["method"] == method)
    }

    /// Return the value of an expression, or that of its promise.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", params);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].take()
    }

    /// Click on the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let expression = format!(
            "(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); \
             return [b.x + b.width / 2, b.y + b.height / 2] }})(document.querySelector({selector:?}))"
        );
        let place = self.value(&expression);
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Press a key, by its name.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "End" => 35,
            "Home" => 36,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => panic!("unknown key {key}"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let params = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", params);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Its other processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
