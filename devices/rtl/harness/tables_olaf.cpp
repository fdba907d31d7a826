// Tables of the Olaf device: workers in the order of their addresses, clusters of so many one after the other.
#include "tables.h"

#include <cstdlib>
#include <cstring>

const char *table_help() {
    return "      workers=27 first=10.0.0.1 (address of worker 0, the others follow) per_cluster=3 server=198.18.0.1\n"
           "      group=239.192.0.0 (of cluster 0) slots=8 hold=0 (1: what leaves holds its slot) filter=0 threshold=1.5\n"
           "      server_port=1 (frames from there are the downlink) window_ns=1000000000 (how long a cluster is active)\n";
}

bool write_tables(Device &device, const std::vector<std::string> &sets, std::string &wrong) {
    uint64_t workers = 27, first = 0x0a000001, server = 0xc6120001, group = 0xefc00000, per_cluster = 3, slots = 8, hold = 0,
             filter = 0, server_port = 1, window = 1000000000;
    float threshold = 1.5f;
    const struct {
        const char *name;
        uint64_t *to;
    } known[] = {{"workers", &workers}, {"first", &first}, {"server", &server}, {"group", &group}, {"per_cluster", &per_cluster},
        {"slots", &slots}, {"hold", &hold}, {"filter", &filter}, {"server_port", &server_port}, {"window_ns", &window}};
    for (const std::string &set : sets) {
        size_t equal = set.find('=');
        std::string name = set.substr(0, equal), value = equal == std::string::npos ? "" : set.substr(equal + 1);
        bool taken = false;
        if (name == "threshold" && !value.empty()) {
            char *end;
            threshold = std::strtof(value.c_str(), &end);
            taken = *end == 0 && threshold >= 0;
        }
        for (auto &entry : known)
            if (name == entry.name) taken = read_value(value, *entry.to);
        if (!taken) {
            wrong = "--set " + set + ": no such entry, or not a number or address";
            return false;
        }
    }
    if (workers < 1 || workers > 256 || per_cluster < 1 || (workers - 1) / per_cluster > 63 || slots < 1 || slots > 16 ||
        server_port > 31) {
        wrong = "workers are 1 to 256 in up to 64 clusters, slots 1 to 16, server_port 0 to 31";
        return false;
    }
    uint32_t bits;
    std::memcpy(&bits, &threshold, 4);
    device.configure(0, workers);
    device.configure(1, first);
    device.configure(2, server);
    device.configure(3, group);
    device.configure(4, slots);
    device.configure(5, (filter != 0) | (hold != 0) << 1);
    device.configure(6, bits);
    device.configure(7, 1ull << server_port);
    device.configure(8, window);
    for (uint64_t w = 0; w < workers; w++) device.configure(static_cast<unsigned>(256 + w), w / per_cluster);
    device.server_port = static_cast<unsigned>(server_port);
    return true;
}
