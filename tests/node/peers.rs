//! Hostile peers: whoever has not the cluster's secret is told nothing, what was said once counts once, and even who has the
//! secret leads no drive out of its root.

use std::fs;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use firedrill::disk::drive::DriveError;
use firedrill::disk::drive::DriveReply;
use firedrill::disk::drive::DriveRequest;
use firedrill::disk::drive::Grant;
use firedrill::disk::drive::Staging;
use firedrill::value::ObjectKey;
use hmac::Hmac;
use hmac::KeyInit as _;
use hmac::Mac as _;
use sha2::Digest as _;
use sha2::Sha256;
use uuid::Uuid;

use crate::client::Answer;
use crate::client::Client;
use crate::process::Cluster;

const SECRET: &[u8] = b"cluster-secret";
const LAYOUT: &str = "drives 4,4,4; sets of 12; parity 4";

fn started() -> Cluster {
    let mut cluster = Cluster::new(3, 4);
    for node in 0..3 {
        cluster.start(node);
    }
    for node in 0..3 {
        cluster.wait_ready(node);
    }
    cluster
}

fn mac(key: &[u8], fields: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    fields.iter().for_each(|field| mac.update(field));
    mac.finalize().into_bytes().to_vec()
}

/// What a peer's request says of itself, and by which secret.
struct Said<'a> {
    secret: &'a [u8],
    layout: &'a str,
    path: &'a str,
    from: usize,
    to: usize,
    late_ms: i64,
    nonce: [u8; 16],
}

impl Said<'_> {
    /// The proof in its header, made here from the protocol's words alone.
    fn proof(&self, body: &[u8]) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let at_ms =
            i64::try_from(since.as_millis()).expect("before the end of time") - self.late_ms;
        let body = hex::encode(Sha256::digest(body));
        let words =
            format!("1 {} {} {at_ms} {} {body}", self.from, self.to, hex::encode(self.nonce));
        let key = mac(self.secret, &[b"firedrill cluster 1\n", self.layout.as_bytes()]);
        let mut message = Vec::new();
        for field in ["request", "POST", self.path, words.as_str()] {
            message.extend_from_slice(&(field.len() as u64).to_be_bytes());
            message.extend_from_slice(field.as_bytes());
        }
        format!("{words} {}", hex::encode(mac(&key, &[&message])))
    }
}

fn said(path: &str) -> Said<'_> {
    let nonce = *Uuid::new_v4().as_bytes();
    Said { secret: SECRET, layout: LAYOUT, path, from: 1, to: 0, late_ms: 0, nonce }
}

fn send(client: &Client, path: &str, proof: &str, body: &[u8]) -> Answer {
    client.send("POST", path, &[("x-firedrill-peer", proof)], body)
}

/// Goal: the secret, the addressee, the time, the path and the body are each looked at, and a request counts once.
#[test]
fn a_request_counts_for_who_proves_it_and_once() {
    let cluster = started();
    let client = cluster.client(0);
    let path = "/firedrill/v1/peer/state";
    let good = said(path).proof(b"");
    send(&client, path, &good, b"").expect(200);
    for _ in 0..3 {
        let again = send(&client, path, &good, b"").expect(403);
        assert!(again.text().contains("used already"), "{again}");
    }
    let wrong: [(&str, Said<'_>); 8] = [
        ("another secret", Said { secret: b"guess", ..said(path) }),
        ("no secret", Said { secret: b"", ..said(path) }),
        ("another layout", Said { layout: "drives 4,4,4; sets of 4; parity 2", ..said(path) }),
        ("another addressee", Said { to: 1, ..said(path) }),
        ("from itself", Said { from: 0, ..said(path) }),
        ("from nobody", Said { from: 7, ..said(path) }),
        ("long ago", Said { late_ms: 600_000, ..said(path) }),
        ("not yet", Said { late_ms: -600_000, ..said(path) }),
    ];
    for (what, wrong) in wrong {
        let answer = send(&client, path, &wrong.proof(b""), b"");
        assert_eq!(answer.status, 403, "{what}: {answer}");
    }
    let other = said("/firedrill/v1/peer/lock").proof(b"");
    send(&client, path, &other, b"").expect(403);
    send(&client, path, &said(path).proof(b"one body"), b"another").expect(403);
    for nonsense in ["", "1", "1 1 0 x y z", &"a ".repeat(3_000), &good.replace('1', "\u{fc}")] {
        send(&client, path, nonsense, b"").expect(403);
    }
    client.put("/bucket", b"").expect(200);
    client.put("/bucket/k", b"x").expect(200);
    assert_eq!(cluster.client(2).get("/bucket/k").expect(200).body, b"x");
}

/// Goal: with the right secret too, no path leads out of a drive, and nonsense is refused in words.
#[test]
fn whoever_knows_the_secret_still_stays_in_the_drive() {
    let cluster = started();
    let client = cluster.client(0);
    client.put("/bucket", b"").expect(200);
    client.put("/bucket/k", &vec![3; 500_000]).expect(200);
    let outside = cluster.folder.path().join("outside");
    fs::create_dir_all(&outside).expect("a folder");
    fs::write(outside.join("xl.meta"), "not for peers").expect("written");
    let path = "/firedrill/v1/peer/drive/0";
    let ask = |request: &DriveRequest| {
        let body = rmp_serde::to_vec_named(request).expect("plain data");
        let answer = send(&client, path, &said(path).proof(&body), &body).expect(200);
        rmp_serde::from_slice::<Result<DriveReply, DriveError>>(&answer.body).expect("an answer")
    };
    assert!(matches!(ask(&DriveRequest::Facts), Ok(DriveReply::Facts(_))), "it is let in");
    let key =
        |bucket: &str, key: &str| ObjectKey { bucket: bucket.to_owned(), key: key.to_owned() };
    let names = ["../outside", "../../outside", "..", "/etc", "a/../../outside", "a\0b", "", "."];
    let (id, lock) = (Uuid::new_v4(), Uuid::new_v4());
    let staging = Staging { id, data_dir: id };
    let mut requests = Vec::new();
    for name in names {
        for target in [key("bucket", name), key(name, "k"), key(".rustfs.sys", name)] {
            let grant = Grant { resource: target.clone(), lock };
            requests.push(DriveRequest::ReadKey {
                target: target.clone(),
                inline: true,
                brief: false,
            });
            requests.push(DriveRequest::ReadShard {
                target: target.clone(),
                data_dir: id,
                part: 1,
                offset: 0,
                length: u32::MAX,
            });
            requests.push(DriveRequest::StatParts {
                target: target.clone(),
                data_dir: id,
                parts: vec![1],
            });
            requests.push(DriveRequest::ReadParts { upload: target.clone(), data_dir: id });
            requests
                .push(DriveRequest::RemoveUpload { grant: grant.clone(), upload: target.clone() });
            requests.push(DriveRequest::Seal {
                staging,
                target,
                kind: firedrill::disk::drive::CommitKind::Put,
            });
            requests
                .push(DriveRequest::MakeBucket { grant: grant.clone(), bucket: name.to_owned() });
            requests.push(DriveRequest::RemoveBucket { grant, bucket: name.to_owned() });
        }
        requests.push(DriveRequest::Swap {
            path: name.to_owned(),
            expected: None,
            new: Some(b"x".to_vec().into()),
        });
        requests.push(DriveRequest::RecordPut { name: name.to_owned(), bytes: b"x".to_vec() });
        requests.push(DriveRequest::RecordRead { name: name.to_owned() });
        requests.push(DriveRequest::RecordRemove { name: name.to_owned() });
        requests.push(DriveRequest::Walk {
            bucket: name.to_owned(),
            prefix: String::new(),
            after: String::new(),
            limit: u32::MAX,
        });
        let prefix = format!("{name}/");
        requests.push(DriveRequest::Walk {
            bucket: "bucket".to_owned(),
            prefix,
            after: String::new(),
            limit: 10,
        });
    }
    for request in &requests {
        match ask(request) {
            Err(_) | Ok(DriveReply::Done) => {}
            Ok(DriveReply::Page(page)) => assert!(page.entries.is_empty(), "{request:?}: {page:?}"),
            Ok(DriveReply::Key(key)) => assert!(key.meta.is_none(), "{request:?}"),
            Ok(DriveReply::Lengths(lengths)) => assert_eq!(lengths, [None], "{request:?}"),
            Ok(DriveReply::Parts(parts)) => assert!(parts.is_empty(), "{request:?}"),
            Ok(reply) => panic!("{request:?}: {reply:?}"),
        }
    }
    assert_eq!(fs::read_to_string(outside.join("xl.meta")).expect("still there"), "not for peers");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 1);

    let nonsense: [(&str, &[u8], u16); 7] = [
        (path, b"", 400),
        (path, &[0xdf, 0xff, 0xff, 0xff, 0xff], 400),
        (path, &[0x91; 100_000], 400),
        ("/firedrill/v1/peer/lock", b"\xc1", 400),
        ("/firedrill/v1/peer/drive/99", b"\xa5Facts", 404),
        ("/firedrill/v1/peer/drive/../drive/0", b"\xa5Facts", 404),
        ("/firedrill/v1/peer/drive/0/..", b"\xa5Facts", 404),
    ];
    for (path, body, status) in nonsense {
        let answer = send(&client, path, &said(path).proof(body), body);
        assert_eq!(answer.status, status, "{path}: {answer}");
    }
    let large = vec![0; 9 << 20];
    let answer = send(&client, path, &said(path).proof(&large), &large);
    assert_eq!(answer.status, 413, "{answer}");
    assert!(client.get("/bucket/k").expect(200).body == vec![3; 500_000]);
    client.put("/bucket/k", b"as before").expect(200);
}
