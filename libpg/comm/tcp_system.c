/* tcp_system.c - descriptors that neither wait nor reach a program that is started: in one call on
 * Linux, in several elsewhere (PG_PORTABLE). */
#include "comm/tcp.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PG_PORTABLE

int pg__tcp_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int pg__tcp_accept(int at)
{
    return accept4(at, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int pg__tcp_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
}

#else

static int prepared(int fd)
{
    if (fd < 0)
        return fd;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static int quiet(int fd)
{
#ifdef SO_NOSIGPIPE /* where send() cannot be told */
    const int on = 1;
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    return fd;
}

int pg__tcp_socket(int family)
{
    return quiet(prepared(socket(family, SOCK_STREAM, 0)));
}

int pg__tcp_accept(int at)
{
    return quiet(prepared(accept(at, NULL, NULL)));
}

int pg__tcp_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return -1;
    (void)prepared(ends[0]);
    (void)prepared(ends[1]);
    return 0;
}

#endif
