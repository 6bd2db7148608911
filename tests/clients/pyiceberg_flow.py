#!/usr/bin/env python3
"""A stock PyIceberg against the table catalog: before a cutover, over it, and after it.

Run by `tests/clients/run pyiceberg` against three nodes of four drives. Both prefixes and both signing names are used,
in object backing and, after a migration and a restart, in durable-strong backing. Nothing in the client is patched.
"""

import http.client
import json
import urllib.parse

from cluster import KEYS, NODES, wait_for

WAREHOUSE = "lake"
FACES = (("/iceberg", "s3"), ("/_iceberg", "s3tables"))


def signed(endpoint, method, path, body=b"", service="s3"):
    """One signed request; answers status and document."""
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
    key, secret, _ = KEYS["all"]
    request = botocore.awsrequest.AWSRequest(method=method, url=endpoint + path, data=body)
    credentials = botocore.credentials.Credentials(key, secret)
    botocore.auth.S3SigV4Auth(credentials, service, "us-east-1").add_auth(request)
    host = urllib.parse.urlsplit(endpoint).netloc
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request(method, path, body=body, headers=dict(request.headers.items()))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()


def asked(endpoint, method, path, expected=200):
    status, document = signed(endpoint, method, path)
    assert status == expected, f"{method} {path} answered {status} and not {expected}: {document}"
    return document


def catalog(endpoint, face, service):
    """The client as its users configure it: no patch, no header of its own."""
    from pyiceberg.catalog import load_catalog
    key, secret, _ = KEYS["all"]
    return load_catalog("lake", **{
        "type": "rest", "uri": endpoint + face, "warehouse": WAREHOUSE,
        "rest.sigv4-enabled": "true", "rest.signing-name": service, "rest.signing-region": "us-east-1",
        "client.access-key-id": key, "client.secret-access-key": secret, "client.region": "us-east-1",
        "s3.endpoint": endpoint, "s3.access-key-id": key, "s3.secret-access-key": secret, "s3.region": "us-east-1",
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    })


def rows(numbers):
    import pyarrow as pa
    names = [f"row {number}" for number in numbers]
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": pa.array(names, pa.string())})


def flow(lake, namespace):
    """Create, append, change the schema, scan, list, collide; answers what the table must hold from now on."""
    from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
    from pyiceberg.types import StringType
    lake.create_namespace(namespace, {"owner": "rehearsal"})
    try:
        lake.create_namespace(namespace)
        raise AssertionError("a namespace was created twice")
    except NamespaceAlreadyExistsError:
        pass
    assert lake.load_namespace_properties(namespace)["owner"] == "rehearsal"
    table = lake.create_table((*namespace, "orders"), schema=rows([]).schema)
    table.append(rows([1, 2, 3]))
    table.append(rows([4, 5]))
    with table.update_schema() as update:
        update.add_column("note", StringType())
    found = lake.load_table((*namespace, "orders"))
    assert sorted(found.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert [field.name for field in found.schema().fields] == ["id", "name", "note"]
    assert (*namespace, "orders") in lake.list_tables(namespace)

    # Two writers from one base: the second is told, or goes on from what the first has made.
    late = lake.load_table((*namespace, "orders"))
    found.append(rows([6]))
    try:
        late.append(rows([7]))
    except CommitFailedException:
        late.refresh()
        late.append(rows([7]))
    held = lake.load_table((*namespace, "orders"))
    assert sorted(held.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    assert len(held.metadata.snapshots) == 4, "a commit was lost or done twice"

    lake.create_table((*namespace, "passing"), schema=rows([]).schema)
    assert lake.table_exists((*namespace, "passing"))
    lake.drop_table((*namespace, "passing"))
    assert not lake.table_exists((*namespace, "passing"))
    try:
        lake.load_table((*namespace, "passing"))
        raise AssertionError("a dropped table was loaded")
    except NoSuchTableError:
        pass
    return [1, 2, 3, 4, 5, 6, 7]


def view(endpoint, face, namespace):
    """A view over the REST routes: PyIceberg lists and drops views, and creates none."""
    column = {"id": 1, "name": "id", "required": False, "type": "long"}
    body = {"name": "recent", "schema": {"type": "struct", "schema-id": 0, "fields": [column]},
            "view-version": {"version-id": 1, "timestamp-ms": 1_700_000_000_000, "schema-id": 0, "summary": {},
                             "default-namespace": list(namespace),
                             "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}]},
            "properties": {}}
    path = f"{face}/v1/{WAREHOUSE}/namespaces/{'%1F'.join(namespace)}/views"
    status, document = signed(endpoint, "POST", path, json.dumps(body).encode())
    assert status == 200, f"a view was not created: {status} {document}"


def checked(lake, namespace, expected):
    table = lake.load_table((*namespace, "orders"))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected, f"{namespace} holds something else"
    assert (*namespace, "recent") in lake.list_views(namespace)
    return table


def main(tools):
    from pyiceberg.exceptions import ServiceUnavailableError
    cluster = tools.cluster
    first = cluster.endpoints[0]
    s3, _ = tools.stored(WAREHOUSE)
    s3.create_bucket(Bucket=WAREHOUSE)
    for endpoint in cluster.endpoints:
        asked(endpoint, "PUT", f"/iceberg/v1/buckets/{WAREHOUSE}")

    held = {}
    for node, (face, service) in enumerate(FACES):
        lake = catalog(cluster.endpoints[node], face, service)
        # The second has two levels: its paths are encoded twice before they are signed.
        namespace = ("sales",) if node == 0 else ("dept", "team")
        held[namespace] = flow(lake, namespace)
        view(first, face, namespace)
        checked(lake, namespace, held[namespace])
    print("pyiceberg: object backing, both prefixes: create, append, schema, scan, view, conflict: as expected")

    migration = f"/iceberg/v1/{WAREHOUSE}/catalog/migration"
    asked(first, "POST", f"/firedrill/v1/catalog/backfill?warehouse={WAREHOUSE}")
    report = asked(first, "GET", migration)
    assert report["status"] == "READY_TO_SNAPSHOT", report
    executed = asked(first, "POST", migration)
    assert executed["ready_to_enable_durable_strong"], executed
    fenced = catalog(first, *FACES[0])
    try:
        fenced.create_namespace_if_not_exists(("late",))
        raise AssertionError("a namespace was created while the catalog is fenced, or the client believes so")
    except ServiceUnavailableError:
        pass
    for namespace, expected in held.items():
        checked(fenced, namespace, expected)

    for node in range(NODES):
        cluster.configure(node, catalog={"RUSTFS_TABLE_CATALOG_BACKING": "durable-strong"})
    for node in range(NODES):
        cluster.kill(node)
    cluster.start_all()
    for endpoint in cluster.endpoints:
        config = asked(endpoint, "GET", f"/iceberg/v1/config?warehouse={WAREHOUSE}")
        assert config["overrides"]["rustfs.catalog-backing"] == "durable-strong"
        wait_for("the catalog being opened", lambda: signed(endpoint, "POST", "/firedrill/v1/catalog/admit")[0] == 200)

    for node, (face, service) in enumerate(FACES):
        lake = catalog(cluster.endpoints[node + 1], face, service)
        for namespace, expected in held.items():
            table = checked(lake, namespace, expected)
            table.append(rows([100 + node]))
            expected.append(100 + node)
            checked(lake, namespace, expected)
        after = ("after", f"face{node}")
        held_after = flow(lake, after)
        view(first, face, after)
        checked(lake, after, held_after)
        lake.rename_table((*after, "orders"), (*after, "renamed"))
        assert lake.table_exists((*after, "renamed"))
    print("pyiceberg: after the cutover, both prefixes: what was there is there, and all of it goes on: as expected")
