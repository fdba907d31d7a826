/*
 * A device that is not pktgen's, for tests: frames between two interfaces, faults on demand, and four aggregators.
 * Written from docs/olaf.md, docs/strict.md, docs/switchml.md, docs/trio.md, docs/libra.md and the layouts in docs/wireshark.md.
 *
 *   cc -std=gnu11 -O2 -o device device.c options.c aggregate.c faults.c
 *   device --in e0 --out e1 --fault drop --share 0.1 --seed 7
 *
 * Says "ready" on stderr, works until SIGTERM or for a minute (--for seconds), and prints its counts as one line of JSON.
 */
#define _GNU_SOURCE
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

const char *const program = "device";

/* Copies that a flood has of each frame; frames that a reordered one lets pass, and how long it waits for them. */
enum { FLOOD_COPIES = 50000, BEHIND = 3, PATIENCE_NS = 2 * 1000 * 1000, BATCH = 64 };

struct port {
    int fd;
    const char *name;
};
static struct port in, out;
static volatile sig_atomic_t stopped;
static int64_t started_ns;

/* A held frame of the fault "reorder". */
static struct {
    uint8_t bytes[FRAME_MAX];
    size_t len;
    int behind;
    int64_t since_ns;
} held;

static double tokens;
static int64_t filled_ns;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

static void fail(const char *what, const char *which) {
    fprintf(stderr, "device: %s %s: %s\n", what, which, strerror(errno));
    exit(3);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Time since the beginning, as aggregators have it. */
static int64_t now_ps(void) { return (now_ns() - started_ns) * 1000; }

/* Beyond the system's limit (net.core.rmem_max, wmem_max) where that is allowed. */
static void set_buffer(struct port *port, int force, int plain, int room) {
    if (setsockopt(port->fd, SOL_SOCKET, force, &room, sizeof room) && setsockopt(port->fd, SOL_SOCKET, plain, &room, sizeof room))
        fail("buffer of", port->name);
}

static int open_port(struct port *port, const char *name) {
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    struct packet_mreq promiscuous = {.mr_type = PACKET_MR_PROMISC};
    int one = 1, room = 32 << 20;
    port->name = name;
    /* Bound before it hears anything: a socket of protocol 0 receives nothing. */
    port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (port->fd < 0) fail("socket for", name);
    address.sll_ifindex = promiscuous.mr_ifindex = (int)if_nametoindex(name);
    if (address.sll_ifindex == 0) fail("interface", name);
    set_buffer(port, SO_RCVBUFFORCE, SO_RCVBUF, room);
    set_buffer(port, SO_SNDBUFFORCE, SO_SNDBUF, room);
    if (setsockopt(port->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one)) fail("socket option of", name);
    if (setsockopt(port->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous)) fail("promiscuous", name);
    if (bind(port->fd, (struct sockaddr *)&address, sizeof address)) fail("bind to", name);
    return port->fd;
}

static void put(struct port *port, const uint8_t *bytes, size_t len) {
    for (int tries = 0; tries < 1000; tries++) {
        if (send(port->fd, bytes, len, 0) >= 0) {
            counts.sent += port == &out || !options.out;
            counts.back_sent += port == &in && options.out;
            return;
        }
        if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) break;
        usleep(100);
    }
    counts.unsent++;
}

/* The bucket lets a frame pass if it has a token. */
static bool has_token(void) {
    int64_t now = now_ns();
    tokens += (double)(now - filled_ns) * 1e-9 * options.limit_pps;
    filled_ns = now;
    if (tokens > options.burst) tokens = options.burst;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
}

static void release_held(struct port *port) {
    put(port, held.bytes, held.len);
    held.len = 0;
}

/* Sends what leaves towards the receiver of results, with the fault that was asked for. */
void leave(uint8_t *bytes, size_t len) {
    static uint8_t other[FRAME_MAX];
    struct port *port = options.out ? &out : &in;
    if (stray(bytes, len, other)) put(port, other, len);
    if (!spoil(bytes, &len)) return;
    switch (options.fault) {
    case DROP:
        if (chance(options.share)) {
            counts.dropped++;
            return;
        }
        break;
    case LIMIT:
        if (!has_token()) {
            counts.dropped++;
            return;
        }
        break;
    case DUPLICATE:
        if (chance(options.share)) {
            counts.duplicated++;
            put(port, bytes, len);
        }
        break;
    case CORRUPT:
        /* One bit in the last quarter of the frame: gradients, and no lane. */
        if (chance(options.share)) {
            counts.corrupted++;
            bytes[len - 1 - random_bits() % (len / 4)] ^= (uint8_t)(1u << random_bits() % 8);
        }
        break;
    case REORDER:
        if (held.len == 0 && len <= FRAME_MAX && chance(options.share)) {
            memcpy(held.bytes, bytes, len);
            held.len = len;
            held.behind = 0;
            held.since_ns = now_ns();
            counts.reordered++;
            return;
        }
        put(port, bytes, len);
        if (held.len && ++held.behind >= BEHIND) release_held(port);
        return;
    case FLOOD:
        for (int copies = 0; copies < FLOOD_COPIES; copies++) put(port, bytes, len);
        break;
    case FORWARD:
    case MUTE:
        break;
    }
    put(port, bytes, len);
}

void back(uint8_t *bytes, size_t len) { put(&in, bytes, len); }

/* Frames that wait on a port, one batch at a time. */
static int receive(struct port *port, void (*each)(uint8_t *, size_t)) {
    static uint8_t bytes[BATCH][FRAME_MAX + 8];
    struct iovec vectors[BATCH];
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < BATCH; i++) {
        vectors[i] = (struct iovec){bytes[i], FRAME_MAX};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int got = recvmmsg(port->fd, messages, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < got; i++) each(bytes[i], messages[i].msg_len);
    return got;
}

static void arrived(uint8_t *bytes, size_t len) {
    counts.received++;
    if (options.fault == MUTE || !takes(bytes, len)) return;
    aggregate(bytes, len, now_ps());
}

static void came_back(uint8_t *bytes, size_t len) {
    counts.back_received++;
    if (options.fault == MUTE || chance(faults.acks)) return;
    if (options.protocol == OLAF || options.protocol == OLAF_STRICT) multicast(bytes, len);
    lead_astray(bytes);
    put(&in, bytes, len);
}

/* Since it was last asked. */
static uint64_t socket_drops(struct port *port) {
    struct tpacket_stats stats = {0};
    socklen_t len = sizeof stats;
    if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len)) fail("statistics of", port->name);
    return stats.tp_drops;
}

static void count_overrun(void) { counts.overrun += socket_drops(&in) + (options.out ? socket_drops(&out) : 0); }

static void report(void) {
    count_overrun();
    char text[4096];
    print_counts(text, sizeof text);
    puts(text);
}

/* How long to sleep at most, in ns. */
static int64_t patience(int64_t end) {
    int64_t now = now_ns(), until = end;
    int64_t departure = next_departure();
    if (departure != NEVER && started_ns + departure / 1000 < until) until = started_ns + departure / 1000;
    if (held.len && held.since_ns + PATIENCE_NS < until) until = held.since_ns + PATIENCE_NS;
    return until > now ? until - now : 0;
}

static void serve(void) {
    int64_t end = now_ns() + (int64_t)options.seconds * 1000000000;
    struct pollfd waits[2] = {{.fd = in.fd, .events = POLLIN}, {.fd = out.fd, .events = POLLIN}};
    sigset_t none;
    sigemptyset(&none);
    int64_t told = 0;
    while (!stopped && now_ns() < end) {
        if (now_ns() - told > 20 * 1000 * 1000) {
            if (faults.counters) count_overrun();
            publish();
            told = now_ns();
        }
        int got = receive(&in, arrived);
        if (options.out) got |= receive(&out, came_back) > 0;
        depart(now_ps());
        if (held.len && now_ns() >= held.since_ns + PATIENCE_NS) release_held(options.out ? &out : &in);
        if (got > 0) continue;
        int64_t wait = patience(end);
        if (faults.counters && wait > 20 * 1000 * 1000) wait = 20 * 1000 * 1000;
        struct timespec limit = {wait / 1000000000, wait % 1000000000};
        /* Signals are blocked elsewhere, so none is lost between the check above and this wait. */
        ppoll(waits, options.out ? 2 : 1, &limit, &none);
    }
}

static bool own_option(int key, const char *word) {
    static const char *const faults[] = {"forward", "drop", "duplicate", "corrupt", "reorder", "mute", "limit", "flood", NULL};
    switch (key) {
    case 'i': options.in = word; break;
    case 'o': options.out = word; break;
    case 'f': options.fault = choose("fault", word, faults); break;
    case 's': options.share = share("share", word); break;
    case 'l': options.limit_pps = number("pps", word, 0, 1e9); break;
    case 'b': options.burst = number("burst", word, 1, 1e9); break;
    case 't': options.seconds = (int)whole("for", word, 0, 1000000000); break;
    default: return read_fault(key, word);
    }
    return true;
}

int main(int count, char **words) {
    sigset_t blocked;
    struct sigaction action = {.sa_handler = stop};
    static const struct option known[] = {
        {"in", 1, 0, 'i'},  {"out", 1, 0, 'o'},   {"fault", 1, 0, 'f'}, {"share", 1, 0, 's'},
        {"pps", 1, 0, 'l'}, {"burst", 1, 0, 'b'}, {"for", 1, 0, 't'},
        {"swap", 1, 0, '1'},     {"port", 1, 0, '2'}, {"address", 1, 0, '3'}, {"checksum", 1, 0, '4'}, {"cut", 1, 0, '5'},
        {"tag", 1, 0, '6'},      {"strangers", 1, 0, '7'}, {"acks", 1, 0, '8'}, {"bursts", 1, 0, '9'}, {"lacks", 1, 0, 'L'},
        {"until", 1, 0, 'U'},    {"after", 1, 0, 'A'}, {"longest", 1, 0, 'B'}, {"counters", 1, 0, 'K'}, {"station", 1, 0, '0'},
        {"length", 1, 0, 'W'}, {"astray", 1, 0, 'Y'}, {0},
    };
    read_options(count, words, known, own_option);
    if (!options.in) {
        fprintf(stderr, "device: --in is needed\n");
        exit(2);
    }
    started_ns = now_ns();
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    open_port(&in, options.in);
    if (options.out) open_port(&out, options.out);
    tokens = options.burst;
    filled_ns = now_ns();
    fprintf(stderr, "ready\n");
    serve();
    report();
    return 0;
}
