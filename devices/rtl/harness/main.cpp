// The process: reads options and tables, then serves packet sockets or a lockstep socket.
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "device.h"
#include "lockstep.h"
#include "packet.h"
#include "tables.h"

namespace {

// Of lengths, counts and periods.
constexpr int64_t LIMIT = 1'000'000'000;

void usage(FILE *out) {
    std::fprintf(out,
        "usage: %s --packet IF[,IF...] [--counters FILE] | --lockstep [PATH] [--ports N]\n"
        "  --clock-ps N      period of the clock (4000: 250 MHz)\n"
        "  --room N          frames that may wait for an input (4096)\n"
        "  --rate BITS/S     of the output link (none: a word at each edge); --overhead BYTES of a frame on it; --store BYTES\n"
        "  --trace FILE      what a queue decides and begins to send: t_ps, action, worker, count\n"
        "  --set NAME=VALUE  an entry of the tables; times without number:\n%s",
        Device::name(), table_help());
}

struct Options {
    PacketOptions packet;
    std::string path, trace;
    bool lockstep = false;
    unsigned ports = 32;
    int64_t room = 4096;
    int64_t clock_ps = 4000;
    double rate = 0;
    int64_t overhead = 0, store = 128;
    std::vector<std::string> sets;
};

// The value of an option, within this range; exits with 2 if the word is none. A number begins with a digit.
double number(const char *what, const char *word, double least, double most) {
    char *end = nullptr;
    double value = std::strtod(word, &end);
    if (std::isdigit(static_cast<unsigned char>(word[0])) && !*end && value >= least && value <= most) return value;
    std::fprintf(stderr, "device: --%s %s: not a number from %g to %g\n", what, word, least, most);
    std::exit(2);
}

int64_t whole(const char *what, const char *word, int64_t least, int64_t most) {
    char *end = nullptr;
    errno = 0;
    long long value = std::strtoll(word, &end, 10);
    if (std::isdigit(static_cast<unsigned char>(word[0])) && !*end && !errno && value >= least && value <= most) return value;
    std::fprintf(stderr, "device: --%s %s: not a whole number from %lld to %lld\n", what, word, static_cast<long long>(least),
        static_cast<long long>(most));
    std::exit(2);
}

bool read_options(int count, char **words, Options &options) {
    static const option known[] = {{"packet", 1, nullptr, 'p'}, {"lockstep", 2, nullptr, 'l'}, {"ports", 1, nullptr, 'n'},
        {"clock-ps", 1, nullptr, 'c'}, {"counters", 1, nullptr, 'f'}, {"rate", 1, nullptr, 'r'}, {"overhead", 1, nullptr, 'o'},
        {"store", 1, nullptr, 'b'}, {"trace", 1, nullptr, 't'}, {"room", 1, nullptr, 'w'}, {"set", 1, nullptr, 's'},
        {"help", 0, nullptr, 'h'}, {}};
    for (int c; (c = getopt_long(count, words, "", known, nullptr)) != -1;) {
        switch (c) {
        case 'p': {
            std::stringstream list(optarg);
            for (std::string name; std::getline(list, name, ',');) options.packet.interfaces.push_back(name);
            break;
        }
        case 'l': {
            options.lockstep = true;
            const char *path = optarg ? optarg : optind < count && words[optind][0] != '-' ? words[optind++] : nullptr;
            if (!path) path = std::getenv("PKTGEN_LOCKSTEP");
            if (!path) {
                std::fprintf(stderr, "device: --lockstep without a path, and PKTGEN_LOCKSTEP is not set\n");
                return false;
            }
            options.path = path;
            break;
        }
        case 'n': options.ports = static_cast<unsigned>(whole("ports", optarg, 1, 32)); break;
        case 'c': options.clock_ps = whole("clock-ps", optarg, 1, LIMIT); break;
        case 'f': options.packet.counters = optarg; break;
        case 'r': options.rate = number("rate", optarg, 0, 1e13); break;
        case 'o': options.overhead = whole("overhead", optarg, 0, LIMIT); break;
        case 'b': options.store = whole("store", optarg, 64, LIMIT); break;
        case 'w': options.room = whole("room", optarg, 1, LIMIT); break;
        case 't': options.trace = optarg; break;
        case 's': options.sets.push_back(optarg); break;
        case 'h': usage(stdout); std::exit(std::fflush(stdout) == 0 ? 0 : 1);
        default: return false;
        }
    }
    size_t interfaces = options.packet.interfaces.size();
    return optind == count && options.lockstep != (interfaces > 0) && interfaces <= 32;
}

void write_event(FILE *trace, const Event &event) {
    static const char *const actions[] = {"", "appended", "merged", "subsumed", "outranked", "queue_full", "reward_low", "malformed",
        "departed"};
    std::fprintf(trace, "%lld\t%s\t%u\t%u\n", static_cast<long long>(event.t), actions[event.kind], event.worker, event.count);
}

}  // namespace

int main(int count, char **words) {
    Options options;
    if (!read_options(count, words, options)) return usage(stderr), 2;
    Device device(options.clock_ps);
    device.room = static_cast<size_t>(options.room);
    if (options.rate > 0) {
        device.links[0].ps_per_byte = 8e12 / options.rate;
        device.links[0].overhead_bytes = options.overhead;
        device.links[0].store_bytes = options.store;
        options.packet.paced = true;
    }
    FILE *trace = options.trace.empty() ? nullptr : std::fopen(options.trace.c_str(), "w");
    if (!options.trace.empty() && !trace) return std::perror(options.trace.c_str()), 3;
    if (trace) device.watch = [trace](const Event &event) { write_event(trace, event); };
    std::string wrong;
    if (!write_tables(device, options.sets, wrong)) {
        std::fprintf(stderr, "device: %s\n", wrong.c_str());
        return 2;
    }
    int code = options.lockstep ? lockstep(device, options.path, options.ports) : packet(device, options.packet);
    return trace && std::fclose(trace) != 0 ? 1 : code;
}
