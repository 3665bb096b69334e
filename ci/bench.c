/* The limit for pty work: a loop that copies between its own terminal or pipes and a new pty, and knows
 * nothing else. Usage: bench COMMAND [ARGS...]. Compiled by ci/bench. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void put(int fd, const char *bytes, ssize_t left)
{
    while (left > 0) {
        ssize_t n = write(fd, bytes, left);
        if (n < 0 && errno != EINTR)
            exit(1);
        if (n > 0) {
            bytes += n;
            left -= n;
        }
    }
}

int main(int argc, char **argv)
{
    struct termios before, raw;
    struct winsize size = {.ws_row = 40, .ws_col = 120};
    int terminal = tcgetattr(0, &before) == 0, master;
    if (argc < 2)
        return 2;
    pid_t child = forkpty(&master, NULL, terminal ? &before : NULL, &size);
    if (child == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (terminal) {
        raw = before;
        cfmakeraw(&raw);
        tcsetattr(0, TCSANOW, &raw);
    }
    struct pollfd fds[2] = {{.fd = master, .events = POLLIN}, {.fd = terminal ? 0 : -1, .events = POLLIN}};
    char buffer[4096];
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (fds[0].revents) {
            ssize_t n = read(master, buffer, sizeof buffer);
            if (n <= 0)
                break;
            put(1, buffer, n);
        }
        if (fds[1].revents) {
            ssize_t n = read(0, buffer, sizeof buffer);
            if (n <= 0)
                fds[1].fd = -1;
            else
                put(master, buffer, n);
        }
    }
    int status;
    waitpid(child, &status, 0);
    if (terminal)
        tcsetattr(0, TCSANOW, &before);
    return 0;
}
