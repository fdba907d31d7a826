/*
 * A device that is not pktgen's, in virtual time: the aggregators of ../bench behind the protocol of docs/lockstep.md.
 *
 *   cc -O2 -I../bench -o lockstep lockstep.c ../bench/options.c ../bench/aggregate.c
 *   lockstep --ports 4 --protocol switchml --first 10.0.0.1 --workers 4 --group 239.192.0.0
 *   lockstep --ports 2 --up 1 --protocol olaf-strict --first 10.0.0.1 --workers 9 --per-cluster 3 --mbps 20
 *
 * pktgen starts it, with the path of its socket in PKTGEN_LOCKSTEP. --break, --after, --copies and --acks let it misbehave,
 * for tests; with --idle-ms it announces an instant so long after each frame, at which nothing leaves.
 */
#define _GNU_SOURCE
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *const program = "lockstep";

enum { HELLO = 1, WELCOME, FRAME_IN, ADVANCE, FRAME_OUT, ADVANCED, COUNTERS, COUNTED, QUIT };
enum { VERSION = 1, MESSAGE_MAX = 65536, FRAME_HEAD = 10 };

/* How it misbehaves in answer to an advance, after so many that it answered. */
enum how { NOT, DIE, HANG, BACK, BEYOND, NOT_DONE, NEXT_BACK, PORT, TWO_TIMES, CUT, LONG, UNKNOWN, MANY, SILENT, VERSION_2, SLOW_END };
static const char *const hows[] = {"not",   "die", "hang", "back",    "beyond", "not-done", "next-back", "port",     "two-times",
                                   "cut",   "long", "unknown", "flood", "silent", "version-2", "slow-end", NULL};
static enum how how;
static long after;

/* How copies for workers differ from what was summed: a value of worker 1's, the slot or the port of all, a byte behind all, IPv4's or UDP's
 * length of all, and fragments. */
enum copies { SAME, VALUE, SLOT, UDP_PORT, CHECKSUM, PADDED, TOTAL, LENGTH, FRAGMENT };
static const char *const copies_names[] = {"same",   "value", "slot",   "port",     "checksum",
                                           "padded", "total", "length", "fragment", NULL};
static enum copies copies;

/* Answers of the server go to the worker that they are for, or to all of its cluster; but to the last worker's port, or twice. */
enum acks { ONE, GROUP, SOME, TWICE };
static const char *const acks_names[] = {"one", "group", "some", "twice", NULL};
static enum acks acks;

static int ports = 1, up = -1;
static int fd;

/* A timer that each frame starts, and that does nothing. */
static int64_t idle_ps, idle_at = NEVER;

/* A frame that arrived and has not been looked at: they come in the order of their times. */
struct arrived {
    struct arrived *next;
    int64_t t;
    uint16_t port, len;
    uint8_t bytes[];
};
static struct arrived *first, **last = &first;

/* What leaves at this instant, as messages. */
static uint8_t *out;
static size_t out_len, out_room;
static int64_t now, left;
static bool leaving;

/* The port of each worker. */
static int port_of[WORKERS_MAX];

static void fail(const char *what) {
    fprintf(stderr, "lockstep: %s: %s\n", what, strerror(errno));
    exit(3);
}

static void put(const void *bytes, size_t len) {
    if (out_len + len > out_room) {
        out_room = 2 * (out_len + len) + MESSAGE_MAX;
        if (!(out = realloc(out, out_room))) abort();
    }
    memcpy(out + out_len, bytes, len);
    out_len += len;
}

/* Little-endian, as this machine is. */
static void put_head(uint32_t body, uint8_t kind) {
    uint32_t len = body + 1;
    put(&len, sizeof len);
    put(&kind, sizeof kind);
}

static void write_all(void) {
    for (size_t at = 0; at < out_len;) {
        ssize_t n = write(fd, out + at, out_len - at);
        if (n < 0 && errno != EINTR) exit(3);
        if (n > 0) at += (size_t)n;
    }
    out_len = 0;
}

static void emit(int port, int64_t t, const uint8_t *bytes, size_t len) {
    uint16_t number = (uint16_t)port;
    put_head((uint32_t)(FRAME_HEAD + len), FRAME_OUT);
    put(&t, sizeof t);
    put(&number, sizeof number);
    put(bytes, len);
    counts.sent++;
    left = t;
    leaving = true;
}

/* Adds to a word of an IPv4 header; its checksum fits again (RFC 1624, equation 3). */
static void add_to_word(uint8_t *f, int at, uint16_t more) {
    uint16_t word, sum;
    memcpy(&word, f + at, sizeof word);
    memcpy(&sum, f + 24, sizeof sum);
    uint32_t added = (uint32_t)(uint16_t)~ntohs(sum) + more;
    word = htons((uint16_t)(ntohs(word) + more));
    sum = htons((uint16_t)~(added + (added >> 16)));
    memcpy(f + at, &word, sizeof word);
    memcpy(f + 24, &sum, sizeof sum);
}

/* A copy for a worker leaves. */
static void copy(int worker, const uint8_t *bytes, size_t len) {
    static uint8_t own[MESSAGE_MAX];
    memcpy(own, bytes, len);
    switch (copies) {
    case SAME: break;
    case VALUE: own[len - 1] ^= worker == 1; break;
    /* Behind the headers of the network: type, job, packet, slot and set. */
    case SLOT: own[42 + 7] ^= 1; break;
    case UDP_PORT: own[37] ^= 1; break;
    case CHECKSUM: own[24] ^= 1; break;
    case PADDED: own[len++] = 0xee; break;
    case TOTAL: add_to_word(own, 16, 2048); break;
    /* Without a checksum, which would be wrong. */
    case LENGTH: own[38] += 8, own[40] = own[41] = 0; break;
    /* More of them follow. */
    case FRAGMENT: add_to_word(own, 20, 0x2000); break;
    }
    emit(port_of[worker], now, own, len);
}

/* Towards workers: the one that it is for, or those of its group, each port once. */
static void down(const uint8_t *bytes, size_t len) {
    uint32_t target;
    bool used[WORKERS_MAX] = {false};
    memcpy(&target, bytes + 30, sizeof target);
    target = ntohl(target);
    bool one = target - options.first < (uint32_t)options.workers;
    bool olaf_group = options.protocol == OLAF || options.protocol == OLAF_STRICT;
    for (int w = 0; w < options.workers; w++) {
        bool meant = one ? target - options.first == (uint32_t)w
                         : !olaf_group || target - options.group == (uint32_t)(w / options.per_cluster);
        if (!meant || port_of[w] < 0 || used[port_of[w] % WORKERS_MAX]) continue;
        if (acks == SOME && w == options.workers - 1) continue;
        used[port_of[w] % WORKERS_MAX] = true;
        copy(w, bytes, len);
    }
}

void leave(uint8_t *bytes, size_t len) {
    if (up >= 0)
        emit(up, now, bytes, len);
    else
        down(bytes, len);
}

void back(uint8_t *bytes, size_t len) { down(bytes, len); }

static void arrive(struct arrived *frame) {
    int worker = frame->len > 42 ? worker_of(frame->bytes) : -1;
    if (idle_ps) idle_at = frame->t + idle_ps;
    if (up >= 0 && frame->port == up) {
        counts.back_received++;
        if (acks != ONE) multicast(frame->bytes, frame->len);
        down(frame->bytes, frame->len);
        if (acks == TWICE) down(frame->bytes, frame->len);
        return;
    }
    if (worker >= 0) port_of[worker] = frame->port;
    counts.received++;
    if (options.fault != MUTE) aggregate(frame->bytes, frame->len, now);
}

/* When anything happens next. */
static int64_t next(void) {
    int64_t departure = next_departure(), arrival = first ? first->t : NEVER, t = departure < arrival ? departure : arrival;
    return t < idle_at ? t : idle_at;
}

/* Acts up to and including `until`, or up to the first instant at which anything leaves. Departures come before arrivals. */
static void advance(int64_t until) {
    leaving = false;
    for (int64_t t; (t = next()) <= until && !(leaving && t > left);) {
        now = t;
        if (idle_at <= t) {
            idle_at = NEVER;
            continue;
        }
        if (next_departure() <= t) {
            depart(t);
            continue;
        }
        struct arrived *frame = first;
        if (!(first = frame->next)) last = &first;
        arrive(frame);
        free(frame);
    }
}

static void answer(int64_t until) {
    int64_t reached = leaving ? left : until, then = next();
    if (then == NEVER) then = -1;
    put_head(16, ADVANCED);
    put(&reached, 8);
    put(&then, 8);
}

static void misbehave(int64_t until) {
    static uint8_t frame[64];
    int64_t t = until;
    switch (how) {
    case DIE: _exit(7);
    case HANG: for (;;) pause();
    case SILENT: close(fd); for (;;) pause();
    case BACK: emit(0, 0, frame, sizeof frame); break;
    case BEYOND: emit(0, until + 1, frame, sizeof frame); break;
    case PORT: emit(ports, until, frame, sizeof frame); break;
    case TWO_TIMES: emit(0, until - 1, frame, sizeof frame); emit(0, until, frame, sizeof frame); break;
    case NOT_DONE: t--; break;
    case CUT: put_head(8, ADVANCED), put(&t, 8); break;
    case LONG: put_head(MESSAGE_MAX, ADVANCED); break;
    case UNKNOWN: put_head(0, 99); break;
    case MANY: for (int i = 0; i < 100000; i++) emit(0, until, frame, sizeof frame); break;
    default: break;
    }
    int64_t then = how == NEXT_BACK ? t - 1 : -1;
    put_head(16, ADVANCED);
    put(&t, 8);
    put(&then, 8);
}

static void frame_in(const uint8_t *body, size_t len) {
    struct arrived *frame = malloc(sizeof *frame + len - FRAME_HEAD);
    if (!frame) abort();
    memcpy(&frame->t, body, 8);
    memcpy(&frame->port, body + 8, 2);
    frame->len = (uint16_t)(len - FRAME_HEAD);
    memcpy(frame->bytes, body + FRAME_HEAD, frame->len);
    frame->next = NULL;
    *last = frame;
    last = &frame->next;
}

/* False when it is to end. */
static bool handle(uint8_t kind, const uint8_t *body, size_t len) {
    static long advances;
    char text[4096];
    int64_t until;
    switch (kind) {
    case WELCOME: return true;
    case FRAME_IN: frame_in(body, len); return true;
    case ADVANCE:
        memcpy(&until, body, 8);
        if (how != NOT && how != SLOW_END && advances++ >= after) {
            misbehave(until);
        } else {
            advance(until);
            answer(until);
        }
        write_all();
        return true;
    case COUNTERS: {
        int n = print_counts(text, sizeof text);
        put_head((uint32_t)n, COUNTED);
        put(text, (size_t)n);
        write_all();
        return true;
    }
    case QUIT: if (how == SLOW_END) sleep(100); return false;
    default: fprintf(stderr, "lockstep: a message of kind %d\n", kind); exit(3);
    }
}

static void serve(void) {
    static uint8_t in[4 * MESSAGE_MAX];
    size_t have = 0;
    for (;;) {
        ssize_t got = read(fd, in + have, sizeof in - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) exit(3);
        have += (size_t)got;
        size_t at = 0;
        for (uint32_t len; have - at >= 4; at += 4 + len) {
            memcpy(&len, in + at, 4);
            if (have - at < 4 + (size_t)len) break;
            if (!handle(in[at + 4], in + at + 5, len - 1)) return;
        }
        memmove(in, in + at, have - at);
        have -= at;
    }
}

static void greet(void) {
    static const char name[] = "C aggregators";
    uint16_t version = how == VERSION_2 ? 2 : VERSION, count = (uint16_t)ports;
    int64_t clock = 0;
    put_head((uint32_t)(12 + strlen(name)), HELLO);
    put(&version, 2);
    put(&count, 2);
    put(&clock, 8);
    put(name, strlen(name));
    write_all();
}

static bool own_option(int key, const char *word) {
    switch (key) {
    case 'P': ports = (int)whole("ports", word, 1, WORKERS_MAX); break;
    case 'U': up = (int)whole("up", word, 0, WORKERS_MAX - 1); break;
    case 'B': how = (enum how)choose("break", word, hows); break;
    case 'A': after = (long)whole("after", word, 0, LONG_MAX); break;
    case 'Y': copies = (enum copies)choose("copies", word, copies_names); break;
    case 'K': acks = (enum acks)choose("acks", word, acks_names); break;
    case 'M': options.fault = MUTE; break;
    case 'I': idle_ps = (int64_t)whole("idle-ms", word, 1, 1000000) * 1000000000; break;
    default: return false;
    }
    return true;
}

int main(int count, char **words) {
    static const struct option known[] = {
        {"ports", 1, 0, 'P'}, {"up", 1, 0, 'U'},     {"break", 1, 0, 'B'}, {"after", 1, 0, 'A'},
        {"mute", 0, 0, 'M'},  {"copies", 1, 0, 'Y'}, {"acks", 1, 0, 'K'},  {"idle-ms", 1, 0, 'I'}, {0},
    };
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("PKTGEN_LOCKSTEP");
    options.first = 0x0a000001;
    options.group = 0xefc00000;
    read_options(count, words, known, own_option);
    if (up >= ports) {
        fprintf(stderr, "lockstep: --up %d: not below --ports, %d\n", up, ports);
        exit(2);
    }
    if (!path || strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "lockstep: PKTGEN_LOCKSTEP has the path of a socket\n");
        exit(2);
    }
    /* Workers that have ports of their own are in order; others are known once they have sent. */
    for (int w = 0; w < WORKERS_MAX; w++) port_of[w] = up < 0 && w < ports ? w : -1;
    strcpy(address.sun_path, path);
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0) fail("socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) fail(path);
    greet();
    serve();
    return 0;
}
