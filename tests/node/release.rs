//! A node that behaves as an older release says so wherever somebody may look first.

use std::fs;

use firedrill::protocol::admin::Readiness;
use firedrill::protocol::config::Release;

use crate::process::Cluster;

#[test]
fn an_older_release_is_known_by_its_first_line_and_its_readiness() {
    for release in [Release::Legacy5, Release::Legacy6, Release::Current] {
        let mut cluster = Cluster::new(1, 4);
        cluster.configure(|config| config.release = release);
        cluster.start(0);
        cluster.wait_ready(0);
        let log = fs::read_to_string(cluster.log(0)).expect("a log");
        let first = log.lines().next().expect("a line");
        let body = cluster.client(0).plain("GET", "/health/ready").expect("an answer").body;
        let readiness: Readiness = serde_json::from_slice(&body).expect("words that are known");
        assert_eq!(readiness.release, release);
        let text = String::from_utf8_lossy(&body);
        if release.is_current() {
            assert!(
                !first.contains("OLDER RELEASE") && !text.contains("release"),
                "{first} {text}"
            );
        } else {
            let says = |text: &str| text.contains(release.name());
            assert!(
                first.contains("OLDER RELEASE") && says(first) && says(&text),
                "{first} {text}"
            );
        }
    }
}
