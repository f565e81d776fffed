/* SPDX-License-Identifier: BSD-3-Clause */
/* What each kind of process may ask of the kernel once it is sealed. Everything else ends it
 * (filter.c). */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "seccomp/steps.h"

#define CALL(name)                                                                                 \
	{                                                                                          \
		.number = SCMP_SYS(name)                                                           \
	}
#define CALL_IF(name, n, m, v)                                                                     \
	{                                                                                          \
		.number = SCMP_SYS(name), .when = { {(n), (m), (uint32_t)(v)} }                    \
	}
#define CALL_EQ(name, n, v) CALL_IF(name, n, UINT32_MAX, v)
#define SOCKET(domain, type)                                                                       \
	{                                                                                          \
		.number = SCMP_SYS(socket), .when = {                                              \
			{0, UINT32_MAX, (domain)},                                                 \
			{1, 0xf, (type)}                                                           \
		}                                                                                  \
	}

static const struct profile_call common[] = {
    /* malloc(3). Memory never becomes executable. */
    CALL(brk),
    CALL_IF(mmap, 2, PROT_EXEC, 0),
    CALL_IF(mprotect, 2, PROT_EXEC, 0),
    CALL(munmap),
    CALL(mremap),
    CALL(madvise),
    CALL(futex),
    /* The clock where the vDSO has none (a clocksource of a virtual machine); time stamps of the
       log. */
    CALL(clock_gettime),
    CALL(gettimeofday),
    /* stack_chk_fail, malloc's tcache and hash keys ask for randomness late. */
    CALL(getrandom),
    /* Signals: return from the handler, a call interrupted by SIGSTOP and SIGCONT. */
    CALL(rt_sigreturn),
    CALL(restart_syscall),
    CALL(rt_sigprocmask),
    /* Descriptors; the log's lines to stderr, if it takes one, file and syslog. */
    CALL(read),
    CALL(write),
    CALL(poll),
    CALL(ppoll),
    CALL(close),
    CALL(recvmsg),
    CALL(sendmsg),
    CALL(sendto),
    /* Reading back that the filter holds. */
    CALL_EQ(prctl, 0, PR_GET_SECCOMP),
    CALL(getpid),
    CALL(exit_group),
#ifdef __SANITIZE_ADDRESS__
    /* Builds for tests only: what the sanitizer does before a call that doesn't return. */
    CALL(sigaltstack),
    CALL(gettid),
#endif
};

/* Whatever the guest is. */
static const struct profile_call engine[] = {
    /* The loop. */
    CALL(epoll_wait),
    CALL(epoll_pwait),
    CALL(epoll_pwait2),
    CALL(epoll_ctl),
    /* Sockets towards the host: TCP, UDP, and echo by SOCK_DGRAM with IPPROTO_ICMP. No raw, packet,
       netlink or UNIX ones. */
    SOCKET(AF_INET, SOCK_STREAM),
    SOCKET(AF_INET, SOCK_DGRAM),
    SOCKET(AF_INET6, SOCK_STREAM),
    SOCKET(AF_INET6, SOCK_DGRAM),
    CALL(bind),
    CALL(connect),
    CALL(listen),
    CALL(accept4),
    CALL(shutdown),
    CALL(getsockopt),
    CALL(setsockopt),
    CALL(getsockname),
    CALL(getpeername),
    /* Data, in batches where there is one. */
    CALL(readv),
    CALL(writev),
    CALL(recvfrom),
    CALL(recvmmsg),
    CALL(sendmmsg),
    CALL_EQ(fcntl, 1, F_GETFL),
    CALL_EQ(fcntl, 1, F_SETFL),
    CALL_EQ(fcntl, 1, F_GETFD),
    CALL_EQ(fcntl, 1, F_SETFD),
    /* Log file: cut from the front (either way); it and the capture are flushed at the end. */
    CALL(lseek),
    CALL(pread64),
    CALL(pwrite64),
    CALL(ftruncate),
    CALL(fallocate),
    CALL(fsync),
    CALL(fdatasync),
    CALL(fstat),
    /* Is the name of the namespace still there (pasta/watch.c), or a file of ours
       (passt/own_file.c); below an empty root only kept folders lead anywhere. */
    CALL(newfstatat),
    /* Becoming a daemon, its last step: 0 to 2 go to /dev/null. */
    CALL(dup2),
    CALL(dup3),
};

static const struct profile_call engine_pasta[] = {
    /* Spliced connections: pipes, as large as they get. */
    CALL(splice),
    CALL(pipe2),
    CALL_EQ(fcntl, 1, F_SETPIPE_SZ),
    CALL_EQ(fcntl, 1, F_GETPIPE_SZ),
    /* The end: the tap is left to the namespace, the agent waited for, the terminal taken back. */
    CALL_EQ(ioctl, 1, TUNSETPERSIST),
    CALL(waitid),
    CALL(rt_sigtimedwait),
    CALL_EQ(ioctl, 1, TIOCGPGRP),
    CALL_EQ(ioctl, 1, TIOCSPGRP),
    CALL(getpgrp),
    CALL(getpgid),
};

/* A virtual machine on a stream socket: no pipes, no children. */
static const struct profile_call engine_passt[] = {
    /* The files of the UNIX socket and of the process ID go at the end. */
    CALL(unlinkat),
};

static const struct profile_call engine_vhost[] = {
    CALL(unlinkat),
    /* Memory of the virtual machine must not become shorter below us. */
    CALL_EQ(fcntl, 1, F_ADD_SEALS),
};

/* Either agent: sockets inside for the engine, with and without an address. */
static const struct profile_call agent[] = {
    SOCKET(AF_INET, SOCK_STREAM),
    SOCKET(AF_INET, SOCK_DGRAM),
    SOCKET(AF_INET6, SOCK_STREAM),
    SOCKET(AF_INET6, SOCK_DGRAM),
    CALL(setsockopt),
    CALL(bind),
    CALL(listen),
};

/* PID 1 of the command's namespace, outside of which there is nobody whom it could name. */
static const struct profile_call agent_init[] = {
    /* Children. */
    CALL(waitid),
    /* What the engine may have passed on to the command, and whether the terminal did so already.
     */
    CALL_EQ(kill, 1, SIGTERM),
    CALL_EQ(kill, 1, SIGINT),
    CALL_EQ(kill, 1, SIGHUP),
    CALL_EQ(kill, 1, SIGQUIT),
    CALL(getpgrp),
    CALL(getpgid),
    CALL_EQ(ioctl, 1, TIOCGPGRP),
};

/* In a namespace that was joined, among the caller's own processes: it signals none. */
static const struct profile_call agent_joined[] = {
    /* The caller's stderr is let go when all is set up. */
    CALL_EQ(dup3, 1, STDERR_FILENO),
};

#define LIST(calls)                                                                                \
	{                                                                                          \
		calls, sizeof(calls) / sizeof((calls)[0])                                          \
	}

const struct profile_list *profile_lists(enum sandbox_profile profile)
{
	static const struct profile_list lists[][PROFILE_LISTS] = {
	    [SANDBOX_ENGINE_PASTA] = {LIST(common), LIST(engine), LIST(engine_pasta)},
	    [SANDBOX_ENGINE_PASST] = {LIST(common), LIST(engine), LIST(engine_passt)},
	    [SANDBOX_ENGINE_VHOST] = {LIST(common), LIST(engine), LIST(engine_vhost)},
	    [SANDBOX_AGENT] = {LIST(common), LIST(agent), LIST(agent_init)},
	    [SANDBOX_AGENT_JOINED] = {LIST(common), LIST(agent), LIST(agent_joined)},
	};

	return lists[profile];
}
