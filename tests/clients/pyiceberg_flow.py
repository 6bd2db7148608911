#!/usr/bin/env python3
"""A stock PyIceberg against the table catalog: before a cutover, under its fence, and after it.

    pyiceberg_flow.py before|fenced|after

Where the catalog is stands in the variables FIREDRILL_ENDPOINTS (separated by commas), FIREDRILL_WAREHOUSE (a table
bucket, empty before the first part), FIREDRILL_ACCESS_KEY and FIREDRILL_SECRET_KEY. Both prefixes and both signing
names are used; nothing in the client is patched. Ends with 0 when all is as expected, with 1 when it is not, and
with 5 when the client is not installed. What cuts the catalog over in between is the caller's: a scenario, or `main`
for `tests/clients/run pyiceberg`.
"""

import http.client
import json
import os
import sys
import time
import urllib.parse

FACES = (("/iceberg", "s3"), ("/_iceberg", "s3tables"))
# The second has two levels: its paths are encoded twice before they are signed.
SPACES = (("sales",), ("dept", "team"))
# What the table of each namespace holds before the cutover.
HELD = [1, 2, 3, 4, 5, 6, 7]


class Place:
    """Where the catalog is, and who asks."""

    def __init__(self, endpoints, warehouse, key, secret):
        self.endpoints, self.warehouse, self.key, self.secret = endpoints, warehouse, key, secret

    def signed(self, endpoint, method, path, body=b"", service="s3"):
        """One signed request; answers status and document."""
        import botocore.auth
        import botocore.awsrequest
        import botocore.credentials
        request = botocore.awsrequest.AWSRequest(method=method, url=endpoint + path, data=body)
        credentials = botocore.credentials.Credentials(self.key, self.secret)
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

    def asked(self, endpoint, method, path, expected=200):
        status, document = self.signed(endpoint, method, path)
        assert status == expected, f"{method} {path} answered {status} and not {expected}: {document}"
        return document

    def catalog(self, node, face, service):
        """The client as its users configure it: no patch, no header of its own."""
        from pyiceberg.catalog import load_catalog
        endpoint = self.endpoints[node % len(self.endpoints)]
        return load_catalog(self.warehouse, **{
            "type": "rest", "uri": endpoint + face, "warehouse": self.warehouse,
            "rest.sigv4-enabled": "true", "rest.signing-name": service, "rest.signing-region": "us-east-1",
            "client.access-key-id": self.key, "client.secret-access-key": self.secret, "client.region": "us-east-1",
            "s3.endpoint": endpoint, "s3.access-key-id": self.key, "s3.secret-access-key": self.secret,
            # On a machine under load an answer may take longer than the three seconds that are the default.
            "s3.connect-timeout": "60", "s3.request-timeout": "60",
            "s3.region": "us-east-1", "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        })

    def known_everywhere(self):
        """Waits until every node knows the warehouse: the others are told within a second."""
        until = time.monotonic() + 30
        for endpoint in self.endpoints:
            while self.signed(endpoint, "GET", f"/iceberg/v1/buckets/{self.warehouse}")[0] != 200:
                assert time.monotonic() < until, f"{endpoint} does not know {self.warehouse}"
                time.sleep(0.1)


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


def view(place, face, namespace):
    """A view over the REST routes: PyIceberg lists and drops views, and creates none."""
    column = {"id": 1, "name": "id", "required": False, "type": "long"}
    body = {"name": "recent", "schema": {"type": "struct", "schema-id": 0, "fields": [column]},
            "view-version": {"version-id": 1, "timestamp-ms": 1_700_000_000_000, "schema-id": 0, "summary": {},
                             "default-namespace": list(namespace),
                             "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}]},
            "properties": {}}
    path = f"{face}/v1/{place.warehouse}/namespaces/{'%1F'.join(namespace)}/views"
    status, document = place.signed(place.endpoints[0], "POST", path, json.dumps(body).encode())
    assert status == 200, f"a view was not created: {status} {document}"


def checked(lake, namespace, expected):
    table = lake.load_table((*namespace, "orders"))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected, f"{namespace} holds something else"
    assert (*namespace, "recent") in lake.list_views(namespace)
    return table


def before(place):
    """Everything that a client does, in object backing, by both prefixes."""
    place.known_everywhere()
    for node, ((face, service), namespace) in enumerate(zip(FACES, SPACES)):
        config = place.asked(place.endpoints[node % len(place.endpoints)], "GET",
                             f"{face}/v1/config?warehouse={place.warehouse}")
        assert config["overrides"].get("rustfs.catalog-backing", "object") == "object", config
        lake = place.catalog(node, face, service)
        assert flow(lake, namespace) == HELD
        view(place, face, namespace)
        checked(lake, namespace, HELD)
    return "object backing, both prefixes: create, append, schema, scan, view, conflict"


def fenced(place):
    """Under the fence of a migration: what is there is read, and a creation is an error that the client takes for one."""
    from pyiceberg.exceptions import ServiceUnavailableError
    for node, (face, service) in enumerate(FACES):
        lake = place.catalog(node, face, service)
        try:
            lake.create_namespace_if_not_exists(("late",))
            raise AssertionError("a namespace was created while the catalog is fenced, or the client believes so")
        except ServiceUnavailableError:
            pass
        for namespace in SPACES:
            checked(lake, namespace, HELD)
    return "under the fence, both prefixes: reads go on, a creation is refused as what it is"


def after(place):
    """In durable-strong backing: what was there is there, goes on, and everything is done anew."""
    expected = {namespace: list(HELD) for namespace in SPACES}
    for endpoint in place.endpoints:
        config = place.asked(endpoint, "GET", f"/iceberg/v1/config?warehouse={place.warehouse}")
        assert config["overrides"]["rustfs.catalog-backing"] == "durable-strong", config
    for node, (face, service) in enumerate(FACES):
        lake = place.catalog(node + 1, face, service)
        for namespace, numbers in expected.items():
            table = checked(lake, namespace, numbers)
            table.append(rows([100 + node]))
            numbers.append(100 + node)
            checked(lake, namespace, numbers)
        anew = ("after", f"face{node}")
        held = flow(lake, anew)
        view(place, face, anew)
        checked(lake, anew, held)
        lake.rename_table((*anew, "orders"), (*anew, "renamed"))
        assert lake.table_exists((*anew, "renamed"))
    return "durable-strong backing, both prefixes: what was there is there, and all of it goes on"


PARTS = {part.__name__: part for part in (before, fenced, after)}


def main(tools):
    """All parts against the cluster of `tests/clients/run`, which is cut over in between."""
    from cluster import KEYS, NODES, wait_for
    cluster = tools.cluster
    key, secret, _ = KEYS["all"]
    place = Place(cluster.endpoints, "lake", key, secret)
    first = cluster.endpoints[0]
    s3, _ = tools.stored(place.warehouse)
    s3.create_bucket(Bucket=place.warehouse)
    place.asked(first, "PUT", f"/iceberg/v1/buckets/{place.warehouse}")
    print(f"pyiceberg: {before(place)}: as expected")

    migration = f"/iceberg/v1/{place.warehouse}/catalog/migration"
    place.asked(first, "POST", f"/firedrill/v1/catalog/backfill?warehouse={place.warehouse}")
    report = place.asked(first, "GET", migration)
    assert report["status"] == "READY_TO_SNAPSHOT", report
    executed = place.asked(first, "POST", migration)
    assert executed["ready_to_enable_durable_strong"], executed
    print(f"pyiceberg: {fenced(place)}: as expected")

    for node in range(NODES):
        cluster.configure(node, catalog={"RUSTFS_TABLE_CATALOG_BACKING": "durable-strong"})
    for node in range(NODES):
        cluster.kill(node)
    cluster.start_all()
    for endpoint in cluster.endpoints:
        wait_for("the catalog being opened",
                 lambda: place.signed(endpoint, "POST", "/firedrill/v1/catalog/admit")[0] == 200)
    print(f"pyiceberg: {after(place)}: as expected")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        print(__doc__, file=sys.stderr)
        sys.exit(64)
    try:
        import botocore  # noqa: F401
        import pyarrow  # noqa: F401
        import pyiceberg
    except ImportError as missing:
        print(f"the client is not installed: {missing}", file=sys.stderr)
        sys.exit(5)
    told = PARTS[sys.argv[1]](Place(os.environ["FIREDRILL_ENDPOINTS"].split(","), os.environ["FIREDRILL_WAREHOUSE"],
                                    os.environ["FIREDRILL_ACCESS_KEY"], os.environ["FIREDRILL_SECRET_KEY"]))
    print(f"pyiceberg {pyiceberg.__version__}: {told}")
