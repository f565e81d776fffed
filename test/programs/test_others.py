# SPDX-License-Identifier: BSD-3-Clause
"""Other programs that call pasta: buildah, rootlesskit (rootless Docker's); and pasta within a container."""
from netbed import HOST, PEER, PYTHON, ROOT, wait_until
from test_podman import SUM_SERVER, md5, tcp_sum


def test_buildah_run(podman):
    """RUN of a build has the network."""
    podman.bed.peer_bg([PYTHON, "-c", SUM_SERVER], ready="^ready")
    script = f"printf 'FROM {podman.image}\\nRUN echo x | socat -t10 - TCP:{PEER[4]}:7000 > /sum\\n' | buildah build --network pasta -t built -f - ."
    podman.machine.user(script, timeout=120)
    assert podman("run", "--rm", "--network", "none", "built", "cat", "/sum").out == md5("x\n")
    podman("rmi", "-f", "built")


def rootlesskit(podman, *args, script):
    return podman.machine.user_bg(["rootlesskit", "--net=pasta", "--port-driver=implicit", "--copy-up=/etc", "--disable-host-loopback", *args,
                                   "sh", "-c", script], ready="^ready", timeout=30)


SERVE = "echo ready; exec socat TCP6-LISTEN:8090,ipv6only=0,fork,reuseaddr EXEC:md5sum"


def test_rootlesskit(podman):
    """Outbound, and whatever listens inside is reached from outside."""
    podman.bed.peer_bg([PYTHON, "-c", SUM_SERVER], ready="^ready")
    rootlesskit(podman, script=f"echo x | socat -t10 - TCP:{PEER[4]}:7000; echo; {SERVE}").wait_line(md5("x\n"))
    wait_until(lambda: ":8090" in podman.machine.root("ss -Hltn").out, 10, "the forwarded port")
    assert tcp_sum(podman.machine.user, HOST[4], 8090, "x") == md5("x")
    assert tcp_sum(podman.bed.peer, HOST[4], 8090, "x") == md5("x")


def test_rootlesskit_detached(podman):
    """The network in a namespace of its own, which outlives single commands."""
    rootlesskit(podman, "--detach-netns", script="nsenter -n\"$ROOTLESSKIT_STATE_DIR/netns\" ip -4 -o addr; echo ready; sleep infinity").wait_line(r"inet 10\.0\.2\.100/24")


def test_pasta_in_a_container(podman):
    """As the root of a container with a user namespace of its own."""
    podman.bed.peer_bg([PYTHON, "-c", SUM_SERVER], ready="^ready")
    podman.machine.put(ROOT / "build/pasta", "/opt/pasta")
    out = podman("run", "--rm", "--privileged", "--network", "pasta", "-v", "/opt/pasta:/usr/local/bin/pasta:ro", podman.image,
                 "pasta", "--config-net", "--", "sh", "-c", f"echo x | socat -t10 - TCP:{PEER[4]}:7000").out
    assert out == md5("x\n")
