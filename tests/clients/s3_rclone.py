"""rclone: copy with a node dying, check against the bytes themselves, and a tree that came back."""

from cluster import KEYS, make_tree, same_trees, with_a_node_dying


def main(tools):
    if not tools.has("rclone"):
        return "there is no rclone"
    settings = {"TYPE": "s3", "PROVIDER": "Other", "ENDPOINT": tools.cluster.endpoints[0],
                "ACCESS_KEY_ID": KEYS["all"][0], "SECRET_ACCESS_KEY": KEYS["all"][1], "REGION": "us-east-1",
                "FORCE_PATH_STYLE": "true", "CHUNK_SIZE": "5Mi", "UPLOAD_CUTOFF": "8Mi"}
    settings = {f"RCLONE_CONFIG_NODE_{name}": value for name, value in settings.items()}

    def rclone(*words):
        return tools.run("rclone", *words, "--config", "", "--retries", "5", "--low-level-retries", "20", **settings)

    source = tools.folder / "rclone-source"
    total = make_tree(source)
    rclone("mkdir", "node:rclone-tree")
    _, moved = tools.stored("rclone-tree")
    with_a_node_dying(tools.cluster, "rclone: copy", total, moved,
                      lambda: rclone("copy", "--bwlimit", "12M", source, "node:rclone-tree"))
    rclone("check", "--download", source, "node:rclone-tree")
    back = tools.folder / "rclone-back"
    rclone("sync", "node:rclone-tree", back)
    assert not (differ := same_trees(source, back)), differ
    rclone("backend", "versioning", "node:rclone-tree", "Enabled")
    (source / "large 0.bin").write_bytes(b"changed")
    rclone("sync", source, "node:rclone-tree")
    old = rclone("lsf", "--files-only", "--s3-versions", "--include", "large 0*", "node:rclone-tree").splitlines()
    assert len(old) == 2, old
    rclone("purge", "node:rclone-tree")
