/* Words of the command line that all devices understand, their counts, and their chance. */
#include "device.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = {
    .protocol = NONE, .fault = FORWARD, .share = 0.1, .wrong_share = 0, .rate_mbps = 0, .slots = 8, .workers = 9,
    .per_cluster = 3, .limit_pps = 0, .burst = 1, .seconds = 60,
};
struct counts counts;

/* A timeout of Libra's doubles ten times, and ps have 63 bits. */
enum { OWN_MAX = 32, TIMEOUT_MS_MAX = 1000000 };
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

/* A number begins with a digit: no sign, no space, neither "inf" nor "nan". */
static bool is_plain(const char *word) { return isdigit((unsigned char)word[0]); }

double number(const char *what, const char *word, double least, double most) {
    char *end = NULL;
    double value = strtod(word, &end);
    if (is_plain(word) && !*end && value >= least && value <= most) return value;
    fprintf(stderr, "%s: --%s %s: not a number from %g to %g\n", program, what, word, least, most);
    exit(2);
}

uint64_t whole(const char *what, const char *word, uint64_t least, uint64_t most) {
    char *end = NULL;
    errno = 0;
    uint64_t value = strtoull(word, &end, 10);
    if (is_plain(word) && !*end && !errno && value >= least && value <= most) return value;
    fprintf(stderr, "%s: --%s %s: not a whole number from %llu to %llu\n", program, what, word, (unsigned long long)least,
            (unsigned long long)most);
    exit(2);
}

double share(const char *what, const char *word) { return number(what, word, 0, 1); }

uint32_t address(const char *what, const char *word) {
    struct in_addr read;
    if (inet_pton(AF_INET, word, &read) == 1) return ntohl(read.s_addr);
    fprintf(stderr, "%s: --%s %s: not an IPv4 address, 0.0.0.0 to 255.255.255.255\n", program, what, word);
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
        case 'r': random_state = whole("seed", optarg, 0, UINT64_MAX); break;
        case 'w': options.wrong_share = share("wrong", optarg); break;
        case 'm': options.rate_mbps = number("mbps", optarg, 0, 1e6); break;
        case 'v': options.overhead = (int)whole("overhead", optarg, 0, FRAME_MAX); break;
        case 'N': options.needs = (int)whole("needs", optarg, 0, WORKERS_MAX); break;
        case 'E': options.early_share = share("early", optarg); break;
        case 'T': options.twice_share = share("twice", optarg); break;
        case 'S': options.stale_share = share("stale", optarg); break;
        case 'O': options.timeout = (int64_t)(number("timeout-ms", optarg, 0, TIMEOUT_MS_MAX) * 1e9); break;
        case 'q': options.slots = (int)whole("slots", optarg, 1, SLOTS_MAX); break;
        case 'n': options.workers = (int)whole("workers", optarg, 1, WORKERS_MAX); break;
        case 'a': options.first = address("first", optarg); break;
        case 'c': options.per_cluster = (int)whole("per-cluster", optarg, 1, WORKERS_MAX); break;
        case 'g': options.group = address("group", optarg); break;
        default:
            if (!own(c, optarg)) exit(2);
        }
    }
    if (optind != count) {
        fprintf(stderr, "%s: %s: not an option; each begins with --\n", program, words[optind]);
        exit(2);
    }
}
