# SPDX-License-Identifier: BSD-3-Clause
# make deps       installs what make needs          make test      everything, with what it needs
# make            programs in build/                make bench     figures next to the reference
# make run        both, and a demonstration         make clean
# make install    DESTDIR= prefix=/usr/local        make layers globals format   keep the shape
# make deb        a package, in build/deb

# Not ?=, which make's own default, cc, counts for.
ifeq ($(origin CC),default)
CC	:= gcc
endif
PYTHON	?= /usr/bin/python3
prefix	?= /usr/local
bindir	?= $(prefix)/bin
mandir	?= $(prefix)/share/man
bashdir	?= $(prefix)/share/bash-completion/completions
zshdir	?= $(prefix)/share/zsh/site-functions
fishdir	?= $(prefix)/share/fish/vendor_completions.d
VERSION	:= 0.1
# A build with other tools or flags goes to a folder of its own: make B=build/asan SANITIZE=address,undefined
B	?= build

ROOMS	:= core wire nat tap tcp udp icmp host seccomp pasta passt
PKGS	:= libnl-3.0 libnl-route-3.0 libseccomp libcap-ng

WARN	:= -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wconversion -Wno-sign-conversion -Wvla \
	   -Wpointer-arith -Wwrite-strings
CFLAGS	?= -O2 -g
LDFLAGS	?= -Wl,-z,relro,-z,now -pie
ifdef SANITIZE
# Not added to CFLAGS: those may come from the command line, which += wouldn't change.
HARDEN	:= -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
LDFLAGS	+= -fsanitize=$(SANITIZE)
else
HARDEN	:= -fstack-protector-strong -D_FORTIFY_SOURCE=2
endif
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -I. $(WARN) $(WERROR) -fPIE $(PKG_CFLAGS) $(CFLAGS) $(HARDEN)
# Asked for once, and only if something is compiled.
PKG_CFLAGS = $(eval PKG_CFLAGS := $(if $(HAVE_PKGS),$(shell pkg-config --cflags $(PKGS) | sed 's/-I/-isystem /g')))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $(if $(HAVE_PKGS),$(shell pkg-config --libs $(PKGS))))$(PKG_LIBS)
HAVE_PKGS  = $(or $(shell pkg-config --exists $(PKGS) && echo yes),$(error no pkg-config, or not all of $(PKGS): "make deps" installs them))
# Another compiler or other flags make the objects anew; WERROR changes none.
BUILT_WITH := $(strip $(CC) $(CFLAGS) $(HARDEN) $(LDFLAGS) $(VERSION))

SRCS	:= $(foreach r,$(ROOMS),$(wildcard $(r)/*.c))
OBJS	:= $(SRCS:%.c=$(B)/obj/%.o)
LIB	:= $(B)/librooms.a
UNIT	:= $(patsubst test/unit/%.c,$(B)/test/%,$(wildcard test/unit/test_*.c))

all: $(B)/passt $(B)/pasta

$(B)/passt: $(B)/obj/passt/main.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)
$(B)/pasta: $(B)/passt
	ln -sf passt $@
$(LIB): $(filter-out $(B)/obj/passt/main.o,$(OBJS))
	@rm -f $@
	ar rcs $@ $^
$(B)/obj/%.o: %.c $(B)/built-with
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
ifneq ($(file <$(B)/built-with),$(BUILT_WITH))
.PHONY: $(B)/built-with
endif
$(B)/built-with:
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(BUILT_WITH))' >$@
# test/unit/test_X.c is a program; what else is there is shared by them.
$(B)/libtest.a: $(patsubst %.c,$(B)/obj/%.o,$(filter-out test/unit/test_%,$(wildcard test/unit/*.c)))
	@rm -f $@
	ar rcs $@ $^
$(B)/test/%: $(B)/obj/test/unit/%.o $(B)/libtest.a $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lcmocka

unit: $(UNIT)
	@for t in $(UNIT); do echo "== $$t"; $$t || exit 1; done

# What keeps the shape: who includes whom, no writable globals, one way to lay out code.
layers:
	@$(PYTHON) test/layers.py
globals: $(OBJS)
	@$(PYTHON) test/globals.py $(OBJS)
format:
	@command -v clang-format >/dev/null || { echo "clang-format is missing: apt-get install clang-format"; exit 1; }
	clang-format -i $$(git ls-files '*.[ch]')

# Completion for shells, from the option rows.
$(B)/completion: $(B)/obj/contrib/completion.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS)
$(B)/completion.%: $(B)/completion
	$< $* >$@ || { rm -f $@; exit 1; }
COMPLETIONS := $(B)/completion.bash $(B)/completion.zsh $(B)/completion.fish

install: all $(COMPLETIONS)
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(mandir)/man1
	install -m 755 $(B)/passt $(DESTDIR)$(bindir)/passt
	ln -sf passt $(DESTDIR)$(bindir)/pasta
	install -m 644 doc/passt.1 $(DESTDIR)$(mandir)/man1/passt.1
	ln -sf passt.1 $(DESTDIR)$(mandir)/man1/pasta.1
	install -d $(DESTDIR)$(bashdir) $(DESTDIR)$(zshdir) $(DESTDIR)$(fishdir)
	install -m 644 $(B)/completion.bash $(DESTDIR)$(bashdir)/passt
	ln -sf passt $(DESTDIR)$(bashdir)/pasta
	install -m 644 $(B)/completion.zsh $(DESTDIR)$(zshdir)/_passt
	install -m 644 $(B)/completion.fish $(DESTDIR)$(fishdir)/passt.fish
	ln -sf passt.fish $(DESTDIR)$(fishdir)/pasta.fish
uninstall:
	rm -f $(DESTDIR)$(bashdir)/passt $(DESTDIR)$(bashdir)/pasta $(DESTDIR)$(zshdir)/_passt
	rm -f $(DESTDIR)$(fishdir)/passt.fish $(DESTDIR)$(fishdir)/pasta.fish
	rm -f $(DESTDIR)$(bindir)/passt $(DESTDIR)$(bindir)/pasta
	rm -f $(DESTDIR)$(mandir)/man1/passt.1 $(DESTDIR)$(mandir)/man1/pasta.1

# A Debian package that takes the place of passt, from a copy of the tree; wants debhelper and dpkg-dev.
deb:
	rm -rf build/deb
	mkdir -p build/deb/source
	tar -c --exclude=./build --exclude=./.git . | tar -x -C build/deb/source
	cd build/deb/source && dpkg-buildpackage -b -us -uc
	@ls build/deb/*.deb

include test/test.mk

clean:
	rm -rf build

.PHONY: all unit layers globals format install uninstall deb clean
.SECONDARY:
-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
