// Tables of the SwitchML device: one job, its workers in the order of their addresses.
#include "tables.h"

const char *table_help() {
    return "      workers=4 first=10.0.0.1 (address of worker 0, the others follow) address=198.18.0.1 mac=02:00:c6:12:00:01\n"
           "      group=239.192.0.0 elements=256 (or 64) pool=512\n";
}

bool write_tables(Device &device, const std::vector<std::string> &sets, std::string &wrong) {
    uint64_t workers = 4, first = 0x0a000001, address = 0xc6120001, group = 0xefc00000, elements = 256, pool = 512, mac = 0;
    for (const std::string &set : sets) {
        size_t equal = set.find('=');
        std::string name = set.substr(0, equal);
        uint64_t *to = name == "workers"  ? &workers
                       : name == "first"  ? &first
                       : name == "address" ? &address
                       : name == "mac"    ? &mac
                       : name == "group"  ? &group
                       : name == "elements" ? &elements
                       : name == "pool"   ? &pool
                                          : nullptr;
        if (!to || equal == std::string::npos || !read_value(set.substr(equal + 1), *to)) {
            wrong = "--set " + set + ": no such entry, or not a number or address";
            return false;
        }
    }
    if (workers < 1 || workers > 32 || (elements != 64 && elements != 256) || pool < 1 || pool > 512) {
        wrong = "workers are 1 to 32, elements 64 or 256, pool 1 to 512";
        return false;
    }
    device.configure(0, workers);
    device.configure(1, address);
    device.configure(2, mac ? mac : mac_of(static_cast<uint32_t>(address)));
    device.configure(3, group);
    device.configure(4, elements);
    device.configure(5, pool);
    for (uint64_t w = 0; w < workers; w++) device.configure(static_cast<unsigned>(32 + w), first + w);
    return true;
}
