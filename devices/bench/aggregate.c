/* Aggregators by the book: OLAF's queue, SwitchML's slots, Trio-ML's records, Libra's registers. They read no clock: times are given, in ps. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

/* Ethernet, IPv4 without options, UDP. */
enum { ETH = 14, IP = 20, PAYLOAD = 42 };

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) << 16 | get16(p + 2); }
static uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }
static void put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8), p[1] = (uint8_t)v; }
static void put32(uint8_t *p, uint32_t v) { put16(p, (uint16_t)(v >> 16)), put16(p + 2, (uint16_t)v); }

/* Little-endian, as the gradients of OLAF are; so are all machines that this runs on. */
static float get_float(const uint8_t *p) {
    float v;
    memcpy(&v, p, 4);
    return v;
}
static void put_float(uint8_t *p, float v) { memcpy(p, &v, 4); }

static bool is_datagram(const uint8_t *f, size_t len) {
    return len > PAYLOAD && get16(f + 12) == 0x0800 && f[ETH] == 0x45 && f[ETH + 9] == 17;
}

static size_t payload_len(const uint8_t *f, size_t len) {
    size_t said = get16(f + ETH + IP + 4);
    return said < 8 || said - 8 > len - PAYLOAD ? 0 : said - 8;
}

/* The datagram is what IPv4's length leaves for it. */
static bool lengths_agree(const uint8_t *f, size_t len) {
    return payload_len(f, len) > 0 && get16(f + ETH + 2) == IP + get16(f + ETH + IP + 4);
}

int worker_of(const uint8_t *f) {
    uint32_t n = get32(f + ETH + 12) - options.first;
    return n < (uint32_t)options.workers ? (int)n : -1;
}

static void ip_checksum(uint8_t *f) {
    uint32_t sum = 0;
    put16(f + ETH + 10, 0);
    for (int i = 0; i < IP; i += 2) sum += get16(f + ETH + i);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    put16(f + ETH + 10, (uint16_t)~sum);
}

/* ---- OLAF: docs/olaf.md, "The queue", rules 1, 3 and 4, and 2 without the reward filter ---- */

/* Our header before the reward: byte 1 flags, 4 count, 14 generation. */
enum { HEADER = 26, FLAGS = 1, MERGED = 0x01, COUNT = 4, GENERATION = 14 };

static struct waiting {
    uint8_t bytes[FRAME_MAX];
    size_t len;
    int cluster, worker;
    uint32_t count;
    int64_t since;
} queue[SLOTS_MAX];
static int head, waiting;
static int64_t busy_until;
/* 1 ms. */
static const int64_t STALL = 1000000000;

static uint8_t *reward_of(uint8_t *f) { return f + PAYLOAD + (options.protocol == OLAF ? HEADER : 0); }

/* Adds an arriving update to a waiting one; the headers are those of the newer. */
static void merge(struct waiting *slot, uint8_t *f, size_t len, int worker) {
    bool ours = options.protocol == OLAF;
    uint32_t other = ours ? get16(f + PAYLOAD + COUNT) : 1, both = slot->count + other;
    uint8_t *a = reward_of(slot->bytes), *b = reward_of(f), *end = slot->bytes + slot->len;
    put_float(a, (float)((get_float(a) * (double)slot->count + get_float(b) * (double)other) / both));
    for (a += 4, b += 4; a + 4 <= end; a += 4, b += 4) put_float(a, get_float(a) + get_float(b));
    if (chance(options.wrong_share)) {
        put_float(end - 4, get_float(end - 4) + 0.125f);
        counts.wrong++;
    }
    bool newer = !ours || (int64_t)get64(f + PAYLOAD + GENERATION) >= (int64_t)get64(slot->bytes + PAYLOAD + GENERATION);
    if (newer) {
        size_t head_len = (size_t)(reward_of(f) - f);
        memcpy(slot->bytes, f, head_len);
        slot->worker = worker;
    }
    slot->count = both;
    if (ours) {
        slot->bytes[PAYLOAD + FLAGS] |= MERGED;
        put16(slot->bytes + PAYLOAD + COUNT, (uint16_t)both);
    }
    put16(slot->bytes + ETH + IP + 6, 0);
    counts.merged++;
    (void)len;
}

static void keep(struct waiting *slot, const uint8_t *f, size_t len, int worker) {
    memcpy(slot->bytes, f, len);
    slot->len = len;
    slot->worker = worker;
    slot->cluster = worker / options.per_cluster;
    slot->count = options.protocol == OLAF ? get16(f + PAYLOAD + COUNT) : 1;
}

void multicast(uint8_t *f, size_t len) {
    if (!options.group || !is_datagram(f, len)) return;
    uint32_t worker = get32(f + ETH + 16) - options.first;
    if (worker >= (uint32_t)options.workers) return;
    uint32_t group = options.group + worker / (uint32_t)options.per_cluster;
    put16(f, 0x0100);
    put32(f + 2, 0x5e000000u | (group & 0x7fffff));
    put32(f + ETH + 16, group);
    ip_checksum(f);
    put16(f + ETH + IP + 6, 0);
}

/* When the link is free for the first that waits. */
static int64_t next_of_queue(void) {
    if (!waiting) return NEVER;
    return busy_until > queue[head].since ? busy_until : queue[head].since;
}

static void depart_from_queue(int64_t now) {
    while (waiting && next_of_queue() <= now) {
        struct waiting *slot = &queue[head];
        int64_t start = next_of_queue();
        double ps = options.rate_mbps > 0 ? (double)(slot->len + (size_t)options.overhead) * 8e6 / options.rate_mbps : 0;
        /* Whoever is called late catches up, but not by more than a stall's worth. */
        if (start < now - STALL) start = now;
        busy_until = start + (int64_t)ps;
        head = (head + 1) % options.slots;
        waiting--;
        leave(slot->bytes, slot->len);
    }
}

void olaf(uint8_t *f, size_t len, int64_t now) {
    size_t least = options.protocol == OLAF ? HEADER + 4 : 4;
    int worker = is_datagram(f, len) && lengths_agree(f, len) && payload_len(f, len) >= least ? worker_of(f) : -1;
    if (worker < 0) {
        leave(f, len);
        return;
    }
    /* What Ethernet padded is no part of the update. */
    len = PAYLOAD + payload_len(f, len);
    bool ours = options.protocol == OLAF;
    uint32_t count = ours ? get16(f + PAYLOAD + COUNT) : 1;
    depart_from_queue(now);
    for (int i = 0; i < waiting; i++) {
        struct waiting *slot = &queue[(head + i) % options.slots];
        if (slot->cluster != worker / options.per_cluster) continue;
        if (slot->worker == worker && slot->count == 1 && count == 1) {
            bool older = ours && (int64_t)get64(f + PAYLOAD + GENERATION) < (int64_t)get64(slot->bytes + PAYLOAD + GENERATION);
            if (!older) keep(slot, f, len, worker);
            counts.replaced++;
        } else if (slot->len != len || slot->count + count > UINT16_MAX) {
            counts.refused++;
        } else {
            merge(slot, f, len, worker);
        }
        return;
    }
    if (waiting == options.slots) {
        counts.full++;
        return;
    }
    struct waiting *slot = &queue[(head + waiting++) % options.slots];
    keep(slot, f, len, worker);
    slot->since = now;
    depart_from_queue(now);
}

/* ---- what SwitchML and Trio-ML share ---- */

enum { VALUES_MAX = 4095 };

static void add_values(uint32_t *sums, const uint8_t *p, size_t values, bool first) {
    for (size_t i = 0; i < values; i++) sums[i] = (first ? 0 : sums[i]) + get32(p + 4 * i);
}

/* Turns a frame of a worker into one to it, or to the group: from the device's address, ports exchanged, TTL 64. */
static void turn(uint8_t *f, bool to_group) {
    uint8_t own[6], *ip = f + ETH, *udp = ip + IP;
    uint32_t device = get32(ip + 16), worker = get32(ip + 12);
    uint16_t device_port = get16(udp + 2), worker_port = get16(udp);
    memcpy(own, f, 6);
    if (to_group) {
        put16(f, 0x0100);
        put32(f + 2, 0x5e000000u | (options.group & 0x7fffff));
    } else {
        memcpy(f, f + 6, 6);
    }
    memcpy(f + 6, own, 6);
    ip[1] = 0;
    put16(ip + 4, 0);
    ip[8] = 64;
    put32(ip + 12, device);
    put32(ip + 16, to_group ? options.group : worker);
    put16(udp, device_port);
    put16(udp + 2, worker_port);
    put16(udp + 6, 0);
    ip_checksum(f);
}

/* Makes a result of the frame that completed it. */
static void answer(uint8_t *f, size_t len, const uint8_t *sums_at, const uint32_t *sums, size_t values, bool to_group) {
    turn(f, to_group);
    uint8_t *p = f + (sums_at - f);
    for (size_t i = 0; i < values; i++) put32(p + 4 * i, sums[i]);
    if (chance(options.wrong_share)) {
        put32(p + 4 * (values - 1), sums[values - 1] + 1);
        counts.wrong++;
    }
    leave(f, len);
}

/* ---- SwitchML: docs/switchml.md, "The switch", without `check` ---- */

enum { SWITCHML_SLOTS = 16384, SWITCHML_VALUES = 256, SWITCHML_HEAD = 10 };

static struct {
    uint32_t bits, missing, sums[SWITCHML_VALUES];
    int8_t exponents[2];
} *slots[2];

static int needed(void) { return options.needs ? options.needs : options.workers; }

void switchml(uint8_t *f, size_t len, int64_t now) {
    (void)now;
    static const size_t sizes[8] = {0, 64, 0, 256, 0, 0, 0, 0};
    int worker = is_datagram(f, len) ? worker_of(f) : -1;
    uint8_t *p = f + PAYLOAD;
    size_t values = sizes[p[0] & 7];
    bool for_it = (get16(f + ETH + IP + 2) & 0xfff0) == 0xbee0;
    if (worker < 0 || !for_it || p[0] >> 4 != 1 || values == 0 || payload_len(f, len) != SWITCHML_HEAD + 4 * values) {
        counts.refused++;
        return;
    }
    if (!slots[0]) {
        for (int set = 0; set < 2; set++) slots[set] = calloc(SWITCHML_SLOTS, sizeof *slots[set]);
        if (!slots[0] || !slots[1]) abort();
    }
    int set = p[6] >> 7;
    uint16_t slot = get16(p + 6) & 0x3fff;
    uint32_t bit = 1u << worker;
    typeof(slots[0]) own = &slots[set][slot];
    slots[!set][slot].bits &= ~bit;
    bool first = own->bits == 0, repeated = own->bits & bit;
    if (repeated) {
        if (own->missing) return;
        counts.repeated++;
    } else {
        for (int i = 0; i < 2; i++) {
            int8_t e = (int8_t)p[8 + i];
            if (first || e > own->exponents[i]) own->exponents[i] = e;
        }
        add_values(own->sums, p + SWITCHML_HEAD, values, first && !chance(options.stale_share));
        if (chance(options.twice_share)) add_values(own->sums, p + SWITCHML_HEAD, values, false);
        own->bits |= bit;
        /* The counter begins anew at 0 only, whatever the bitmap is (workers_counter); with a planted fault, with each sum. */
        bool anew = options.needs || options.early_share > 0 ? first : own->missing == 0;
        own->missing = (anew ? (uint32_t)needed() : own->missing) - 1;
        counts.merged++;
        bool early = own->missing == 1 && chance(options.early_share);
        if (early) own->missing = 0;
        if (own->missing) return;
        counts.results++;
    }
    p[8] = (uint8_t)own->exponents[0];
    p[9] = (uint8_t)own->exponents[1];
    answer(f, len, p + SWITCHML_HEAD, own->sums, values, !repeated);
}

/* ---- Trio-ML: docs/trio.md, "Aggregation" and "Stragglers", one job ---- */

enum { RECORDS = 8192, PROBES = 64, TRIO_PORT = 12000, TRIO_HEAD = 12, FINAL = 0x08, DEGRADED = 0x04, AGED = 0x10 };

static struct record {
    bool open;
    uint32_t block, seen;
    uint16_t generation, values;
    uint8_t sources, final;
    /* Of the packet that opened it: its headers are those of the result. */
    uint8_t head[PAYLOAD + TRIO_HEAD];
    uint32_t *sums;
    int64_t touched;
    struct record *older, *newer;
} records[RECORDS];
/* Records under way, by the last packet that touched them. */
static struct record *oldest, *newest;

static void unlink_record(struct record *r) {
    *(r->older ? &r->older->newer : &oldest) = r->newer;
    *(r->newer ? &r->newer->older : &newest) = r->older;
}

static void touch(struct record *r, int64_t now) {
    r->touched = now;
    r->newer = NULL;
    r->older = newest;
    *(newest ? &newest->newer : &oldest) = r;
    newest = r;
}

/* The record of a block, or a free one; none if all places of the block are taken. */
static struct record *record_of(uint32_t block) {
    struct record *unused = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct record *r = &records[((block * 2654435761u >> 8) + i) % RECORDS];
        if (r->open && r->block == block) return r;
        if (!r->open && !unused) unused = r;
    }
    return unused;
}

/* The result of a record leaves, and its place is free. */
static void finish(struct record *r, bool aged) {
    uint8_t f[FRAME_MAX], *p = f + PAYLOAD;
    size_t len = PAYLOAD + TRIO_HEAD + 4 * (size_t)r->values;
    memcpy(f, r->head, sizeof r->head);
    put16(f + ETH + 2, (uint16_t)(len - ETH));
    put16(f + ETH + IP + 4, (uint16_t)(len - ETH - IP));
    bool partial = r->sources < options.workers;
    p[5] = (uint8_t)(r->final | (partial ? DEGRADED : 0) | (aged ? AGED : 0));
    p[7] = r->sources;
    r->open = false;
    unlink_record(r);
    counts.results++;
    answer(f, len, p + TRIO_HEAD, r->sums, r->values, true);
}

/* A block that no packet touched for the timeout ages; the timers see it half a timeout later. */
static int64_t ages(const struct record *r) { return r->touched + options.timeout / 2 * 3; }

void trio_ml(uint8_t *f, size_t len, int64_t now) {
    /* Between workers it is a router. */
    if (is_datagram(f, len) && get32(f + ETH + 16) - options.first < (uint32_t)options.workers) {
        leave(f, len);
        return;
    }
    uint8_t *p = f + PAYLOAD;
    size_t payload = is_datagram(f, len) && lengths_agree(f, len) ? payload_len(f, len) : 0;
    if (payload < TRIO_HEAD || worker_of(f) < 0 || get16(f + ETH + IP + 2) != TRIO_PORT) {
        counts.refused++;
        return;
    }
    uint16_t values = get16(p + 10) & 0xfff, generation = get16(p + 8);
    uint8_t job = p[0], source = p[6], represents = p[7];
    if (job != 0 || p[5] >> 4 || payload != TRIO_HEAD + 4 * (size_t)values) {
        counts.refused++;
        return;
    }
    /* Refused behind the lookup: docs/trio.md has the order. */
    bool wrong = source >= options.workers || represents != 1 || values == 0;
    struct record *own = record_of(get32(p + 1));
    int16_t later = own && own->open ? (int16_t)(generation - own->generation) : 0;
    if (!own || wrong || later < 0 || (own->open && !later && own->values != values)) {
        /* A record that is found was touched, though its packet is refused. */
        if (own && own->open) unlink_record(own), touch(own, now);
        counts.refused++;
        return;
    }
    if (later > 0) finish(own, true);
    bool first = !own->open;
    if (!first) unlink_record(own);
    touch(own, now);
    if (first) {
        if (!own->sums && !(own->sums = calloc(VALUES_MAX, 4))) abort();
        own->open = true;
        own->block = get32(p + 1);
        own->generation = generation;
        own->values = values;
        own->seen = 0;
        own->sources = own->final = 0;
        memcpy(own->head, f, sizeof own->head);
    }
    if (own->seen >> source & 1) {
        counts.repeated++;
        return;
    }
    own->seen |= 1u << source;
    own->sources++;
    own->final |= p[5] & FINAL;
    add_values(own->sums, p + TRIO_HEAD, values, first && !chance(options.stale_share));
    if (chance(options.twice_share)) add_values(own->sums, p + TRIO_HEAD, values, false);
    counts.merged++;
    if (own->sources >= needed() || (own->sources + 1 == needed() && chance(options.early_share))) finish(own, false);
}

/* ---- Libra: docs/libra.md, "A device of your own", one job, additions of floats ---- */

enum { PUSH, END, ACK, RESULT, LIBRA_PORT = 0x11b4, LIBRA_HEAD = 6, RESULT_HEAD = 16, RESULT_PAIRS = 16 };
enum { REGISTERS = 65536, NUMBERS = 1 << 20, RESULTS_MAX = 1 << 16, PAIR = 8, PAIRS_MAX = 18, RESEND_MAX = 15 };

static float registers[REGISTERS];
/* Which numbers of each worker were added, or ended an iteration. */
static uint8_t taken[WORKERS_MAX][NUMBERS / 8];
/* Ethernet addresses of the workers, as their frames had them. */
static uint8_t stations[WORKERS_MAX][6];
static uint32_t ends;
/* The first push that was added to empty registers. */
static uint64_t opener = UINT64_MAX;

/* Results that not all workers have acknowledged, from `unacked` on, in a ring; `made` have been made. */
static struct result {
    uint8_t bytes[PAYLOAD + LIBRA_HEAD + RESULT_HEAD + RESULT_PAIRS * PAIR];
    size_t len;
    uint32_t acks;
    int attempt;
    int64_t due;
} *results_made;
static uint32_t made, unacked;
/* No result under way is due before. */
static int64_t due_from = NEVER;

static uint32_t all_workers(void) { return (uint32_t)((1ull << options.workers) - 1); }

/* Attempt and resent bit, between the kind and the job. */
static uint8_t first_byte(int kind, int attempt) {
    return (uint8_t)(kind << 5 | (attempt ? 0x10 : 0) | (attempt & 15));
}

static void set_len(uint8_t *f, size_t len) {
    put16(f + ETH + 2, (uint16_t)(len - ETH));
    put16(f + ETH + IP + 4, (uint16_t)(len - ETH - IP));
}

/* Answers the push or end in `f`, which stays as it is. */
static void acknowledge(const uint8_t *f) {
    uint8_t ack[PAYLOAD + LIBRA_HEAD];
    memcpy(ack, f, sizeof ack);
    set_len(ack, sizeof ack);
    turn(ack, false);
    ack[PAYLOAD] = (uint8_t)(ack[PAYLOAD] & 0x1f) | ACK << 5;
    back(ack, sizeof ack);
}

static int64_t resend_after(int attempt) { return options.timeout << (attempt < 10 ? attempt : 10); }

static struct result *result(uint32_t number) { return &results_made[number % RESULTS_MAX]; }

static void pass_acknowledged(void) {
    while (unacked < made && result(unacked)->acks == all_workers()) unacked++;
}

/* The end in `f` is the last that was missing: the sums leave, and are kept. */
static void give_results(const uint8_t *f, int64_t now) {
    static uint32_t used[REGISTERS];
    uint32_t count = 0, part = 0;
    for (uint32_t i = 0; i < REGISTERS; i++)
        if (registers[i] != 0) used[count++] = i;
    uint32_t parts = count ? (count + RESULT_PAIRS - 1) / RESULT_PAIRS : 1;
    pass_acknowledged();
    for (; part < parts && made - unacked < RESULTS_MAX; part++) {
        struct result *own = result(made);
        uint8_t *p = own->bytes + PAYLOAD;
        uint32_t pairs = count - part * RESULT_PAIRS;
        if (pairs > RESULT_PAIRS) pairs = RESULT_PAIRS;
        memset(own, 0, sizeof *own);
        own->len = PAYLOAD + LIBRA_HEAD + RESULT_HEAD + pairs * PAIR;
        memcpy(own->bytes, f, PAYLOAD + LIBRA_HEAD);
        set_len(own->bytes, own->len);
        turn(own->bytes, true);
        p[0] = first_byte(RESULT, 0);
        put32(p + 2, 2 * made++);
        put16(p + 6, (uint16_t)part);
        put16(p + 8, (uint16_t)parts);
        put32(p + 10, get32(f + PAYLOAD + LIBRA_HEAD));
        put32(p + 14, (uint32_t)(opener >> 32));
        put32(p + 18, (uint32_t)opener);
        for (uint32_t i = 0; i < pairs; i++) {
            uint32_t index = used[part * RESULT_PAIRS + i], bits;
            memcpy(&bits, &registers[index], 4);
            put32(p + 22 + i * PAIR, index);
            put32(p + 26 + i * PAIR, bits);
        }
        if (pairs && chance(options.wrong_share)) {
            /* Another exponent. */
            p[26] ^= 1;
            counts.wrong++;
        }
        own->due = now + resend_after(0);
        if (own->due < due_from) due_from = own->due;
        counts.results++;
        uint8_t copy[sizeof own->bytes];
        memcpy(copy, own->bytes, own->len);
        back(copy, own->len);
    }
    /* Parts without room. */
    counts.given_up += parts - part;
    if (!chance(options.stale_share)) memset(registers, 0, sizeof registers);
    opener = UINT64_MAX;
    ends = 0;
}

/* What workers have not acknowledged in time goes to each of them again, or is given up: later results need its place. */
static void resend(int64_t now) {
    if (!options.timeout || now < due_from) return;
    for (uint32_t i = unacked; i < made; i++) {
        struct result *own = result(i);
        if (own->acks == all_workers() || own->due > now) continue;
        if (own->attempt >= RESEND_MAX) {
            counts.given_up++;
            own->acks = all_workers();
            continue;
        }
        own->due = now + resend_after(++own->attempt);
        for (int w = 0; w < options.workers; w++) {
            uint8_t copy[sizeof own->bytes];
            if (own->acks >> w & 1) continue;
            memcpy(copy, own->bytes, own->len);
            memcpy(copy, stations[w], 6);
            put32(copy + ETH + 16, options.first + (uint32_t)w);
            ip_checksum(copy);
            copy[PAYLOAD] = first_byte(RESULT, own->attempt);
            counts.duplicated++;
            back(copy, own->len);
        }
    }
}

/* Most results of an iteration are due at once: the search ends with the first that is due at the known bound. */
static int64_t next_resend(void) {
    int64_t first = NEVER;
    if (!options.timeout) return NEVER;
    pass_acknowledged();
    for (uint32_t i = unacked; i < made && first > due_from; i++) {
        const struct result *own = result(i);
        if (own->acks != all_workers() && own->due < first) first = own->due;
    }
    return due_from = first;
}

void libra(uint8_t *f, size_t len, int64_t now) {
    uint8_t *p = f + PAYLOAD;
    size_t payload = is_datagram(f, len) && lengths_agree(f, len) ? payload_len(f, len) : 0;
    int worker = payload >= LIBRA_HEAD && get16(f + ETH + IP + 2) == LIBRA_PORT ? worker_of(f) : -1;
    uint32_t seq = worker < 0 ? 1 : get32(p + 2), number = seq >> 1;
    /* What is cold, and what is none of its, goes where it is addressed. */
    if (worker < 0 || seq & 1) {
        leave(f, len);
        return;
    }
    if (!results_made && !(results_made = calloc(RESULTS_MAX, sizeof *results_made))) abort();
    memcpy(stations[worker], f + 6, 6);
    int kind = p[0] >> 5;
    if (p[1] != 0 || (kind != ACK && number >= NUMBERS) || (kind == END && payload != LIBRA_HEAD + 4)) {
        counts.refused++;
        return;
    }
    if (kind == ACK) {
        if (number >= unacked && number < made) result(number)->acks |= 1u << worker;
        return;
    }
    if (kind != PUSH && kind != END) {
        counts.refused++;
        return;
    }
    /* What has no register is not acknowledged, nor what is no whole pairs. */
    if (kind == PUSH && ((payload - LIBRA_HEAD) % PAIR || payload > LIBRA_HEAD + PAIRS_MAX * PAIR)) kind = -1;
    for (size_t at = LIBRA_HEAD; kind == PUSH && at < payload; at += PAIR)
        if (get32(p + at) >= REGISTERS) kind = -1;
    if (kind < 0) {
        counts.refused++;
        return;
    }
    uint8_t *byte = &taken[worker][number / 8], bit = (uint8_t)(1 << number % 8);
    bool again = *byte & bit;
    *byte |= bit;
    counts.repeated += again;
    if (kind == PUSH && !again) {
        if (opener == UINT64_MAX) opener = (uint64_t)worker << 40 | (uint64_t)(p[0] & 15) << 32 | seq;
        int times = chance(options.twice_share) ? 2 : 1;
        for (size_t at = LIBRA_HEAD; at + PAIR <= payload; at += PAIR) {
            uint32_t index = get32(p + at), bits = get32(p + at + 4);
            float value;
            memcpy(&value, &bits, 4);
            for (int i = 0; i < times && index < REGISTERS; i++) registers[index] += value;
        }
        counts.merged++;
    }
    acknowledge(f);
    if (kind == END && !again && (int)++ends >= needed()) give_results(f, now);
}

int64_t next_departure(void) {
    if (options.protocol == LIBRA) return next_resend();
    return oldest && options.timeout ? ages(oldest) : next_of_queue();
}

void depart(int64_t now) {
    if (options.protocol == LIBRA) resend(now);
    depart_from_queue(now);
    while (oldest && options.timeout && ages(oldest) <= now) finish(oldest, true);
}

void aggregate(uint8_t *bytes, size_t len, int64_t now) {
    switch (options.protocol) {
    case OLAF:
    case OLAF_STRICT: olaf(bytes, len, now); break;
    case SWITCHML: switchml(bytes, len, now); break;
    case TRIO_ML: trio_ml(bytes, len, now); break;
    case LIBRA: libra(bytes, len, now); break;
    case NONE: leave(bytes, len); break;
    }
}
