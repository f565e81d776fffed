# SPDX-License-Identifier: BSD-3-Clause
# Included by the Makefile: what is installed, shown, tested and measured.
#   make test                          everything              make test ONLY='units net'   some steps (test/run.py --help)
#   make test ONLY=net TESTS='-k dns'  arguments for pytest    PASTA=/usr/bin/pasta make test ONLY=net   another pasta
#   make bench ROWS='tcp|rr' ONLY=ours,untranslated ROUNDS=5 SECS=2

BUILD_DEPS := gcc pkg-config libnl-3-dev libnl-route-3-dev libseccomp-dev libcap-ng-dev
RUN_DEPS   := iproute2
TEST_DEPS  := libcmocka-dev python3 python3-pytest python3-scapy python3-pyroute2 iproute2 iputils-ping nftables procps \
	      tcpdump traceroute util-linux groff-base postgresql ethtool dpdk-dev isc-dhcp-client dhcpcd-base udhcpc systemd \
	      zsh fish apparmor checkpolicy debhelper dpkg-dev lintian debootstrap qemu-system-x86 cpio
BENCH_DEPS := python3 iproute2 util-linux passt slirp4netns

# Nothing to do costs one dpkg-query. Elsewhere than on Debian the packages are the user's business.
define install_missing
@command -v dpkg-query >/dev/null || { echo "not Debian: install the equivalents of: $(1)"; exit 0; }; \
missing=; for p in $(1); do \
	case "$$(dpkg-query -W -f='$${db:Status-Abbrev}' $$p 2>/dev/null)" in ii*) ;; *) missing="$$missing $$p";; esac; done; \
[ -z "$$missing" ] && exit 0; \
install="apt-get install -qy --no-install-recommends$$missing"; \
[ "$$(id -u)" = 0 ] && sudo= || sudo=$$(command -v sudo) || { echo "missing, and no sudo here; as root: $$install" >&2; exit 1; }; \
echo "installing:$$missing"; $$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive $$install
endef

deps:
	$(call install_missing,$(BUILD_DEPS) $(RUN_DEPS))
deps-test:
	$(call install_missing,$(BUILD_DEPS) $(TEST_DEPS))
deps-bench:
	$(call install_missing,$(BUILD_DEPS) $(BENCH_DEPS))

# CMD is for the shell: it may say $HOME on make's command line, too.
ifneq ($(origin CMD),undefined)
override CMD := $(value CMD)
export CMD
endif
# Recursion, so that pkg-config is asked after its installation.
run: deps
	@$(MAKE) -s all tools
	@sh test/demo.sh $(B)

tools: $(B)/test/nettool
$(B)/test/nettool: $(patsubst %.c,$(B)/obj/%.o,$(wildcard test/tools/*.c) test/unit/vhost_front.c core/fd.c)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^

kernel: $(patsubst test/kernel/%.c,$(B)/test/kernel/%,$(wildcard test/kernel/*.c))
$(B)/test/kernel/%: $(B)/obj/test/kernel/%.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^

# Each parser's inputs found so far, in test/fuzz/corpus/NAME, run through test/fuzz/fuzz_NAME.c.
FUZZ := $(patsubst test/fuzz/fuzz_%.c,%,$(wildcard test/fuzz/fuzz_*.c))
replay: $(FUZZ:%=$(B)/test/replay_%)
$(B)/test/replay_%: $(B)/obj/test/fuzz/fuzz_%.o $(B)/obj/test/fuzz/replay.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)

# make fuzz-NAME TIME=60: looks for new inputs; one that breaks something is put into the corpus, to stay fixed.
fuzz-%:
	@$(MAKE) -s B=build/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined build/fuzz/obj/test/fuzz/fuzz_$*.o \
		build/fuzz/librooms.a
	clang -fsanitize=fuzzer,address,undefined -o build/fuzz/fuzz_$* build/fuzz/obj/test/fuzz/fuzz_$*.o build/fuzz/librooms.a \
		$(PKG_LIBS)
	@mkdir -p test/fuzz/corpus/$* build/fuzz/corpus/$*
	build/fuzz/fuzz_$* -max_total_time=$(or $(TIME),60) -artifact_prefix=test/fuzz/corpus/$*/ build/fuzz/corpus/$* \
		test/fuzz/corpus/$*

test: deps-test
	@MAKE='$(MAKE)' $(PYTHON) test/run.py $(ONLY) $(if $(TESTS),-- $(TESTS))

bench: deps-bench
	@$(MAKE) -s all tools
	@$(PYTHON) test/bench/bench.py -k '$(ROWS)' --only '$(ONLY)'

.PHONY: deps deps-test deps-bench run tools kernel replay test bench
