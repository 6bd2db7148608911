"""The AWS CLI: a walk through the calls of s3api, then a tree there and back."""

import json

from cluster import make_tree, same_trees, with_a_node_dying


def main(tools):
    if not tools.has("aws"):
        return "there is no aws"
    endpoint = tools.cluster.endpoints[0]

    def aws(*words):
        return tools.run("aws", "--endpoint-url", endpoint, *words)

    def api(*words):
        return json.loads(aws("s3api", *words, "--output", "json") or "{}")

    aws("s3", "mb", "s3://aws-walk")
    api("put-bucket-versioning", "--bucket", "aws-walk", "--versioning-configuration", "Status=Enabled")
    source = tools.folder / "aws-source"
    total = make_tree(source)
    body = source / "large 0.bin"
    first = api("put-object", "--bucket", "aws-walk", "--key", "a b/ü", "--body", body,
                "--checksum-algorithm", "SHA256", "--tagging", "level=1")
    api("put-object-tagging", "--bucket", "aws-walk", "--key", "a b/ü",
        "--tagging", "TagSet=[{Key=level,Value=2}]")
    tags = api("get-object-tagging", "--bucket", "aws-walk", "--key", "a b/ü")["TagSet"]
    assert tags == [{"Key": "level", "Value": "2"}], tags
    head = api("head-object", "--bucket", "aws-walk", "--key", "a b/ü", "--checksum-mode", "ENABLED")
    assert head["ChecksumSHA256"] == first["ChecksumSHA256"] and head["VersionId"] == first["VersionId"], head
    marker = api("delete-object", "--bucket", "aws-walk", "--key", "a b/ü")
    assert marker["DeleteMarker"], marker
    listed = api("list-object-versions", "--bucket", "aws-walk")
    assert [it["IsLatest"] for it in listed["DeleteMarkers"] + listed["Versions"]] == [True, False], listed
    got = tools.folder / "aws-got"
    api("get-object", "--bucket", "aws-walk", "--key", "a b/ü", "--version-id", first["VersionId"], got)
    assert got.read_bytes() == body.read_bytes(), "an old version has other bytes"

    # Slow enough for a node to die and to come back in the middle.
    tools.run("aws", "configure", "set", "default.s3.max_bandwidth", "8MB/s")
    aws("s3", "mb", "s3://aws-tree")
    _, moved = tools.stored("aws-tree")
    with_a_node_dying(tools.cluster, "aws: cp --recursive", total, moved,
                      lambda: aws("s3", "cp", "--recursive", "--only-show-errors", source, "s3://aws-tree/"))
    back = tools.folder / "aws-back"
    aws("s3", "sync", "--only-show-errors", "s3://aws-tree/", back)
    assert not (differ := same_trees(source, back)), differ
    aws("s3", "rb", "--force", "s3://aws-tree")
