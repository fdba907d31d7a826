// The process: reads options and tables, then serves packet sockets or a lockstep socket.
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "device.h"
#include "lockstep.h"
#include "packet.h"
#include "tables.h"

namespace {

void usage() {
    std::fprintf(stderr,
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

bool read_options(int count, char **words, Options &options) {
    static const option known[] = {{"packet", 1, nullptr, 'p'}, {"lockstep", 2, nullptr, 'l'}, {"ports", 1, nullptr, 'n'},
        {"clock-ps", 1, nullptr, 'c'}, {"counters", 1, nullptr, 'f'}, {"rate", 1, nullptr, 'r'}, {"overhead", 1, nullptr, 'o'},
        {"store", 1, nullptr, 'b'}, {"trace", 1, nullptr, 't'}, {"room", 1, nullptr, 'w'}, {"set", 1, nullptr, 's'}, {}};
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
        case 'n': options.ports = static_cast<unsigned>(std::atoi(optarg)); break;
        case 'c': options.clock_ps = std::atoll(optarg); break;
        case 'f': options.packet.counters = optarg; break;
        case 'r': options.rate = std::atof(optarg); break;
        case 'o': options.overhead = std::atoll(optarg); break;
        case 'b': options.store = std::atoll(optarg); break;
        case 'w': options.room = std::atoll(optarg); break;
        case 't': options.trace = optarg; break;
        case 's': options.sets.push_back(optarg); break;
        default: return false;
        }
    }
    size_t interfaces = options.packet.interfaces.size();
    return optind == count && options.lockstep != (interfaces > 0) && interfaces <= 32 && options.ports >= 1 &&
           options.ports <= 32 && options.clock_ps >= 1 && options.room >= 1 && options.rate >= 0 && options.store >= 64;
}

void write_event(FILE *trace, const Event &event) {
    static const char *const actions[] = {"", "appended", "merged", "subsumed", "outranked", "queue_full", "reward_low", "malformed",
        "departed"};
    std::fprintf(trace, "%lld\t%s\t%u\t%u\n", static_cast<long long>(event.t), actions[event.kind], event.worker, event.count);
}

}  // namespace

int main(int count, char **words) {
    Options options;
    if (!read_options(count, words, options)) return usage(), 2;
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
