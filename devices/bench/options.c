/* Words of the command line that all devices understand, their counts, and their chance. */
#include "device.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = {
    .protocol = NONE, .fault = FORWARD, .share = 0.1, .wrong_share = 0, .rate_mbps = 0, .slots = 8, .workers = 9,
    .per_cluster = 3, .limit_pps = 0, .burst = 1, .seconds = 60,
};
struct counts counts;

enum { OWN_MAX = 32 };
static uint64_t random_state;

/* Splitmix64. */
uint64_t random_bits(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

bool chance(double share) {
    return (double)(random_bits() >> 11) * 0x1p-53 < share;
}

int choose(const char *what, const char *word, const char *const *names) {
    for (int i = 0; names[i]; i++)
        if (!strcmp(word, names[i])) return i;
    fprintf(stderr, "%s: --%s %s: not one of", program, what, word);
    for (int i = 0; names[i]; i++) fprintf(stderr, " %s", names[i]);
    fprintf(stderr, "\n");
    exit(2);
}

int print_counts(char *text, size_t room) {
    int len = snprintf(text, room, "{");
#define EACH(name)                                                                                                            \
    len += snprintf(text + len, room - (size_t)len, "%s\"" #name "\":%llu", len > 1 ? "," : "", (unsigned long long)counts.name);
    COUNTS(EACH)
#undef EACH
    return len + snprintf(text + len, room - (size_t)len, "}");
}

void read_options(int count, char **words, const struct option *more, bool (*own)(int, const char *)) {
    static const char *const protocols[] = {"none", "olaf", "olaf-strict", "switchml", "trio-ml", "libra", NULL};
    static const struct option common[] = {
        {"protocol", 1, 0, 'p'}, {"seed", 1, 0, 'r'},  {"wrong", 1, 0, 'w'}, {"mbps", 1, 0, 'm'},        {"slots", 1, 0, 'q'},
        {"workers", 1, 0, 'n'},  {"first", 1, 0, 'a'}, {"group", 1, 0, 'g'}, {"per-cluster", 1, 0, 'c'}, {"overhead", 1, 0, 'v'},
        {"needs", 1, 0, 'N'},    {"early", 1, 0, 'E'}, {"twice", 1, 0, 'T'}, {"stale", 1, 0, 'S'},
        {"timeout-ms", 1, 0, 'O'},
    };
    struct option known[sizeof common / sizeof common[0] + OWN_MAX] = {{0}};
    memcpy(known, common, sizeof common);
    for (size_t i = 0; more[i].name && i + 1 < OWN_MAX; i++) known[sizeof common / sizeof common[0] + i] = more[i];
    for (int c; (c = getopt_long(count, words, "", known, NULL)) != -1;) {
        switch (c) {
        case 'p': options.protocol = choose("protocol", optarg, protocols); break;
        case 'r': random_state = strtoull(optarg, NULL, 10); break;
        case 'w': options.wrong_share = atof(optarg); break;
        case 'm': options.rate_mbps = atof(optarg); break;
        case 'v': options.overhead = atoi(optarg); break;
        case 'N': options.needs = atoi(optarg); break;
        case 'E': options.early_share = atof(optarg); break;
        case 'T': options.twice_share = atof(optarg); break;
        case 'S': options.stale_share = atof(optarg); break;
        case 'O': options.timeout = (int64_t)(atof(optarg) * 1e9); break;
        case 'q': options.slots = atoi(optarg); break;
        case 'n': options.workers = atoi(optarg); break;
        case 'a': options.first = ntohl(inet_addr(optarg)); break;
        case 'c': options.per_cluster = atoi(optarg); break;
        case 'g': options.group = ntohl(inet_addr(optarg)); break;
        default:
            if (!own(c, optarg)) exit(2);
        }
    }
    bool lacks = options.slots < 1 || options.slots > SLOTS_MAX || options.workers < 1 || options.workers > WORKERS_MAX ||
                 options.per_cluster < 1 || options.overhead < 0 || options.timeout < 0;
    if (lacks) {
        fprintf(stderr, "%s: --slots up to %d, --workers up to %d, --per-cluster from 1\n", program, SLOTS_MAX, WORKERS_MAX);
        exit(2);
    }
}
