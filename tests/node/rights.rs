//! Grants and policies between accounts, through the sockets of two nodes.

use std::thread;
use std::time::Duration;

use firedrill::protocol::config::Principal;

use crate::client::Client;
use crate::process::Cluster;

/// How long another node may go by what it knew.
const FRESH: Duration = Duration::from_millis(1_200);

/// A cluster with two principals of other accounts; one may only read.
fn cluster() -> (Cluster, Client, Client, Client) {
    let mut cluster = Cluster::new(2, 2);
    let folder = cluster.folder.path().to_owned();
    cluster.configure(|config| {
        for (name, actions) in [("other", "*"), ("guest", "s3:GetObject")] {
            let secret_file = folder.join(name);
            std::fs::write(&secret_file, "secret").expect("written");
            let (actions, account) = (vec![actions.to_owned()], Some(name.to_owned()));
            config.principals.insert(name.to_owned(), Principal { secret_file, actions, account });
        }
    });
    for node in 0..2 {
        cluster.start(node);
    }
    for node in 0..2 {
        cluster.wait_ready(node);
    }
    let (owner, other) = (cluster.client(0), cluster.client_of(1, "other", "secret"));
    let guest = cluster.client_of(1, "guest", "secret");
    (cluster, owner, other, guest)
}

#[test]
fn what_another_account_owns_is_closed_until_it_opens_it() {
    let (_cluster, owner, other, guest) = cluster();
    owner.put("/bucket", b"").expect(200);
    owner.put("/bucket/k", b"x").expect(200);
    for target in
        ["/bucket", "/bucket?acl", "/bucket?policy", "/bucket/k", "/bucket/k?acl", "/bucket/never"]
    {
        other.get(target).expect(403);
        other.plain("GET", target).expect("an answer").expect(403);
    }
    other.put("/bucket/k", b"y").expect(403);
    other.delete("/bucket/k").expect(403);
    assert_eq!(other.put("/bucket", b"").expect(409).element("Code"), "BucketAlreadyExists");
    assert_eq!(other.get("/").expect(200).elements("Name"), Vec::<String>::new());
    other.put("/mine", b"").expect(200);
    owner.get("/mine").expect(403);
    let copy = [("x-amz-copy-source", "/bucket/k")];
    other.send("PUT", "/mine/k", &copy, b"").expect(403);

    let public = [("x-amz-acl", "public-read")];
    owner.send("PUT", "/bucket/k?acl", &public, b"").expect(200);
    other.send("PUT", "/mine/k", &copy, b"").expect(200);
    assert_eq!(guest.get("/bucket/k").expect(200).body, b"x");
    assert_eq!(other.plain("GET", "/bucket/k").expect("an answer").expect(200).body, b"x");
    other.put("/bucket/k", b"y").expect(403);
    // What is written anew is closed again, and a copy takes no grants along.
    owner.send("PUT", "/bucket/copy", &copy, b"").expect(200);
    guest.get("/bucket/copy").expect(403);
    owner.put("/bucket/k", b"z").expect(200);
    guest.get("/bucket/k").expect(403);

    owner.send("PUT", "/bucket?acl", &[("x-amz-acl", "public-read-write")], b"").expect(200);
    thread::sleep(FRESH);
    other.put("/bucket/theirs", b"t").expect(200);
    assert_eq!(other.get("/bucket/theirs?acl").expect(200).elements("ID")[0], "other");
    guest.put("/bucket/guests", b"").expect(403);
    let keys = guest.get("/bucket").expect(403);
    assert_eq!(
        keys.element("Code"),
        "AccessDenied",
        "a grant does not outdo a principal's actions"
    );
    owner.send("PUT", "/bucket?acl", &[("x-amz-acl", "log-delivery-write")], b"").expect(501);
    owner.send("PUT", "/bucket?acl", &[("x-amz-acl", "nonsense")], b"").expect(400);
}

#[test]
fn a_policy_opens_and_a_denial_outranks_it() {
    let (_cluster, owner, other, guest) = cluster();
    owner.put("/bucket", b"").expect(200);
    owner.send("PUT", "/bucket/k", &[("x-amz-tagging", "level=public")], b"x").expect(200);
    owner.put("/bucket/plain", b"x").expect(200);
    let policy = |text: &str| {
        let text = format!(r#"{{"Version":"2012-10-17","Statement":[{text}]}}"#);
        owner.send("PUT", "/bucket?policy", &[], text.as_bytes()).expect(204);
        thread::sleep(FRESH);
    };
    policy(
        r#"{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::other:root"},"Action":"s3:GetObject","Resource":
        "arn:aws:s3:::bucket/*","Condition":{"StringEquals":{"s3:ExistingObjectTag/level":"public"}}}"#,
    );
    other.get("/bucket/k").expect(200);
    other.get("/bucket/plain").expect(403);
    other.get("/bucket/never").expect(403);
    guest.get("/bucket/k").expect(403);
    policy(
        r#"{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::bucket/*"},
        {"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}"#,
    );
    other.plain("GET", "/bucket/plain").expect("an answer").expect(200);
    owner.delete("/bucket/plain").expect(403);
    let many = b"<Delete><Object><Key>plain</Key></Object></Delete>";
    let told =
        owner.send("POST", "/bucket?delete", &[("content-md5", "vnOHnm9/bnU8i8Zcjojt3w==")], many);
    assert_eq!(told.expect(200).element("Code"), "AccessDenied");
    owner.get("/bucket/plain").expect(200);
    owner.send("DELETE", "/bucket?policy", &[], b"").expect(204);
    owner.delete("/bucket/plain").expect(204);
}
