//! The requests of a rehearsal, sent as they are printed, by somebody who knows nothing but what is printed.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::Client;
use crate::process::ACCESS_KEY;
use crate::process::Cluster;
use crate::process::SECRET_KEY;
use crate::rehearse::ends;
use crate::rehearse::filled;
use crate::rehearse::started;

/// Sends what was printed, in order, and keeps the answers.
struct Sender<'a> {
    cluster: &'a Cluster,
    answers: BTreeMap<String, Value>,
    sent: usize,
}

impl Sender<'_> {
    /// Who signs a request: a name of the document for one of the principals of the test.
    fn client(&self, signed_by: &str) -> Option<Client> {
        let key = match signed_by {
            "operator" => ACCESS_KEY,
            "principal with the table's policy alone" => "inside",
            "principal with S3 alone" => "outside",
            "nobody" => return None,
            other => panic!("nobody is called {other}"),
        };
        Some(self.cluster.client_of(0, key, SECRET_KEY))
    }

    /// Does the requests of one step.
    fn step(&mut self, step: &Value) {
        for request in step["requests"].as_array().expect("requests") {
            let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
            let (mut path, mut body) = (text("path"), request["body"].clone());
            if let Some(take) = request.get("take") {
                let of = &self.answers[take["of"].as_str().expect("an id")];
                let taken = of.pointer(take["pointer"].as_str().expect("a pointer"));
                let taken = taken.and_then(Value::as_str).expect("a text");
                match take.get("field") {
                    Some(field) => body[field.as_str().expect("a name")] = taken.into(),
                    None => {
                        let without = take["without"].as_str().expect("a prefix");
                        let place = taken.strip_prefix(without).expect("it lies there");
                        path = path.replace(take["in_path"].as_str().expect("a word"), place);
                    }
                }
            }
            let query = request["query"].as_object().expect("a query").iter();
            let query: Vec<_> = query
                .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
                .collect();
            if !query.is_empty() {
                path += &format!("?{}", query.join("&"));
            }
            let contents = match (&body, request.get("contents")) {
                (_, Some(contents)) => contents.as_str().expect("contents").to_owned(),
                (Value::Null, None) => String::new(),
                (body, None) => body.to_string(),
            };
            let answer = match self.client(&text("signed_by")) {
                Some(client) => client.send(&text("method"), &path, &[], contents.as_bytes()),
                None => {
                    let nobody = self.cluster.client(0);
                    nobody.plain(&text("method"), &path).expect("an answer")
                }
            };
            self.sent += 1;
            let told = serde_json::from_slice(&answer.body).unwrap_or_default();
            let is_in = |list: &str| {
                let all = request[list].as_array().into_iter().flatten();
                all.filter_map(Value::as_u64).any(|it| it == u64::from(answer.status))
            };
            if is_in("not_served") {
                return;
            }
            assert!(is_in("expect"), "{}: {request}: {answer}", step["step"]);
            self.answers.insert(text("id"), told);
        }
    }
}

/// Prints a rehearsal, and does what it says from the first step to the last; `by_hand` does what is the operator's.
fn sent_as_printed(
    cluster: &mut Cluster,
    rehearsal: &str,
    mut by_hand: impl FnMut(&mut Cluster, &str),
) -> usize {
    let keys = cluster.folder.path().join(format!("{ACCESS_KEY}.keys"));
    let endpoint = format!("http://{}", cluster.address(0));
    let printed = ends(
        0,
        &[
            "rehearse",
            "--rehearsal",
            rehearsal,
            "--print",
            "--writers",
            "3",
            "--endpoint",
            &endpoint,
            "--warehouse",
            "lake",
            "--credentials",
            &keys.to_string_lossy(),
        ],
    );
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    let (mut answers, mut sent) = (BTreeMap::new(), 0);
    for step in document["steps"].as_array().expect("steps") {
        by_hand(cluster, step["step"].as_str().expect("a name"));
        let mut sender = Sender { cluster, answers, sent };
        sender.step(step);
        (answers, sent) = (sender.answers, sender.sent);
    }
    sent
}

/// Starts the node again with more of these variables.
fn restarted(cluster: &mut Cluster, variables: &[(&str, &str)]) {
    cluster.terminate(0);
    for (name, value) in variables {
        cluster.set_variable(name, value);
    }
    cluster.start(0);
    cluster.wait_ready(0);
}

#[test]
fn every_rehearsal_can_be_sent_as_it_is_printed() {
    let mut cluster = started();
    filled(&cluster.client(0));
    let orders = "/iceberg/v1/lake/namespaces/sales/tables/orders";
    let commit =
        br#"{"requirements":[],"updates":[{"action":"set-properties","updates":{"b":"1"}}]}"#;
    for rehearsal in ["disaster-recovery", "scale-fault"] {
        let sent = sent_as_printed(&mut cluster, rehearsal, |_, _| {});
        assert!(sent > 40, "{rehearsal}: {sent} requests");
        // It leaves nothing fenced.
        cluster.client(0).send("POST", orders, &[], commit).expect(200);
    }
    let backing = ("RUSTFS_TABLE_CATALOG_BACKING", "durable-strong");
    sent_as_printed(&mut cluster, "cutover", |cluster, step| {
        if step == "restart" {
            restarted(cluster, &[backing]);
        }
    });
    cluster.client(0).send("POST", orders, &[], commit).expect(200);
    let gates = ["", "_FLEET_CONFIRMED"]
        .map(|gate| format!("RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2{gate}"));
    sent_as_printed(&mut cluster, "snapshot-v2", |cluster, step| {
        if step == "restart-v2" {
            restarted(cluster, &gates.each_ref().map(|gate| (gate.as_str(), "true")));
        }
    });
    let status = cluster.client(0).get("/firedrill/v1/catalog").expect(200).text();
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["snapshot"]["version"], 2, "{status}");
}
