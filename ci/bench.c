/* What ci/bench measures with: small enough to be seen through, and in C so that nothing of its own shows.
 * Compiled static by ci/bench. Usage: bench WHAT ...
 *
 *   loop COMMAND...             the limit for pty work: copies between its own terminal or pipes and a new pty
 *   init COMMAND...             the limit for an init: forwards signals, reaps, ends with the child's code
 *   true                        ends at once
 *   echo                        says READY, then echoes raw keys until q
 *   handler FD                  says R on FD, then h for each USR1, until TERM
 *   orphans N                   makes N orphans, waits until PID 1 has reaped them all; prints ns, and PID 1's CPU in ns
 *   spawn N COMMAND...          prints the median ns from fork to the end, of N runs
 *   keys N COMMAND...           prints the median ns from a key to its echo through COMMAND's terminal
 *   signals N COMMAND...        prints the median ns from a signal to COMMAND to its child's handler
 *   calls SOCKET N CONNECTIONS  asks `state` N times, in turn over all connections; prints calls a second, p50 and p99 in ns
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

static long long *times(int n)
{
    long long *all = calloc(n, sizeof *all);
    if (!all || n < 1)
        die("calloc");
    return all;
}

static long long share(long long *all, int n, int percent)
{
    qsort(all, n, sizeof *all, by_size);
    return all[(long)(n - 1) * percent / 100];
}

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

static int loop(char **command)
{
    struct termios before, raw;
    struct winsize size = {.ws_row = 40, .ws_col = 120};
    int terminal = tcgetattr(0, &before) == 0, master;
    pid_t child = forkpty(&master, NULL, terminal ? &before : NULL, &size);
    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    if (terminal) {
        raw = before;
        cfmakeraw(&raw);
        tcsetattr(0, TCSANOW, &raw);
    }
    /* What comes on a pipe is typed too, as agentsup does it. */
    struct pollfd fds[2] = {{.fd = master, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
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
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int init(char **command)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(command[0], command);
        _exit(127);
    }
    for (;;) {
        int signal, status;
        sigwait(&all, &signal);
        if (signal != SIGCHLD) {
            kill(child, signal);
            continue;
        }
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
            if (ended == child)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static int echo(void)
{
    struct termios raw;
    if (tcgetattr(0, &raw) == 0) {
        cfmakeraw(&raw);
        tcsetattr(0, TCSANOW, &raw);
    }
    put(1, "READY", 5);
    for (;;) {
        char keys[64];
        ssize_t n = read(0, keys, sizeof keys);
        if (n <= 0 || memchr(keys, 'q', n))
            return 0;
        put(1, keys, n);
    }
}

static int handler_fd;

static void on_signal(int signal)
{
    if (signal == SIGTERM)
        _exit(0);
    put(handler_fd, "h", 1);
}

static _Noreturn void handler(int fd)
{
    handler_fd = fd;
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    put(fd, "R", 1);
    for (;;)
        pause();
}

/* utime and stime of a process, in ns, from its clock: ticks are too coarse. */
static long long cpu_of(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return -1;
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int processes(void)
{
    int n = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        die("/proc");
    for (struct dirent *entry; (entry = readdir(proc));)
        n += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
    closedir(proc);
    return n;
}

static int orphans(int n)
{
    int alone = processes();
    long long began = now(), used = cpu_of(1);
    for (int made = 0; made < n;) {
        /* A parent that leaves a hundred behind. */
        int batch = n - made < 100 ? n - made : 100;
        pid_t parent = fork();
        if (parent == 0) {
            for (int i = 0; i < batch; i++)
                if (fork() == 0)
                    _exit(0);
            _exit(0);
        }
        if (parent < 0)
            die("fork");
        waitpid(parent, NULL, 0);
        made += batch;
    }
    long long end = now() + 60000000000LL;
    while (processes() > alone) {
        if (now() > end)
            return 1;
        usleep(500);
    }
    printf("%lld %lld\n", now() - began, cpu_of(1) - used);
    return 0;
}

static int spawn(int n, char **command)
{
    long long *all = times(n);
    for (int i = 0; i < n; i++) {
        long long began = now();
        pid_t child = vfork();
        if (child == 0) {
            execv(command[0], command);
            _exit(127);
        }
        int status;
        waitpid(child, &status, 0);
        all[i] = now() - began;
        if (status != 0) {
            fprintf(stderr, "%s: status %d\n", command[0], status);
            return 1;
        }
    }
    printf("%lld\n", share(all, n, 50));
    return 0;
}

static int keys(int n, char **command)
{
    struct winsize size = {.ws_row = 40, .ws_col = 120};
    char seen[8192] = "";
    size_t length = 0;
    int master;
    pid_t child = forkpty(&master, NULL, NULL, &size);
    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    while (!memmem(seen, length, "READY", 5)) {
        ssize_t got = read(master, seen + length, sizeof seen - length);
        if (got <= 0 || (length += got) == sizeof seen)
            die("no READY");
    }
    usleep(200000);
    struct pollfd rest = {.fd = master, .events = POLLIN};
    while (poll(&rest, 1, 0) > 0)
        if (read(master, seen, sizeof seen) <= 0)
            die("it ended");
    long long *all = times(n);
    for (int i = 0; i < n; i++) {
        long long began = now();
        put(master, "x", 1);
        if (read(master, seen, sizeof seen) <= 0)
            die("it ended");
        all[i] = now() - began;
    }
    put(master, "q", 1);
    while (read(master, seen, sizeof seen) > 0) {
    }
    waitpid(child, NULL, 0);
    printf("%lld\n", share(all, n, 50));
    return 0;
}

static int signals(int n, char **command)
{
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        die("pipe");
    pid_t child = fork();
    if (child == 0) {
        /* Where `handler 9` writes. */
        dup2(ends[1], 9);
        close(ends[0]);
        close(ends[1]);
        execvp(command[0], command);
        _exit(127);
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1 || byte != 'R')
        die("no handler");
    usleep(200000);
    long long *all = times(n);
    for (int i = 0; i < n; i++) {
        long long began = now();
        kill(child, SIGUSR1);
        if (read(ends[0], &byte, 1) != 1)
            die("it ended");
        all[i] = now() - began;
    }
    kill(child, SIGTERM);
    waitpid(child, NULL, 0);
    printf("%lld\n", share(all, n, 50));
    return 0;
}

static int calls(const char *path, int n, int connections)
{
    static const char request[] = "{\"id\":1,\"method\":\"state\"}\n";
    static char reply[1 << 16];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int *all_fds = calloc(connections, sizeof *all_fds);
    if (strlen(path) >= sizeof to.sun_path || !all_fds)
        die(path);
    strcpy(to.sun_path, path);
    for (int i = 0; i < connections; i++) {
        all_fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(all_fds[i], (struct sockaddr *)&to, sizeof to) != 0)
            die(path);
    }
    long long *all = times(n), began = now();
    for (int i = 0; i < n; i++) {
        int fd = all_fds[i % connections];
        long long asked = now();
        size_t length = 0;
        put(fd, request, sizeof request - 1);
        do {
            ssize_t got = read(fd, reply + length, sizeof reply - length);
            if (got <= 0)
                die("no answer");
            length += got;
        } while (reply[length - 1] != '\n');
        all[i] = now() - asked;
    }
    long long took = now() - began;
    printf("%lld %lld %lld\n", n * 1000000000LL / took, share(all, n, 50), share(all, n, 99));
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(what, "true"))
        return 0;
    if (!strcmp(what, "echo"))
        return echo();
    if (argc > 2 && !strcmp(what, "loop"))
        return loop(argv + 2);
    if (argc > 2 && !strcmp(what, "init"))
        return init(argv + 2);
    if (argc > 2 && !strcmp(what, "handler"))
        handler(n);
    if (argc > 2 && !strcmp(what, "orphans"))
        return orphans(n);
    if (argc > 3 && !strcmp(what, "spawn"))
        return spawn(n, argv + 3);
    if (argc > 3 && !strcmp(what, "keys"))
        return keys(n, argv + 3);
    if (argc > 3 && !strcmp(what, "signals"))
        return signals(n, argv + 3);
    if (argc > 4 && !strcmp(what, "calls"))
        return calls(argv[2], atoi(argv[3]), atoi(argv[4]));
    fprintf(stderr, "bench: see the head of ci/bench.c\n");
    return 2;
}
