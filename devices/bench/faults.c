/* Faults of a device's tables, headers and clocks, each with a share of its own, so that several can be had at once: docs/diagnose.md. */
#include "device.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ETH = 14, IP = 20, PAYLOAD = 42, TAG = 4, CUT = 16, VALUES = 32, BURST = 40 };

struct faults faults = {.until = 0, .after = UINT64_MAX};

static uint64_t seen;
static int burst_left;

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static void put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8), p[1] = (uint8_t)v; }

static void checksum(uint8_t *ip) {
    uint32_t sum = 0;
    put16(ip + 10, 0);
    for (int i = 0; i < IP; i += 2) sum += get16(ip + i);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 10, (uint16_t)~sum);
}

/* Whether a frame on its way towards the receiver is taken at all. */
bool takes(const uint8_t *f, size_t len) {
    seen++;
    if (seen <= faults.until || seen > faults.after) return false;
    if (faults.longest && len > faults.longest) return false;
    /* The last workers are not in the table. */
    int worker = worker_of(f);
    return worker < 0 || worker < options.workers - faults.lacks;
}

/* Changes a frame that leaves; false if it does not leave. */
bool spoil(uint8_t *f, size_t *len) {
    if (faults.bursts > 0) {
        if (!burst_left && chance(faults.bursts / BURST)) burst_left = BURST;
        if (burst_left && burst_left--) {
            counts.dropped++;
            return false;
        }
    }
    if (get16(f + 12) != 0x0800 || *len < PAYLOAD + 2 * VALUES) return true;
    if (chance(faults.swap))
        for (size_t at = PAYLOAD + VALUES + (*len - PAYLOAD - VALUES) % 4; at + 4 <= *len; at += 4) {
            uint8_t v[4] = {f[at + 3], f[at + 2], f[at + 1], f[at]};
            memcpy(f + at, v, 4);
        }
    if (chance(faults.port)) put16(f + ETH + IP + 2, (uint16_t)(get16(f + ETH + IP + 2) + 7));
    if (chance(faults.address)) {
        f[ETH + 19] ^= 8;
        checksum(f + ETH);
    }
    /* The Ethernet address alone: cards drop it, and captures do not. */
    if (chance(faults.station)) f[5] ^= 1;
    if (chance(faults.checksum)) f[ETH + 10] ^= 0x55;
    if (chance(faults.cut)) *len -= CUT;
    /* All bytes are there, and UDP says four more. */
    if (chance(faults.length)) put16(f + ETH + IP + 4, (uint16_t)(get16(f + ETH + IP + 4) + 4));
    if (*len + TAG <= FRAME_MAX && chance(faults.tag)) {
        memmove(f + 12 + TAG, f + 12, *len - 12);
        put16(f + 12, 0x8100);
        put16(f + 14, 77);
        *len += TAG;
    }
    return true;
}

/* Sends an answer to the address of somebody else. */
void lead_astray(uint8_t *f) {
    if (!chance(faults.astray)) return;
    f[ETH + 18] ^= 8;
    checksum(f + ETH);
}

/* A frame that nobody asked for, made of one that leaves: other addresses, other ports. */
bool stray(const uint8_t *f, size_t len, uint8_t *out) {
    if (len < PAYLOAD || !chance(faults.strangers)) return false;
    memcpy(out, f, len);
    memcpy(out + ETH + 12, "\xc0\x00\x02\x01\xc0\x00\x02\x02", 8);
    memset(out + PAYLOAD, 0x5a, len - PAYLOAD);
    checksum(out + ETH);
    return true;
}

bool read_fault(int key, const char *word) {
    switch (key) {
    case '1': faults.swap = share("swap", word); break;
    case '2': faults.port = share("port", word); break;
    case '3': faults.address = share("address", word); break;
    case '4': faults.checksum = share("checksum", word); break;
    case '5': faults.cut = share("cut", word); break;
    case '6': faults.tag = share("tag", word); break;
    case '7': faults.strangers = share("strangers", word); break;
    case '8': faults.acks = share("acks", word); break;
    case '9': faults.bursts = share("bursts", word); break;
    case 'W': faults.length = share("length", word); break;
    case 'Y': faults.astray = share("astray", word); break;
    case '0': faults.station = share("station", word); break;
    case 'L': faults.lacks = (int)whole("lacks", word, 0, WORKERS_MAX); break;
    case 'U': faults.until = whole("until", word, 0, UINT64_MAX); break;
    case 'A': faults.after = whole("after", word, 0, UINT64_MAX); break;
    case 'B': faults.longest = whole("longest", word, 0, UINT64_MAX); break;
    case 'K': faults.counters = word; break;
    default: return false;
    }
    return true;
}

/* Writes the counts so that a reader sees the whole of them. */
void publish(void) {
    if (!faults.counters) return;
    char text[4096], name[512];
    print_counts(text, sizeof text);
    snprintf(name, sizeof name, "%s.new", faults.counters);
    FILE *file = fopen(name, "w");
    if (!file) return;
    fprintf(file, "%s\n", text);
    if (!fclose(file)) rename(name, faults.counters);
}
