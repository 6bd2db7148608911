"""restic: backup and restore, each with a node dying, and a check of every byte in between."""

from cluster import bytes_below, make_tree, same_trees, with_a_node_dying


def main(tools):
    if not tools.has("restic"):
        return "there is no restic"
    repository = f"s3:{tools.cluster.endpoints[0]}/restic-repository"

    def restic(*words):
        return tools.run("restic", "-r", repository, "-o", "s3.bucket-lookup=path", *words)

    source = tools.folder / "restic-source"
    total = make_tree(source)
    # Slow enough for a node to die and to come back in the middle.
    pace = 12 * 1024
    restic("init")
    _, moved = tools.stored("restic-repository")
    with_a_node_dying(tools.cluster, "restic: backup", total, moved,
                      lambda: restic("backup", "--limit-upload", pace, source))
    restic("check", "--read-data")
    back = tools.folder / "restic-back"
    with_a_node_dying(tools.cluster, "restic: restore", total, lambda: bytes_below(back),
                      lambda: restic("restore", "latest", "--limit-download", pace, "--target", back),
                      node=1)
    assert not (differ := same_trees(source, back / source.relative_to("/"))), differ
    restic("forget", "latest", "--prune")
