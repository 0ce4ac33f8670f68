//! Chromium without a window, driven through its debugging pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Names of the program; `AMN_CHROMIUM` names another.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How long a page may take to be ready, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    next: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser; `None`, with a message, if none is installed.
    pub fn start() -> Option<Self> {
        let named = std::env::var("AMN_CHROMIUM").ok();
        let is_there =
            |program: &&str| Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success());
        let Some(program) = named.as_deref().into_iter().chain(PROGRAMS).find(is_there) else {
            eprintln!("skipped: there is no Chromium (Debian's package is chromium)");
            return None;
        };
        let profile = TempDir::new().unwrap();
        // The pipe is at the descriptors 3 and 4.
        let script = "exec \"$@\" 3<&0 4>&1 >/dev/null </dev/null";
        let mut child = Command::new("sh")
            .args([
                "-c",
                script,
                "sh",
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (requests, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser =
            Self { child, requests, answers, session: None, next: 0, events: Vec::new(), _profile: profile };
        let targets = browser.call("Target.getTargets", json!({}));
        let page = targets["targetInfos"].as_array().unwrap().iter().find(|target| target["type"] == "page").unwrap();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": page["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut request = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).unwrap();
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a file, and waits until its script is done.
    pub fn open(&mut self, path: &Path) {
        self.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        let started = Instant::now();
        while self.run("document.documentElement?.dataset.ready ?? ''") == "" {
            assert!(started.elapsed() < PATIENCE, "the page is not ready: {:?}", self.problems());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The value of an expression.
    pub fn run(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Presses a key, or types a letter.
    pub fn press(&mut self, key: &str) {
        let mut down = json!({ "type": "keyDown", "key": key, "code": key });
        if key.chars().count() == 1 {
            down["text"] = key.into();
        }
        let codes = [("ArrowDown", 40), ("ArrowUp", 38), ("ArrowRight", 39), ("End", 35), ("Home", 36), ("Enter", 13)];
        if let Some((_, code)) = codes.iter().find(|(name, _)| *name == key) {
            down["windowsVirtualKeyCode"] = (*code).into();
        }
        if key == "Enter" {
            down["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", down.clone());
        down["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", down);
    }

    /// Errors, messages on the console, and requests other than for the page itself.
    pub fn problems(&mut self) -> Vec<String> {
        self.run("0");
        let is_problem = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded") => true,
            Some("Page.javascriptDialogOpening") => true,
            Some("Network.requestWillBeSent") => {
                !event["params"]["request"]["url"].as_str().unwrap_or_default().starts_with("file:")
            }
            _ => false,
        };
        self.events.iter().filter(is_problem).map(|event| event["params"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
