//! A browser in the hands of a test: what WebDriver (W3C) offers, as far as it is needed here.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;

/// Nothing but what the test asks for is to be fetched or kept.
const ARGUMENTS: [&str; 8] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How WebDriver names an element in its answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A running browser. Dropping it ends it.
pub(crate) struct Browser {
    driver: Child,
    client: Client,
    session: String,
    _profile: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn();
        let mut driver = started.expect("chromedriver: scripts/need browser installs it");
        let port = port(&mut driver);
        let client = Client::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let profile = TempDir::new().expect("a directory");
        let directory = format!("--user-data-dir={}", profile.path().display());
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([directory.as_str()]).collect();
        let wanted = json!({"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": arguments}});
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let made = client.post("/session", &body).expect(200).json();
        let session = format!("/session/{}", made["value"]["sessionId"].as_str().expect("an id"));
        Self { driver, client, session, _profile: profile }
    }

    /// Goes to an address and waits until the page is there.
    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Looks into a frame of the page from now on, until another page is opened.
    pub(crate) fn enter_frame(&self, number: usize) {
        self.post("/frame", &json!({ "id": number }));
    }

    pub(crate) fn title(&self) -> String {
        text(&self.get("/title"))
    }

    /// The text of the first element of this selector, as a person sees it.
    pub(crate) fn text(&self, selector: &str) -> String {
        self.try_text(selector).unwrap_or_else(|| panic!("there is no {selector}"))
    }

    /// Waits until the first element of this selector shows this: what a click or a frame leads to
    /// comes when it comes.
    #[track_caller]
    pub(crate) fn until(&self, selector: &str, shown: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.try_text(selector).unwrap_or_default();
            if text.contains(shown) {
                return;
            }
            assert!(Instant::now() < deadline, "{selector} never showed {shown:?}, but {text:?}");
        }
    }

    /// None if there is no such element, or the page has changed meanwhile.
    fn try_text(&self, selector: &str) -> Option<String> {
        let by = json!({"using": "css selector", "value": selector});
        let found = self.client.post(&format!("{}/element", self.session), &by).json();
        let element = found["value"][ELEMENT].as_str()?.to_owned();
        let path = format!("{}/element/{element}/text", self.session);
        self.client.get(&path).json()["value"].as_str().map(str::to_owned)
    }

    /// How the first element of this selector is shown.
    pub(crate) fn style(&self, selector: &str, property: &str) -> String {
        text(&self.get(&format!("/element/{}/css/{property}", self.find(selector))))
    }

    /// Clicks.
    pub(crate) fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.find(selector)), &json!({}));
    }

    /// How many elements of this selector there are.
    pub(crate) fn count(&self, selector: &str) -> usize {
        let by = json!({"using": "css selector", "value": selector});
        self.post("/elements", &by).as_array().expect("a list").len()
    }

    /// What the browser complained about since it was last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        log.as_array().expect("a list").iter().map(|entry| text(&entry["message"])).collect()
    }

    /// Waits until the browser has complained of this.
    #[track_caller]
    pub(crate) fn until_it_complains_of(&self, what: &str) {
        let (deadline, mut all) = (Instant::now() + PATIENCE, Vec::new());
        while !all.iter().any(|text: &String| text.contains(what)) {
            assert!(Instant::now() < deadline, "it never complained of {what:?}, but of {all:?}");
            all.extend(self.complaints());
        }
    }

    fn find(&self, selector: &str) -> String {
        let by = json!({"using": "css selector", "value": selector});
        text(&self.post("/element", &by)[ELEMENT])
    }

    fn get(&self, path: &str) -> Value {
        self.client.get(&format!("{}{path}", self.session)).expect(200).json()["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.client.post(&format!("{}{path}", self.session), body);
        answer.expect(200).json()["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.client.try_send("DELETE", &self.session, &[], b"");
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The port that the driver says it has taken.
fn port(driver: &mut Child) -> u16 {
    let output = BufReader::new(driver.stdout.take().expect("it is piped"));
    let mut lines = output.lines().map_while(Result::ok);
    let found = lines.find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    // Nobody reads on: what it has to say goes to its standard error.
    found.expect("chromedriver says where it listens")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_owned()
}
