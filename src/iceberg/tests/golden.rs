//! What a real server wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::*;

/// The recorded flows, when they are on this machine.
fn recorded() -> Vec<(PathBuf, Value)> {
    let Some(golden) = std::env::var_os("FIREDRILL_GOLDEN") else {
        println!("skipped: FIREDRILL_GOLDEN names no recorded server");
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut folders = vec![Path::new(&golden).join("catalog")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "json") {
                found.extend(
                    serde_json::from_slice(&fs::read(&path).unwrap())
                        .ok()
                        .map(|value| (path, value)),
                );
            }
        }
    }
    found
}

/// Every object below `value` that `is_wanted`.
fn all<'a>(value: &'a Value, is_wanted: &dyn Fn(&Value) -> bool, found: &mut Vec<&'a Value>) {
    if is_wanted(value) {
        found.push(value);
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| all(item, is_wanted, found)),
        Value::Object(members) => members.values().for_each(|item| all(item, is_wanted, found)),
        _ => {}
    }
}

#[test]
fn every_document_of_a_real_server_is_read_and_written_as_it_is() {
    let (mut tables, mut views) = (0, 0);
    for (path, value) in recorded() {
        let mut found = Vec::new();
        all(
            &value,
            &|value| value.get("format-version").is_some() && value.get("schemas").is_some(),
            &mut found,
        );
        for document in found {
            let what = format!("{}: {document}", path.display());
            if document.get("view-uuid").is_some() {
                let view = View::from_document(document.clone())
                    .unwrap_or_else(|error| panic!("{error}: {what}"));
                assert_eq!(View::parse(&view.to_bytes()).unwrap().document(), *document);
                let next = apply_view(&view, &[], 5).unwrap();
                assert_eq!(next.document(), *document, "{what}");
                views += 1;
            } else {
                let table = Metadata::from_document(document.clone())
                    .unwrap_or_else(|error| panic!("{error}: {what}"));
                assert_eq!(Metadata::parse(&table.to_bytes()).unwrap().document(), *document);
                let mut next =
                    apply(&table, &[], &moment(table.last_updated_ms())).unwrap().document();
                next["metadata-log"].as_array_mut().unwrap().pop();
                assert_eq!(next, *document, "{what}");
                tables += 1;
            }
        }
    }
    println!("{tables} tables, {views} views");
    assert!(std::env::var_os("FIREDRILL_GOLDEN").is_none() || (tables > 10 && views > 2));
}

/// Goal: what a real server answered to each creation and commit is what we make of the same request.
#[test]
fn requests_have_the_answers_of_a_real_server() {
    let (mut created, mut committed, mut views) = (0, 0, 0);
    for (path, value) in recorded().into_iter().filter(|(path, _)| path.ends_with("rest-log.json"))
    {
        let mut current: BTreeMap<String, Value> = BTreeMap::new();
        let mut current_views: BTreeMap<String, Value> = BTreeMap::new();
        for exchange in value.as_array().unwrap() {
            let (request, answer) = (&exchange["request"], &exchange["response"]);
            let metadata = &answer["metadata"];
            let is_post = exchange["method"] == "POST" && exchange["status"] == 200;
            if !is_post || metadata.get("schemas").is_none() {
                continue;
            }
            let what = format!("{}: {}", path.display(), exchange["name"]);
            let location = metadata["location"].as_str().unwrap();
            let body = request.to_string();
            if let Some(uuid) = metadata["view-uuid"].as_str() {
                let made = if request.get("view-version").is_some() {
                    let fresh = Fresh { uuid: uuid.parse().unwrap(), now_ms: 5, location };
                    create_view(&CreateView::parse(body.as_bytes()).unwrap(), &fresh).unwrap()
                } else {
                    let Some(old) = current_views.get(uuid) else { continue };
                    let old = View::from_document(old.clone()).unwrap();
                    check_view(request["requirements"].as_array().unwrap(), &old).unwrap();
                    apply_view(&old, request["updates"].as_array().unwrap(), 5).unwrap()
                };
                assert_eq!(made.document(), *metadata, "{what}");
                current_views.insert(uuid.to_owned(), metadata.clone());
                views += 1;
                continue;
            }
            let uuid = metadata["table-uuid"].as_str().unwrap();
            let now_ms = metadata["last-updated-ms"].as_i64().unwrap();
            if request.get("schema").is_some() {
                let fresh = Fresh { uuid: uuid.parse().unwrap(), now_ms, location };
                let made =
                    create_table(&CreateTable::parse(body.as_bytes()).unwrap(), &fresh).unwrap();
                assert_eq!(made.document(), *metadata, "{what}");
                created += 1;
            } else if let Some(old) = current.get(uuid).filter(|old| *old != metadata) {
                let old = Metadata::from_document(old.clone()).unwrap();
                let Some(updates) = request["updates"].as_array() else { continue };
                check(request["requirements"].as_array().unwrap(), &old).unwrap();
                let log = metadata["metadata-log"].as_array().unwrap();
                let previous = log.last().unwrap()["metadata-file"].as_str().unwrap();
                let moment = Moment { now_ms, previous_location: previous };
                let made = apply(&old, updates, &moment).unwrap();
                assert_eq!(made.document(), *metadata, "{what}");
                transition(&old, &made).unwrap();
                committed += 1;
            }
            current.insert(uuid.to_owned(), metadata.clone());
        }
    }
    println!("{created} created, {committed} committed, {views} views");
    assert!(
        std::env::var_os("FIREDRILL_GOLDEN").is_none()
            || (created > 3 && committed > 3 && views > 2)
    );
}
